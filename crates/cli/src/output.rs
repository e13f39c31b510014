//! Where words go: results to standard output, complaints to standard error.

use std::io::{self, ErrorKind, Write};

use clap::builder::StyledStr;
use serde_json::{Value, json};
use ulpscope_report::{ColourChoice, Emphasis, Table, Terminal, escape};
use ulpscope_session::Block;

use crate::exit::Exit;

/// The two streams of a command, and what the reader of the first can show.
pub(crate) struct Output {
    results: Box<dyn Write + Send>,
    complaints: Box<dyn Write + Send>,
    terminal: Terminal,
    /// Whether a program reads the results, and an error is one of them.
    is_json: bool,
    /// Whether there are any results yet.
    has_begun: bool,
}

/// How results are to be shown.
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

    /// One line of an explanation, broken to fit the terminal. A command to copy is left whole.
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

    /// A part of a JSON document too long to be held, as it is made.
    pub(crate) fn piece(&mut self, text: &str) -> io::Result<()> {
        self.piece_of_text(&escape::json(text))
    }

    fn piece_of_text(&mut self, text: &str) -> io::Result<()> {
        self.escaped_bytes(text.as_bytes())
    }

    /// Bytes of a text that was escaped for its medium before; they may end within a character.
    pub(crate) fn escaped_bytes(&mut self, piece: &[u8]) -> io::Result<()> {
        self.has_begun = true;
        self.results.write_all(piece)
    }

    /// One line about something that went wrong or was left out. Results written so far come first.
    pub(crate) fn complain(&mut self, text: &str) {
        // When standard error is gone there is nobody left to tell, and the exit code still does.
        let _ = self.results.flush();
        let _ = writeln!(self.complaints, "{}", escape::terminal(text));
    }

    /// What ended the command: for people, and where a program reads the results, for that too.
    pub(crate) fn fail(&mut self, message: &str) -> Exit {
        let exit = Exit::Failed;
        if self.is_json && !self.has_begun {
            // A reader that is gone is not told, and the exit code still tells.
            let _ = self.error_object(message, exit);
        }
        self.complain(&format!("error: {message}"));
        exit
    }

    /// What is wrong with the command line, and how it is to be written.
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
