//! Where each call was made: `stack.json`, by the numbers of the calls.

use std::collections::HashMap;

use ulpscope_formats::msprobe::StackJson;
use ulpscope_formats::{Bytes, Error};

use crate::companion::Companion;
use crate::key::parse_key;
use crate::names::{NameId, Names};
use crate::problems::Problems;
use crate::rank::Index;

/// No stack was recorded.
const NONE: u32 = u32::MAX;

/// Stacks, equal ones once, and the stack of each call.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    lines: Names,
    stacks: Vec<Box<[NameId]>>,
    of_call: Vec<u32>,
    pub(crate) problems: Problems,
}

impl Stacks {
    /// Reads a `stack.json`. The user may have left it out: its absence is not a problem.
    pub(crate) fn read(file: &Companion, index: &Index) -> Stacks {
        let mut stacks = Stacks { of_call: vec![NONE; index.calls.len()], ..Stacks::default() };
        if let Err(error) = file.read(|bytes| stacks.fill(bytes, index)) {
            stacks.problems.add(&error);
        }
        stacks
    }

    fn fill(&mut self, bytes: &Bytes, index: &Index) -> Result<(), Error> {
        let mut known = HashMap::new();
        for stack in StackJson::new(bytes)? {
            let stack = stack?;
            let lines: Box<[NameId]> = stack.lines.iter().map(|line| self.lines.id(line)).collect();
            let id = *known.entry(lines).or_insert_with_key(|lines| {
                self.stacks.push(lines.clone());
                self.stacks.len() as u32 - 1
            });
            for name in &stack.names {
                if let Some(call) = index.find_key(parse_key(name)) {
                    self.of_call[call] = id;
                }
            }
        }
        Ok(())
    }

    /// The stack of a call, innermost frame first.
    pub(crate) fn of(&self, call: usize) -> Option<Vec<String>> {
        let stack = self.of_call.get(call).filter(|&&stack| stack != NONE)?;
        Some(self.stacks[*stack as usize].iter().map(|&line| self.lines.text(line).to_owned()).collect())
    }
}
