//! The names of calls and of their arguments, as each tool writes them.

use std::fmt;

/// Whether a call computes results or gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Results from arguments.
    Forward,
    /// Gradients of arguments from gradients of results.
    Backward,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Direction::Forward => "forward",
            Direction::Backward => "backward",
        })
    }
}

impl Direction {
    fn from_word(word: &str) -> Option<Direction> {
        match word {
            "forward" => Some(Direction::Forward),
            "backward" => Some(Direction::Backward),
            _ => None,
        }
    }
}

/// First words of API names. Any other first word is a module's path or a name of the user's.
const PREFIXES: [&str; 9] =
    ["Tensor", "Torch", "Functional", "NPU", "VF", "Aten", "Distributed", "MindSpeed", "Triton"];

/// First word of the names of modules.
const MODULE: &str = "Module";

/// First words of the keys that end in the number of the call: of PyTorch's modules, and of MindSpore's.
const NUMBERED_LAST: [&str; 2] = [MODULE, "Cell"];

/// The name of a call, independent of how a tool writes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallName {
    /// `Functional.conv2d`, `Module.blocks.0.fc.Linear`, or a name of the user's.
    pub base: String,
    /// The number of the call with that base, from 0.
    pub index: u64,
    /// Forward or backward.
    pub direction: Direction,
}

impl CallName {
    /// Reads a key of `dump.json`: `Functional.conv2d.0.forward` or `Module.conv.Conv2d.forward.0`. Gradients of
    /// parameters and saved variables are not calls.
    pub fn from_msprobe(key: &str) -> Option<CallName> {
        let (rest, last) = key.rsplit_once('.')?;
        let (base, middle) = rest.rsplit_once('.')?;
        if let Some(direction) = Direction::from_word(last) {
            return Some(CallName { base: base.to_owned(), index: number(middle)?, direction });
        }
        let direction = Direction::from_word(middle)?;
        Some(CallName { base: base.to_owned(), index: number(last)?, direction })
    }

    /// The key of `dump.json`.
    pub fn to_msprobe(&self) -> String {
        let CallName { base, index, direction } = self;
        if self.is_module() {
            format!("{base}.{direction}.{index}")
        } else {
            format!("{base}.{index}.{direction}")
        }
    }

    /// Whether this is a call of a module.
    pub fn is_module(&self) -> bool {
        is_module(&self.base)
    }

    /// As ptdbg_ascend before 6.0 writes it: `Functional_conv2d_0_forward`.
    pub fn to_underscores(&self) -> String {
        format!("{}_{}_{}", self.underscored_base(), self.index, self.direction)
    }

    /// As ptdbg_ascend 6.0 writes it: `Functional.conv2d.0.forward`, `conv.Conv2d.0.forward`.
    pub fn to_dots(&self) -> String {
        let path = self.base.strip_prefix("Module.").filter(|path| path.contains('.'));
        format!("{}.{}.{}", path.unwrap_or(&self.base), self.index, self.direction)
    }

    /// As torch_npu.hooks writes it, without a number: `Functional_conv2d_forward`.
    pub fn to_unnumbered(&self) -> String {
        format!("{}_{}", self.underscored_base(), self.direction)
    }

    /// Only the first word is separated by an underscore: later dots belong to the name.
    fn underscored_base(&self) -> String {
        match self.base.split_once('.') {
            Some((prefix, rest)) if is_known(prefix) => format!("{prefix}_{rest}"),
            _ => self.base.clone(),
        }
    }
}

/// Whether the calls of a base are those of a module: `Module.fc.Linear`.
pub fn is_module(base: &str) -> bool {
    base.split_once('.').is_some_and(|(first, _)| NUMBERED_LAST.contains(&first))
}

fn is_known(prefix: &str) -> bool {
    prefix == MODULE || PREFIXES.contains(&prefix)
}

/// What a line of a `.pkl` describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An argument; for a backward call, what the tool calls its input.
    Input,
    /// A result.
    Output,
    /// Where the call was made.
    Stack,
}

/// The name at the start of a line, split into its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineName {
    /// As in [`CallName::base`].
    pub base: String,
    /// Absent in names of torch_npu.hooks.
    pub index: Option<u64>,
    /// Forward or backward.
    pub direction: Direction,
    /// Argument, result or stack.
    pub role: Role,
    /// Position, and positions within it: empty for a single result.
    pub path: Vec<usize>,
}

impl LineName {
    /// Reads a name of ptdbg_ascend, with underscores or dots.
    pub fn from_ptdbg(name: &str) -> Option<LineName> {
        let (rest, path) = split_path(name)?;
        if let Some((rest, role)) = split_role(rest, '.')
            && let Some((rest, direction)) = split_direction(rest, '.')
        {
            let (base, index) = rest.rsplit_once('.')?;
            let index = Some(number(index)?);
            return Some(LineName { base: module_path(base), index, direction, role, path });
        }
        let (rest, role) = split_role(rest, '_')?;
        let (rest, direction) = split_direction(rest, '_')?;
        let (base, index) = rest.rsplit_once('_')?;
        Some(LineName { base: dotted(base), index: Some(number(index)?), direction, role, path })
    }

    /// Reads a name of torch_npu.hooks, with or without its running number.
    pub fn from_hooks(name: &str) -> Option<LineName> {
        let unnumbered = name.trim_start_matches(|digit: char| digit.is_ascii_digit());
        let name = match unnumbered.strip_prefix('_') {
            Some(rest) if unnumbered.len() < name.len() => rest,
            _ => name,
        };
        let (rest, path) = split_path(name)?;
        let (rest, role) = split_role(rest, '_')?;
        let (base, direction) = split_direction(rest, '_')?;
        Some(LineName { base: dotted(base), index: None, direction, role, path })
    }
}

/// `Functional_batch_norm` → `Functional.batch_norm`. Op names contain underscores, first words do not.
fn dotted(base: &str) -> String {
    match base.split_once('_') {
        Some((prefix, rest)) if is_known(prefix) && !rest.is_empty() => format!("{prefix}.{rest}"),
        _ => base.to_owned(),
    }
}

/// 6.0 names a module's call by path and class only.
fn module_path(base: &str) -> String {
    match base.split_once('.') {
        Some((prefix, _)) if !is_known(prefix) => format!("{MODULE}.{base}"),
        _ => base.to_owned(),
    }
}

/// The positions after a name: `…input.3.0` → `…input`, `[3, 0]`.
fn split_path(name: &str) -> Option<(&str, Vec<usize>)> {
    let mut rest = name;
    let mut path = Vec::new();
    while let Some((front, position)) = rest.rsplit_once('.') {
        if position.is_empty() || !position.bytes().all(|byte| byte.is_ascii_digit()) {
            break;
        }
        path.push(position.parse().ok()?);
        rest = front;
    }
    path.reverse();
    Some((rest, path))
}

fn split_role(name: &str, separator: char) -> Option<(&str, Role)> {
    let words = [("input", Role::Input), ("output", Role::Output), ("stack_info", Role::Stack)];
    words.into_iter().find_map(|(word, role)| {
        let rest = name.strip_suffix(word)?.strip_suffix(separator)?;
        Some((rest, role))
    })
}

fn split_direction(name: &str, separator: char) -> Option<(&str, Direction)> {
    let (rest, word) = name.rsplit_once(separator)?;
    Some((rest, Direction::from_word(word)?))
}

/// The number of a call: digits only, because `parse` alone would accept a sign.
fn number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse::<u32>().ok()).flatten().map(u64::from)
}
