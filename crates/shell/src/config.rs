//! `config.py` of precision_tool, read as data: none of its code runs here.
//!
//! A line counts if it assigns a text or a whole number to a known name: `TF_DUMP_STEP = '0|5|10'`. Everything else in the
//! file is Python for the training side.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The settings of the analyst.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which steps the training dumps.
    pub dump_step: String,
    /// A file that switches fusion passes.
    pub fusion_switch_file: PathBuf,
    /// All data is below this folder.
    pub data_root: PathBuf,
    /// The least severe level that is printed.
    pub log_level: LogLevel,
    /// How much of a graph is dumped.
    pub dump_graph_value: u32,
    /// Which stages of a graph are dumped.
    pub dump_graph_level: u32,
}

/// How severe a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Everything.
    All,
    /// Not those for the developers of the tool.
    Info,
    /// Warnings and errors.
    Warning,
    /// Errors only.
    Error,
    /// Nothing: not even errors of commands that went on.
    Critical,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            dump_step: "0".to_owned(),
            fusion_switch_file: PathBuf::from("./precision_tool/fusion_switch.cfg"),
            data_root: PathBuf::from("./precision_data"),
            log_level: LogLevel::All,
            dump_graph_value: 2,
            dump_graph_level: 3,
        }
    }
}

/// Larger than any `config.py`.
const MAX_BYTES: u64 = 1 << 20;

impl Config {
    /// Reads a file. The second value names lines that set a known name to something that cannot be read.
    pub fn read(path: &Path) -> io::Result<(Config, Vec<String>)> {
        if fs::metadata(path)?.len() > MAX_BYTES {
            return Err(io::Error::other(format!("larger than {MAX_BYTES} bytes")));
        }
        let bytes = fs::read(path)?;
        let mut config = Config::default();
        let mut problems = Vec::new();
        for (number, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
            // An indented line is part of a function or class.
            let Some((name, value)) = line.split_once('=') else { continue };
            if name.starts_with([' ', '\t', '#']) {
                continue;
            }
            if let Err(expected) = config.set(name.trim(), value.trim()) {
                problems.push(format!(
                    "{}, line {}: expected {expected}; the default counts",
                    path.display(),
                    number + 1
                ));
            }
        }
        Ok((config, problems))
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        const TEXT: &str = "a text in quotes";
        const NUMBER: &str = "a whole number";
        match name {
            "TF_DUMP_STEP" => self.dump_step = text(value).ok_or(TEXT)?,
            "FUSION_SWITCH_FILE" => self.fusion_switch_file = text(value).ok_or(TEXT)?.into(),
            "DATA_ROOT_DIR" => self.data_root = text(value).ok_or(TEXT)?.into(),
            "DUMP_GE_GRAPH_VALUE" => self.dump_graph_value = number(value).ok_or(NUMBER)?,
            "DUMP_GRAPH_LEVEL_VALUE" => self.dump_graph_level = number(value).ok_or(NUMBER)?,
            "LOG_LEVEL" => {
                self.log_level = match text(value).as_deref() {
                    Some("NOTSET" | "DEBUG") => LogLevel::All,
                    Some("INFO") => LogLevel::Info,
                    Some("WARNING" | "WARN") => LogLevel::Warning,
                    Some("ERROR") => LogLevel::Error,
                    Some("CRITICAL" | "FATAL") => LogLevel::Critical,
                    _ => return Err("NOTSET, DEBUG, INFO, WARNING, ERROR or CRITICAL"),
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// A text in quotes; a comment may follow.
fn text(value: &str) -> Option<String> {
    let quote = value.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    let (inside, after) = value[1..].split_once(quote)?;
    let after = after.trim_start();
    (!inside.contains('\\') && (after.is_empty() || after.starts_with('#'))).then(|| inside.to_owned())
}

fn number(value: &str) -> Option<u32> {
    value.split('#').next()?.trim().trim_matches(['\'', '"']).parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_lines_of_the_guide_are_read_and_nothing_runs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.py");
        fs::write(
            &path,
            "import os\nos.system('touch ran')\nTF_DUMP_STEP = '0|5|10'  # steps\nLOG_LEVEL = \"ERROR\"\n\
             DATA_ROOT_DIR = './other'\nCMD_ROOT_PATH = '/usr/local/'\nASCEND_LOG_PATH = '/absent/'\n\
             FUSION_SWITCH_FILE = './precision_tool/fusion_switch.cfg'\nDUMP_GE_GRAPH_VALUE = 1\n\
             def f(x):\n    DATA_ROOT_DIR = 'inner'\nDUMP_GRAPH_LEVEL_VALUE = os.getpid()\n",
        )
        .unwrap();
        let (config, problems) = Config::read(&path).unwrap();
        assert_eq!(config.dump_step, "0|5|10");
        assert_eq!((config.log_level, config.data_root), (LogLevel::Error, PathBuf::from("./other")));
        assert_eq!((config.dump_graph_value, config.dump_graph_level), (1, 3));
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("line 12: expected a whole number"), "{problems:?}");
        assert!(!Path::new("ran").exists());
    }
}
