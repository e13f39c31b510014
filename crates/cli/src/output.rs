//! Output: results to standard output, errors and notes to standard error.

use std::io::{self, ErrorKind, Write};

use clap::builder::StyledStr;
use serde_json::{Value, json};
use ulpscope_report::{ColourChoice, Emphasis, Table, Terminal, escape};
use ulpscope_session::Block;

use crate::exit::Exit;

/// The two streams of a command, and what the terminal supports.
pub(crate) struct Output {
    results: Box<dyn Write + Send>,
    complaints: Box<dyn Write + Send>,
    terminal: Terminal,
    /// Whether the results are JSON, which includes errors.
    is_json: bool,
    /// Whether any results were written.
    has_begun: bool,
}

/// How to show results.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    pub(crate) colour: ColourChoice,
    /// Whether lines may be wider than the terminal.
    pub(crate) wide: bool,
    /// Whether the results are one JSON object.
    pub(crate) json: bool,
}

impl Output {
    /// The streams of this process.
    pub(crate) fn of_process(look: Look) -> Output {
        let mut terminal = Terminal::of_stdout(look.colour);
        if look.wide {
            terminal.width = None;
        }
        Output {
            results: Box::new(io::BufWriter::new(io::stdout())),
            complaints: Box::new(io::stderr()),
            terminal,
            is_json: look.json,
            has_begun: false,
        }
    }

    /// One line of results.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        self.piece_of_text(&format!("{}\n", escape::terminal(text)))
    }

    /// One line of results in the colour of its emphasis.
    pub(crate) fn verdict(&mut self, text: &str, emphasis: Emphasis) -> io::Result<()> {
        let line = self.terminal.paint(text, emphasis);
        self.piece_of_text(&format!("{line}\n"))
    }

    /// One line of an explanation, wrapped to the terminal. A command to copy is not wrapped.
    pub(crate) fn prose(&mut self, line: &str) -> io::Result<()> {
        if line.trim_start().starts_with("ulpscope") {
            return self.line(line);
        }
        let lines = self.terminal.prose(line);
        lines.iter().try_for_each(|line| self.piece_of_text(&format!("{line}\n")))
    }

    /// A piece of a summary.
    pub(crate) fn block(&mut self, block: &Block) -> io::Result<()> {
        match block {
            Block::Table(table) => self.table(table),
            Block::Prose(line) => self.prose(line),
            Block::Line(line) => self.line(line),
        }
    }

    /// A table, as text.
    pub(crate) fn table(&mut self, table: &Table) -> io::Result<()> {
        let text = self.terminal.render(table);
        self.piece_of_text(&text)
    }

    /// One JSON document.
    pub(crate) fn json(&mut self, value: &Value) -> io::Result<()> {
        self.piece(&format!("{value:#}\n"))
    }

    /// A part of a JSON document that is too long for memory.
    pub(crate) fn piece(&mut self, text: &str) -> io::Result<()> {
        self.piece_of_text(&escape::json(text))
    }

    fn piece_of_text(&mut self, text: &str) -> io::Result<()> {
        self.escaped_bytes(text.as_bytes())
    }

    /// Bytes of an already escaped text; they may end within a character.
    pub(crate) fn escaped_bytes(&mut self, piece: &[u8]) -> io::Result<()> {
        self.has_begun = true;
        self.results.write_all(piece)
    }

    /// One line about an error or something left out. Results written so far come first.
    pub(crate) fn complain(&mut self, text: &str) {
        // If standard error is closed, the exit code still reports it.
        let _ = self.results.flush();
        let _ = writeln!(self.complaints, "{}", escape::terminal(text));
    }

    /// The error that ended the command: for people, and as JSON if the results are JSON.
    pub(crate) fn fail(&mut self, message: &str) -> Exit {
        let exit = Exit::Failed;
        if self.is_json && !self.has_begun {
            // If the pipe is closed, the exit code still reports it.
            let _ = self.error_object(message, exit);
        }
        self.complain(&format!("error: {message}"));
        exit
    }

    /// The error in the command line, and the correct usage.
    pub(crate) fn usage(&mut self, text: &str) -> Exit {
        let exit = Exit::Failed;
        if self.is_json {
            let message = text.split("\n\n").next().unwrap_or(text).trim();
            let message = message.strip_prefix("error: ").unwrap_or(message);
            let _ = self.error_object(message, exit);
        }
        let _ = self.results.flush();
        let _ = writeln!(self.complaints, "{}", escape::lines(text.trim_end()));
        exit
    }

    /// The help.
    pub(crate) fn help(&mut self, text: &StyledStr) -> io::Result<()> {
        let text = if self.terminal.colour { text.ansi().to_string() } else { text.to_string() };
        self.piece_of_text(&text)
    }

    fn error_object(&mut self, message: &str, exit: Exit) -> io::Result<()> {
        self.json(&json!({ "error": { "message": message, "exit_code": exit.code() } }))
    }

    /// Notes, then errors.
    pub(crate) fn notes_and_errors(&mut self, notes: &[String], errors: &[String]) {
        for note in notes {
            self.complain(&format!("note: {note}"));
        }
        for error in errors {
            self.complain(&format!("error: {error}"));
        }
    }

    /// Flushes everything written so far.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.results.flush()
    }
}

/// The same result, but a closed pipe is no error.
pub(crate) fn unless_broken_pipe(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Whether the reader of our output has closed the pipe, as `head` does.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
    })
}
