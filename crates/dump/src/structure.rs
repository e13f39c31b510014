//! The calls of a dump that recorded only their names: in `construct.json`, or, at level L1, in `stack.json` alone.

use ulpscope_formats::msprobe::{ConstructJson, StackJson};
use ulpscope_formats::{Bytes, Error};

use crate::call::{Call, CallKind};
use crate::companion::Companion;
use crate::key::parse_key;
use crate::problems::Problems;
use crate::rank::Index;

/// Adds the calls that a file names.
type Take = fn(&Bytes, &mut Index) -> Result<(), Error>;

/// Adds the calls that the files beside a dump name.
pub(crate) fn fill(construct: &Companion, stacks: &Companion, index: &mut Index, problems: &mut Problems) {
    let sources: [(&Companion, Take); 2] = [(construct, of_construct), (stacks, of_stacks)];
    for (file, take) in sources {
        if !index.calls.is_empty() {
            continue;
        }
        if let Err(error) = file.read(|bytes| take(bytes, index)) {
            problems.add(&error);
        }
    }
}

fn of_construct(bytes: &Bytes, index: &mut Index) -> Result<(), Error> {
    for link in ConstructJson::new(bytes)? {
        add(&link?.child, index);
    }
    Ok(())
}

fn of_stacks(bytes: &Bytes, index: &mut Index) -> Result<(), Error> {
    for stack in StackJson::new(bytes)? {
        for name in stack?.names {
            add(&name, index);
        }
    }
    Ok(())
}

/// `optimizer` and the like are places, not calls.
fn add(key: &str, index: &mut Index) {
    let (base, number, kind) = parse_key(key);
    if kind != CallKind::Saved {
        let base = index.names.id(base);
        index.calls.push(Call { base, index: number, kind, place: 0..0 });
    }
}
