//! Call stacks, as frames and as lines of text.

use std::collections::HashMap;
use std::io::Write;

use super::Report;
use crate::bytes::Bytes;
use crate::error::Error;
use crate::msprobe::{Stack, StackForm, StackJson, StackWriter};
use crate::pkl_lines::Frame;

/// A frame as msprobe writes it.
pub fn frame_to_line(frame: &Frame) -> String {
    let Frame { file, line, function, code } = frame;
    match code {
        Some(code) if file.is_empty() && line.is_empty() => code.clone(),
        Some(code) => format!("File {file}, line {line}, in {function}, \n {code}"),
        None => format!("File {file}, line {line}, in {function}"),
    }
}

/// A line of msprobe's as a frame. A line of a different form is kept whole in the field for the code.
pub fn line_to_frame(line: &str) -> Frame {
    let (place, code) = match line.split_once(", \n ") {
        Some((place, code)) => (place, Some(code.to_owned())),
        None => (line, None),
    };
    let parts = place.strip_prefix("File ").and_then(|place| place.rsplit_once(", in ")).and_then(
        |(place, function)| {
            let (file, number) = place.rsplit_once(", line ")?;
            Some((file, number, function))
        },
    );
    match parts {
        Some((file, number, function)) => {
            Frame { file: file.to_owned(), line: number.to_owned(), function: function.to_owned(), code }
        }
        None => Frame {
            file: String::new(),
            line: String::new(),
            function: String::new(),
            code: Some(line.to_owned()),
        },
    }
}

/// The `FrameInfo(...)` that torch_npu.hooks prints, as a line; kept whole if it has a different form.
pub fn frame_info_to_line(info: &str) -> String {
    parse_frame_info(info).map_or_else(|| info.to_owned(), |frame| frame_to_line(&frame))
}

fn parse_frame_info(info: &str) -> Option<Frame> {
    let (_, rest) = info.split_once(", filename=")?;
    let (file, rest) = python_text(rest)?;
    let rest = rest.strip_prefix(", lineno=")?;
    let (line, rest) = rest.split_once(", function=")?;
    let (function, rest) = python_text(rest)?;
    let rest = rest.strip_prefix(", code_context=")?;
    let code = rest.strip_prefix('[').and_then(python_text).map(|(code, _)| code.trim().to_owned());
    Some(Frame { file, line: line.to_owned(), function, code })
}

/// A string in the form of Python's `repr`, and the text after it.
fn python_text(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|first| matches!(first, '\'' | '"'))?;
    let mut decoded = String::new();
    let mut characters = text[1..].chars();
    loop {
        match characters.next()? {
            end if end == quote => return Some((decoded, characters.as_str())),
            '\\' => decoded.push(match characters.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                other => other,
            }),
            other => decoded.push(other),
        }
    }
}

/// Collects stacks, equal ones together, and writes them at the end: the names of a group come before its stack,
/// so nothing can be written before the last call is known.
#[derive(Default)]
pub(super) struct StackGroups {
    /// The calls of each group.
    calls: Vec<Vec<String>>,
    /// The group of each stack.
    groups: HashMap<Vec<String>, usize>,
}

impl StackGroups {
    pub(super) fn add(&mut self, call: String, lines: Vec<String>) {
        let group = *self.groups.entry(lines).or_insert(self.calls.len());
        if group == self.calls.len() {
            self.calls.push(Vec::new());
        }
        self.calls[group].push(call);
    }

    pub(super) fn write(self, out: &mut dyn Write) -> Result<(), Error> {
        let mut stacks: Vec<(usize, Vec<String>)> =
            self.groups.into_iter().map(|(lines, group)| (group, lines)).collect();
        stacks.sort_by_key(|(group, _)| *group);
        let mut writer = StackWriter::new(out)?;
        for (names, (group, lines)) in self.calls.into_iter().zip(stacks) {
            writer.stack(&Stack { key: group.to_string(), names, lines, form: StackForm::Grouped })?;
        }
        writer.finish()
    }
}

/// The stacks of a `stack.json`, by call. Each is stored once, however many calls share it.
#[derive(Default)]
pub(super) struct StackIndex {
    stacks: Vec<Vec<Frame>>,
    /// Number of the stack, and whether it has been used.
    by_call: HashMap<String, (usize, bool)>,
    /// Calls in file order.
    calls: Vec<String>,
}

impl StackIndex {
    /// Reads what can be read and reports the rest.
    pub(super) fn read(bytes: &Bytes, report: &mut Report) -> StackIndex {
        let mut index = StackIndex::default();
        let stacks = match StackJson::new(bytes) {
            Ok(stacks) => stacks,
            Err(error) => {
                report.error(error.in_part("stack.json"));
                return index;
            }
        };
        for stack in stacks {
            match stack {
                Ok(stack) => {
                    let number = index.stacks.len();
                    index.stacks.push(stack.lines.iter().map(|line| line_to_frame(line)).collect());
                    for name in stack.names {
                        index.by_call.insert(name.clone(), (number, false));
                        index.calls.push(name);
                    }
                }
                Err(error) => report.error(error.in_part("stack.json")),
            }
        }
        index
    }

    /// The stack of a call, and marks it as used.
    pub(super) fn take(&mut self, call: &str) -> Option<&[Frame]> {
        let (number, asked) = self.by_call.get_mut(call)?;
        *asked = true;
        Some(&self.stacks[*number])
    }

    /// The unused stacks, in file order.
    pub(super) fn rest(&self) -> impl Iterator<Item = (&str, &[Frame])> {
        self.calls.iter().filter_map(|call| match self.by_call.get(call) {
            Some((number, false)) => Some((call.as_str(), self.stacks[*number].as_slice())),
            _ => None,
        })
    }
}
