//! One session: lines in, answers out.

use std::path::PathBuf;

use crate::cancel::Cancel;
use crate::commands::overflow_panels;
use crate::config::{Config, LogLevel};
use crate::dialect::Dialect;
use crate::folders::DataFolders;
use crate::graphs::GraphStore;
use crate::options::Options;
use crate::reply::Reply;
use crate::words;

/// The words that end a session.
pub(crate) const LEAVE: [&str; 2] = ["exit", "quit"];

/// What a line asks for.
#[derive(Debug)]
pub enum Step {
    /// A command was run.
    Answered(Reply),
    /// A line for the user's own shell, exactly as it was typed.
    Program(String),
    /// The session ends.
    Leave,
}

/// A session of one of the shells.
#[derive(Clone, Debug)]
pub struct Session {
    pub(crate) dialect: Dialect,
    pub(crate) folders: DataFolders,
    pub(crate) cancel: Cancel,
    pub(crate) graphs: GraphStore,
    /// Whether what the guide says in Chinese is said in Chinese.
    pub(crate) is_chinese: bool,
    log_level: LogLevel,
}

impl Session {
    /// A session over the folder that the configuration names.
    pub fn new(dialect: Dialect, config: &Config) -> Session {
        Session {
            dialect,
            folders: DataFolders::new(config.data_root.clone()),
            cancel: Cancel::default(),
            graphs: GraphStore::default(),
            is_chinese: false,
            log_level: config.log_level,
        }
    }

    /// The same session, with the Chinese texts of the guide where it has them.
    pub fn in_chinese(self) -> Session {
        Session { is_chinese: true, ..self }
    }

    /// The overflows that a device detected, as `ac` shows them: those of some files.
    pub fn overflows(&self, limit: usize, files: &[PathBuf]) -> Reply {
        self.spoken(overflow_panels::panels(self, limit, Some(files)))
    }

    /// The names of operators that begin with a text.
    pub fn op_names(&self, beginning: &str) -> Vec<String> {
        self.graphs.op_names(&self.folders.debug_runs(), beginning)
    }

    /// Whose commands are spoken.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Where the data is.
    pub fn folders(&self) -> &DataFolders {
        &self.folders
    }

    /// Ends a running command.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Runs a line.
    pub fn execute(&self, line: &str) -> Step {
        let line = line.trim();
        let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        if LEAVE.contains(&line) {
            return Step::Leave;
        }
        if self.dialect.run_word() == Some(first) {
            return match rest.trim() {
                "" => Step::Answered(self.spoken(Reply::failed("run: say which program"))),
                program => Step::Program(program.to_owned()),
            };
        }
        match self.dialect.command(first) {
            None if line.is_empty() => Step::Answered(Reply::default()),
            None => Step::Program(line.to_owned()),
            Some(_) => Step::Answered(match words::split(rest) {
                Ok(words) => self.command(first, &words),
                Err(problem) => self.spoken(Reply::failed(format!("{first}: {problem}"))),
            }),
        }
    }

    /// Runs a command of the dialect whose words are separate already.
    pub fn command(&self, name: &str, words: &[String]) -> Reply {
        let Some(row) = self.dialect.command(name) else {
            return Reply::failed(format!("{name}: no such command; help lists them"));
        };
        let usage = |problem: String| {
            let mut reply = Reply::failed(format!("{name}: {problem}"));
            reply.complaints.insert(0, row.usage());
            reply
        };
        if words.iter().any(|word| word == "-h" || word == "--help") {
            let mut reply = Reply::default();
            reply.line(&row.usage());
            reply.line(row.description(self.is_chinese));
            return reply;
        }
        let options = match Options::read(words, row.options) {
            Ok(options) => options,
            Err(problem) => return self.spoken(usage(problem)),
        };
        if let Err(problem) = options.require(row.options) {
            return self.spoken(usage(problem));
        }
        if row.words.is_empty() && !options.words.is_empty() {
            return self.spoken(usage(format!("unrecognized arguments: {}", options.words.join(" "))));
        }
        let reply = self.cancel.during(|| (row.run)(self, &options));
        if self.cancel.is_asked() {
            self.cancel.clear();
            return Reply::failed(format!("{name}: cancelled"));
        }
        self.spoken(reply)
    }

    /// Without the lines that the configured level silences.
    fn spoken(&self, mut reply: Reply) -> Reply {
        reply.complaints.retain(|line| level_of(line) >= self.log_level);
        if self.log_level > LogLevel::Info {
            reply.text =
                reply.text.split_inclusive('\n').filter(|line| !line.starts_with("[INFO]")).collect();
        }
        reply
    }
}

fn level_of(line: &str) -> LogLevel {
    if line.starts_with("[INFO]") {
        LogLevel::Info
    } else if line.starts_with("[WARNING]") {
        LogLevel::Warning
    } else {
        LogLevel::Error
    }
}
