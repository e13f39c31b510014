//! Builds a call from its lines.

use crate::error::Fault;
use crate::msprobe::Item;
use crate::names::{Direction, LineName, Role};
use crate::pkl_lines::CallLines;

/// Largest position of an argument. A gap is filled with `null`, so a position costs memory.
const MAX_POSITION: usize = 1 << 16;

/// Most arguments and results of one call, gaps included.
const MAX_CALL_ITEMS: usize = 1 << 20;

/// Deepest nesting of arguments; msprobe's own limit.
const MAX_PATH: usize = 400;

/// The call whose lines are being read.
pub(super) struct OpenCall {
    pub(super) lines: CallLines,
    /// Its stack, innermost frame first.
    pub(super) stack: Option<Vec<String>>,
    /// Arguments and results placed so far.
    pub(super) entries: u64,
    inputs: Vec<Item>,
    outputs: Vec<Item>,
    items: usize,
}

impl OpenCall {
    pub(super) fn new(lines: CallLines) -> OpenCall {
        OpenCall { lines, stack: None, entries: 0, inputs: Vec::new(), outputs: Vec::new(), items: 0 }
    }

    /// Puts an item at its position.
    pub(super) fn place(&mut self, name: &LineName, item: Item) -> Result<(), Fault> {
        if name.path.len() > MAX_PATH {
            return Err(Fault::TooDeep { limit: MAX_PATH });
        }
        let lone = [0];
        let path = if name.path.is_empty() { &lone[..] } else { &name.path };
        let mut list = if name.role == Role::Input { &mut self.inputs } else { &mut self.outputs };
        for (depth, &position) in path.iter().enumerate() {
            if position > MAX_POSITION {
                return Err(Fault::TooLarge {
                    what: "the position of an argument",
                    limit: MAX_POSITION as u64,
                    found: position as u64,
                });
            }
            if list.len() <= position {
                self.items += position + 1 - list.len();
                if self.items > MAX_CALL_ITEMS {
                    return Err(Fault::TooLarge {
                        what: "the number of arguments of one call",
                        limit: MAX_CALL_ITEMS as u64,
                        found: self.items as u64,
                    });
                }
                list.resize(position + 1, Item::None);
            }
            let slot = &mut list[position];
            if depth + 1 == path.len() {
                *slot = item;
                self.entries += 1;
                return Ok(());
            }
            if *slot == Item::None {
                *slot = Item::List(Vec::new());
            }
            list = match slot {
                Item::List(items) => items,
                _ => {
                    return Err(Fault::malformed(
                        "an argument to be either a list or a value",
                        format!("both at {:?}", &path[..=depth]),
                    ));
                }
            };
        }
        Ok(())
    }

    /// The sections of the call in `dump.json`. `gradients_first`: the tool uses the word `input` for
    /// gradients of inputs, while `dump.json` uses it for gradients of outputs.
    pub(super) fn into_sections(self, gradients_first: bool) -> Vec<(String, Item)> {
        let recorded = |items: Vec<Item>| (!items.is_empty()).then_some(Item::List(items));
        let (inputs, outputs) = (recorded(self.inputs), recorded(self.outputs));
        let sections = match self.lines.name.direction {
            Direction::Forward => {
                let kwargs = inputs.is_some().then(|| Item::Dict(Vec::new()));
                vec![("input_args", inputs), ("input_kwargs", kwargs), ("output", outputs)]
            }
            Direction::Backward if gradients_first => vec![("input", outputs), ("output", inputs)],
            Direction::Backward => vec![("input", inputs), ("output", outputs)],
        };
        sections.into_iter().filter_map(|(section, item)| Some((section.to_owned(), item?))).collect()
    }
}
