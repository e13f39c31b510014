//! The module in which each call was made: `construct.json`, by the numbers of the calls.

use ulpscope_formats::msprobe::{ConstructJson, Parent};
use ulpscope_formats::{Bytes, Error};

use crate::call::CallKind;
use crate::companion::Companion;
use crate::key::parse_key;
use crate::names::{NameId, Names};
use crate::problems::Problems;
use crate::rank::Index;

/// No parent was recorded.
const NONE: u32 = u32::MAX;

/// Numbers from here on are those of names, and those below of calls.
const NAMES: u32 = 1 << 31;

/// The parents of calls. Most parents are calls themselves, of which an index has the names already.
#[derive(Debug, Default)]
pub(crate) struct Parents {
    /// The names of parents that are no calls.
    names: Names,
    of_call: Vec<u32>,
    pub(crate) problems: Problems,
}

impl Parents {
    /// Reads a `construct.json`, if it exists.
    pub(crate) fn read(file: &Companion, index: &Index) -> Parents {
        let mut parents = Parents { of_call: vec![NONE; index.calls.len()], ..Parents::default() };
        if let Err(error) = file.read(|bytes| parents.fill(bytes, index)) {
            parents.problems.add(&error);
        }
        parents
    }

    fn fill(&mut self, bytes: &Bytes, index: &Index) -> Result<(), Error> {
        for link in ConstructJson::new(bytes)? {
            let link = link?;
            if let Some(call) = index.find_key(parse_key(&link.child))
                && let Parent::Name(name) | Parent::MicroStep(Some(name), _) = &link.parent
            {
                let key = parse_key(name);
                // The name of a saved value is not its key.
                let parent = index.find_key(key).map(|call| call as u32);
                let parent = parent.filter(|&call| call < NAMES && key.2 != CallKind::Saved);
                self.of_call[call] = parent.unwrap_or_else(|| NAMES + self.names.id(name).number());
            }
        }
        Ok(())
    }

    /// The parent of a call, if it is a call itself.
    pub(crate) fn call(&self, call: usize) -> Option<usize> {
        self.of_call.get(call).filter(|&&parent| parent < NAMES).map(|&parent| parent as usize)
    }

    /// The parent of a call.
    pub(crate) fn of(&self, index: &Index, call: usize) -> Option<String> {
        match *self.of_call.get(call)? {
            NONE => None,
            name @ NAMES.. => Some(self.names.text(NameId::of_number(name - NAMES)).to_owned()),
            call => Some(index.name(call as usize)),
        }
    }
}
