//! The two shells: prompts, and one row for each command.

use crate::commands::{compare_two, convert, help, pkl, print, vector_compare};
use crate::options::{OptionRow, Options};
use crate::reply::Reply;
use crate::session::Session;

/// Whose commands are spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// precision_tool, for TensorFlow.
    PrecisionTool,
    /// ptdbg_ascend.parse, for PyTorch.
    Parse,
}

/// One command.
pub(crate) struct CommandRow {
    pub(crate) name: &'static str,
    /// What it does, in one line.
    pub(crate) about: &'static str,
    /// The words after its options; nothing if it takes none.
    pub(crate) words: &'static str,
    pub(crate) options: &'static [OptionRow],
    pub(crate) run: fn(&Session, &Options) -> Reply,
}

const HELP: CommandRow =
    CommandRow { name: "help", about: "list the commands", words: "[COMMAND]", options: &[], run: help::run };

const PRECISION_TOOL: &[CommandRow] = &[
    CommandRow {
        name: "pt",
        about: "show a tensor, and write its values to a text file beside it",
        words: "[FILE|NAME]",
        options: &[OptionRow::value("-n", "--name", "FILE|NAME")],
        run: print::precision_tool,
    },
    CommandRow {
        name: "cp",
        about: "compare two tensors as a whole and by element",
        words: "LEFT RIGHT",
        options: &[
            OptionRow::value("-n", "--name", "LEFT"),
            OptionRow::value("-p", "--print", "ROWS"),
            OptionRow::switch("-s", "--save"),
            OptionRow::value("-al", "--atol", "ATOL"),
            OptionRow::value("-rl", "--rtol", "RTOL"),
        ],
        run: compare_two::precision_tool,
    },
    CommandRow {
        name: "dc",
        about: "convert NPU dump files to npy",
        words: "[FILE|DIR|OP]",
        options: &[
            OptionRow::value("-n", "--name", "FILE|DIR|OP"),
            OptionRow::value("-f", "--format", "FORMAT"),
            OptionRow::value("-o", "--output", "DIR"),
        ],
        run: convert::precision_tool,
    },
    CommandRow {
        name: "vc",
        about: "compare the NPU dump files of two folders",
        words: "",
        options: &[
            OptionRow::value("-lt", "--left", "DIR"),
            OptionRow::value("-rt", "--right", "DIR"),
            OptionRow::value("-g", "--graph", "GRAPH"),
        ],
        run: vector_compare::precision_tool,
    },
    HELP,
];

const PARSE: &[CommandRow] = &[
    CommandRow {
        name: "vc",
        about: "compare the ACL dump files of two folders",
        words: "",
        options: &[
            OptionRow::required("-m", "--my_dump_path", "MY_DUMP_PATH"),
            OptionRow::required("-g", "--golden_dump_path", "GOLDEN_DUMP_PATH"),
            OptionRow::value("-out", "--output_path", "OUTPUT_PATH"),
            OptionRow::value("-asc", "--ascend_path", "MSACCUCMP"),
        ],
        run: vector_compare::parse,
    },
    CommandRow {
        name: "dc",
        about: "convert ACL dump files to npy",
        words: "",
        options: &[
            OptionRow::required("-n", "--name", "FILE|DIR"),
            OptionRow::value("-f", "--format", "FORMAT"),
            OptionRow::value("-out", "--output_path", "OUTPUT_PATH"),
            OptionRow::value("-asc", "--ascend_path", "MSACCUCMP"),
        ],
        run: convert::parse,
    },
    CommandRow {
        name: "pt",
        about: "show a tensor, and write its values to a text file beside it",
        words: "",
        options: &[OptionRow::required("-n", "--name", "FILE")],
        run: print::parse,
    },
    CommandRow {
        name: "pk",
        about: "show the statistics and stacks of an API in a .pkl",
        words: "",
        options: &[OptionRow::required("-f", "--file", "PKL"), OptionRow::required("-n", "--name", "API")],
        run: pkl::run,
    },
    CommandRow {
        name: "cn",
        about: "compare two tensors as a whole and by element",
        words: "",
        options: &[
            OptionRow::required("-m", "--my_dump_path", "FILE"),
            OptionRow::required("-g", "--golden_dump_path", "FILE"),
            OptionRow::value("-p", "--print", "ROWS"),
            OptionRow::switch("-s", "--save"),
            OptionRow::value("-al", "--atol", "ATOL"),
            OptionRow::value("-rl", "--rtol", "RTOL"),
        ],
        run: compare_two::parse,
    },
    HELP,
];

impl Dialect {
    /// What stands before the user's line.
    pub fn prompt(self) -> &'static str {
        match self {
            Dialect::PrecisionTool => "PrecisionTool > ",
            Dialect::Parse => "Parse >>> ",
        }
    }

    /// The word that runs a program whose name is also a command's.
    pub(crate) fn run_word(self) -> Option<&'static str> {
        match self {
            Dialect::PrecisionTool => Some("run"),
            Dialect::Parse => None,
        }
    }

    /// The words that a line may begin with, for completion.
    pub fn first_words(self) -> impl Iterator<Item = &'static str> {
        self.commands().iter().map(|row| row.name).chain(self.run_word()).chain(crate::session::LEAVE)
    }

    pub(crate) fn commands(self) -> &'static [CommandRow] {
        match self {
            Dialect::PrecisionTool => PRECISION_TOOL,
            Dialect::Parse => PARSE,
        }
    }

    pub(crate) fn command(self, name: &str) -> Option<&'static CommandRow> {
        self.commands().iter().find(|row| row.name == name)
    }
}

impl CommandRow {
    /// `usage: cn -m FILE -g FILE [-p ROWS] …`.
    pub(crate) fn usage(&self) -> String {
        let mut words = vec![format!("usage: {}", self.name)];
        words.extend(self.options.iter().map(OptionRow::usage));
        words.extend((!self.words.is_empty()).then(|| self.words.to_owned()));
        words.join(" ")
    }
}
