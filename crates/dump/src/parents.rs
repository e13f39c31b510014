//! The module in which each call was made: `construct.json`, by the numbers of the calls.

use std::collections::HashMap;

use ulpscope_formats::msprobe::{ConstructJson, Parent};
use ulpscope_formats::{Bytes, Error};

use crate::call::CallKind;
use crate::companion::Companion;
use crate::key::parse_key;
use crate::names::{NameId, Names};
use crate::problems::Problems;
use crate::rank::Index;

/// The number of each call by its name; the last one if a name occurs twice.
pub(crate) fn call_numbers(index: &Index) -> HashMap<(NameId, Option<u32>, CallKind), u32> {
    let calls = index.calls.iter().enumerate();
    calls.map(|(number, call)| ((call.base, call.index, call.kind), number as u32)).collect()
}

/// The parents of calls.
#[derive(Debug, Default)]
pub(crate) struct Parents {
    names: Names,
    of_call: Vec<Option<NameId>>,
    pub(crate) problems: Problems,
}

impl Parents {
    /// Reads a `construct.json`, if it exists.
    pub(crate) fn read(file: &Companion, index: &Index) -> Parents {
        let mut parents = Parents { of_call: vec![None; index.calls.len()], ..Parents::default() };
        if let Err(error) = file.read(|bytes| parents.fill(bytes, index)) {
            parents.problems.add(&error);
        }
        parents
    }

    fn fill(&mut self, bytes: &Bytes, index: &Index) -> Result<(), Error> {
        let numbers = call_numbers(index);
        for link in ConstructJson::new(bytes)? {
            let link = link?;
            let (base, number, kind) = parse_key(&link.child);
            let call = index.names.find(base).and_then(|base| numbers.get(&(base, number, kind)));
            if let Some(&call) = call
                && let Parent::Name(name) | Parent::MicroStep(Some(name), _) = &link.parent
            {
                self.of_call[call as usize] = Some(self.names.id(name));
            }
        }
        Ok(())
    }

    /// The parent of a call.
    pub(crate) fn of(&self, call: usize) -> Option<String> {
        self.of_call.get(call).copied().flatten().map(|name| self.names.text(name).to_owned())
    }
}
