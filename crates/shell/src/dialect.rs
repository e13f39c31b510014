//! The two shells: prompts, and one row for each command.

use crate::commands::{
    auto_check, compare_two, convert, help, list_ops, node_info, pkl, print, result_summary, train,
    vector_compare,
};
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
    /// The same in Chinese, where the guide says it.
    pub(crate) chinese: Option<&'static str>,
    /// The words after its options; nothing if it takes none.
    pub(crate) words: &'static str,
    pub(crate) options: &'static [OptionRow],
    pub(crate) run: fn(&Session, &Options) -> Reply,
}

const HELP: CommandRow = CommandRow {
    name: "help",
    about: "list the commands",
    chinese: None,
    words: "[COMMAND]",
    options: &[],
    run: help::run,
};

const PRECISION_TOOL: &[CommandRow] = &[
    CommandRow {
        name: "ac",
        about: "check everything: results of vc, fusion passes, overflows, casts; with -c, run vc first",
        chinese: Some("自动化检测命令：列出Fusion信息；解析算子溢出信息；(-c)进行全网比对"),
        words: "",
        options: &[OptionRow::switch("-c", "--vector_compare"), OptionRow::value("-l", "--limit", "OPS")],
        run: auto_check::run,
    },
    CommandRow {
        name: "ls",
        about: "list operators of the graph, or count them by type",
        chinese: Some("通过[算子名]/[算子类型]查询网络里的算子，模糊匹配"),
        words: "[…]",
        options: &[
            OptionRow::value("-n", "--name", "TEXT"),
            OptionRow::value("-t", "--type", "TEXT"),
            OptionRow::value("-f", "--fusion", "TEXT"),
            OptionRow::value("-k", "--kernel_name", "TEXT"),
        ],
        run: list_ops::run,
    },
    CommandRow {
        name: "ni",
        about: "show an operator: its description, its neighbours and its tensors",
        chinese: Some("通过[算子名]查询算子节点信息"),
        words: "[OP]",
        options: &[
            OptionRow::value("-n", "--name", "OP"),
            OptionRow::value("-g", "--graph", "GRAPH"),
            OptionRow::switch("-a", "--attr"),
            OptionRow::switch("-c", "--check"),
            OptionRow::value("-s", "--save", "DEPTH"),
        ],
        run: node_info::run,
    },
    CommandRow {
        name: "pt",
        about: "show a tensor, and write its values to a text file beside it",
        chinese: Some("查看某个dump数据块的数据信息"),
        words: "[FILE|NAME]",
        options: &[OptionRow::value("-n", "--name", "FILE|NAME")],
        run: print::precision_tool,
    },
    CommandRow {
        name: "cp",
        about: "compare two tensors as a whole and by element",
        chinese: Some("对比两个tensor的数据"),
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
        chinese: None,
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
        about: "compare an NPU dump with a second one, or with a TF dump",
        chinese: None,
        words: "",
        options: &[
            OptionRow::value("-lt", "--left", "DIR"),
            OptionRow::value("-rt", "--right", "DIR"),
            OptionRow::value("-g", "--graph", "GRAPH"),
        ],
        run: vector_compare::precision_tool,
    },
    CommandRow {
        name: "vcs",
        about: "show the operators of a result of vc that differ",
        chinese: None,
        words: "",
        options: &[
            OptionRow::value("-f", "--file", "FILE|DIR"),
            OptionRow::value("-c", "--cos_sim", "COSINE"),
            OptionRow::value("-l", "--limit", "OPS"),
        ],
        run: result_summary::run,
    },
    CommandRow {
        name: "train",
        about: "run one step of a training from its checkpoint, and dump its tensors",
        chinese: None,
        words: "",
        options: &[
            OptionRow::value("-d", "--device", "all|cpu|npu"),
            OptionRow::value("-a", "--action", "dump|overflow"),
        ],
        run: train::run,
    },
    HELP,
];

const PARSE: &[CommandRow] = &[
    CommandRow {
        name: "vc",
        about: "compare the ACL dump files of two folders",
        chinese: None,
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
        chinese: None,
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
        chinese: None,
        words: "",
        options: &[OptionRow::required("-n", "--name", "FILE")],
        run: print::parse,
    },
    CommandRow {
        name: "pk",
        about: "show the statistics and stacks of an API in a .pkl",
        chinese: None,
        words: "",
        options: &[OptionRow::required("-f", "--file", "PKL"), OptionRow::required("-n", "--name", "API")],
        run: pkl::run,
    },
    CommandRow {
        name: "cn",
        about: "compare two tensors as a whole and by element",
        chinese: None,
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

    /// Whether a command takes names of operators, for completion.
    pub fn takes_operators(self, command: &str) -> bool {
        let is_named = |word: &str| word.split('|').any(|word| word.trim_matches(['[', ']']).ends_with("OP"));
        self.command(command).is_some_and(|row| is_named(row.words) || row.name == "ls")
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
    /// What it does, in the language of the session.
    pub(crate) fn description(&self, is_chinese: bool) -> &'static str {
        self.chinese.filter(|_| is_chinese).unwrap_or(self.about)
    }

    /// `usage: cn -m FILE -g FILE [-p ROWS] …`.
    pub(crate) fn usage(&self) -> String {
        let mut words = vec![format!("usage: {}", self.name)];
        words.extend(self.options.iter().map(OptionRow::usage));
        words.extend((!self.words.is_empty()).then(|| self.words.to_owned()));
        words.join(" ")
    }
}
