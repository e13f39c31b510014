//! Where words go: results to standard output, complaints to standard error.

use std::io::{self, ErrorKind, Write};

use ulpscope_report::{Cell, Table, Terminal};

/// The two streams of a command, and what the reader of the first can show.
pub(crate) struct Output {
    results: Box<dyn Write + Send>,
    complaints: Box<dyn Write + Send>,
    terminal: Terminal,
}

impl Output {
    /// The streams of this process.
    pub(crate) fn of_process() -> Output {
        Output {
            results: Box::new(io::BufWriter::new(io::stdout())),
            complaints: Box::new(io::stderr()),
            terminal: Terminal::of_stdout(),
        }
    }

    /// One line of results.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.results, "{}", Cell::text(text))
    }

    /// A table, as text.
    pub(crate) fn table(&mut self, table: &Table) -> io::Result<()> {
        self.results.write_all(self.terminal.render(table).as_bytes())
    }

    /// One JSON document.
    pub(crate) fn json(&mut self, value: &serde_json::Value) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut self.results, value)?;
        self.results.write_all(b"\n")
    }

    /// A part of a JSON document too long to be held, as it is made.
    pub(crate) fn piece(&mut self, text: &str) -> io::Result<()> {
        self.results.write_all(text.as_bytes())
    }

    /// The same, for text that lies in a file.
    pub(crate) fn bytes(&mut self, piece: &[u8]) -> io::Result<()> {
        self.results.write_all(piece)
    }

    /// One line about something that went wrong or was left out. Results written so far come first.
    pub(crate) fn complain(&mut self, text: &str) {
        // When standard error is gone there is nobody left to tell, and the exit code still does.
        let _ = self.results.flush();
        // Names out of files are part of the text: shown through a cell, they cannot move the cursor.
        let _ = writeln!(self.complaints, "{}", Cell::text(text));
    }

    /// What was left out, then what went wrong.
    pub(crate) fn notes_and_errors(&mut self, notes: &[String], errors: &[String]) {
        for note in notes {
            self.complain(&format!("note: {note}"));
        }
        for error in errors {
            self.complain(&format!("error: {error}"));
        }
    }

    /// Hands everything written so far to the reader.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.results.flush()
    }
}

/// The same, but for a reader that has gone away.
pub(crate) fn unless_broken_pipe(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Whether the reader of our output has gone away, as `head` does when it has seen enough.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
    })
}
