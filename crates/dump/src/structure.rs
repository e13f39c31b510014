//! The calls of a dump that recorded no more than which there were: their names are in `construct.json`, or, at
//! level L1, in `stack.json` alone.

use std::path::Path;

use ulpscope_formats::msprobe::{ConstructJson, StackJson};
use ulpscope_formats::{Access, Bytes, Error};

use crate::call::{Call, CallKind};
use crate::key::parse_key;
use crate::links;
use crate::problems::Problems;
use crate::rank::Index;

/// Takes in the calls that a file names.
type Take = fn(&Bytes, &mut Index) -> Result<(), Error>;

/// Takes in the calls that the files of a folder name.
pub(crate) fn fill(folder: &Path, index: &mut Index, problems: &mut Problems) {
    let sources: [(&str, Take); 2] = [("construct.json", of_construct), ("stack.json", of_stacks)];
    for (name, take) in sources {
        let path = folder.join(name);
        if !index.calls.is_empty() || !path.exists() {
            continue;
        }
        let map = |()| Bytes::map(&path, Access::ReadOnly);
        let read = links::refuse(&path).and_then(map).and_then(|bytes| take(&bytes, index));
        if let Err(error) = read {
            problems.add(&error.in_file(&path));
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

/// `optimizer` and its like are places, not calls.
fn add(key: &str, index: &mut Index) {
    let (base, number, kind) = parse_key(key);
    if kind != CallKind::Saved {
        let base = index.names.id(base);
        index.calls.push(Call { base, index: number, kind, place: 0..0 });
    }
}
