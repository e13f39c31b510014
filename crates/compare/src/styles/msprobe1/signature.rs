//! The data of a call that is needed to match it, and of its rows to colour them.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use ulpscope_dump::{CallKind, Entry, Error, Rank, Role};

use crate::styles::msprobe::item::{Item, Release};
use crate::styles::msprobe::mode::Mode;

/// The rows of a call, in short.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signature {
    /// Of names and shapes: equal for all calls that may match.
    pub(crate) key: u64,
    /// Of each row, a fingerprint of its dtype and which of the interchangeable ones it is.
    dtypes: Vec<(u64, Option<Narrow>)>,
    /// Of all digests, where these are compared.
    digests: u64,
    inputs: usize,
    /// Whether the call cannot be read. It waits like any other, so that later calls keep their places, and matches
    /// none.
    pub(crate) unread: bool,
    /// Of each row, the fingerprint of the call's name as colouring sees it, and whether it is an argument.
    pub(crate) rows: Vec<(u64, bool)>,
}

/// Floats of which some may be compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Narrow {
    F16,
    F32,
    BF16,
}

/// The entries of a call that the tool has rows for: it knows neither parameters nor their gradients.
pub(crate) fn entries(rank: &Rank, call: usize) -> Result<Vec<Entry>, Error> {
    if !matches!(rank.calls()[call].kind, CallKind::Forward | CallKind::Backward) {
        return Ok(Vec::new());
    }
    let mut entries = rank.entries(call)?;
    entries.retain(|entry| matches!(entry.role, Role::Input | Role::Output) && Item::is_shown(entry));
    Ok(entries)
}

/// Whether a row is an argument, going by the parts of its name.
pub(crate) fn is_input(name: &str) -> bool {
    name.split('.').any(|part| matches!(part, "input" | "kwargs"))
}

impl Signature {
    /// The signature of a call's rows; nothing, where it has none.
    pub(crate) fn of(rank: &Rank, call: usize, mode: Mode, fuzzy: bool) -> Result<Option<Signature>, Error> {
        let entries = entries(rank, call)?;
        let items: Vec<Item<'_>> =
            entries.iter().filter_map(|entry| Item::of(entry, Release::V1, mode == Mode::Digests)).collect();
        if items.is_empty() {
            return Ok(None);
        }
        let mut key = DefaultHasher::new();
        let mut digests = DefaultHasher::new();
        let mut signature = Signature::default();
        for item in &items {
            if fuzzy {
                without_number(&item.name).hash(&mut key);
            } else {
                item.name.hash(&mut key);
            }
            item.shape.hash(&mut key);
            item.digest.hash(&mut digests);
            signature.inputs += usize::from(is_input(&item.name));
            signature.dtypes.push((fingerprint(&item.dtype), Narrow::of(item.dtype.as_deref())));
            signature.rows.push(group_of(&item.name));
        }
        items.len().hash(&mut key);
        signature.inputs.hash(&mut key);
        signature.key = key.finish();
        signature.digests = digests.finish();
        Ok(Some(signature))
    }

    /// Of a call that cannot be read.
    pub(crate) fn of_unread() -> Signature {
        Signature { unread: true, ..Signature::default() }
    }

    /// Whether two calls of one key match: the same dtypes, or interchangeable ones.
    pub(crate) fn fits(&self, other: &Signature) -> bool {
        if self.key != other.key || self.unread || other.unread {
            return false;
        }
        if self.dtypes == other.dtypes && self.digests == other.digests {
            return true;
        }
        let whole = self.inputs > 0 && self.inputs < self.dtypes.len();
        let stand_in = |(a, b): (Narrow, Narrow)| a != b && [a, b].contains(&Narrow::F16);
        let mut pairs = self.dtypes.iter().zip(&other.dtypes);
        whole && pairs.all(|(a, b)| a.0 == b.0 || a.1.zip(b.1).is_some_and(stand_in))
    }

    /// A signature of nothing but a key.
    #[cfg(test)]
    pub(crate) fn of_key(key: u64) -> Signature {
        Signature { key, ..Signature::default() }
    }
}

impl Narrow {
    fn of(dtype: Option<&str>) -> Option<Narrow> {
        match dtype? {
            "torch.float16" => Some(Narrow::F16),
            "torch.float32" => Some(Narrow::F32),
            "torch.bfloat16" => Some(Narrow::BF16),
            _ => None,
        }
    }
}

fn fingerprint(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The name without the number of the call: the part before the direction loses its last component.
fn without_number(name: &str) -> String {
    let Some(direction) = ["forward", "backward"].into_iter().find(|word| name.contains(word)) else {
        return name.to_owned();
    };
    let mut parts = name.split(direction);
    let (before, behind) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let head = before.rsplitn(3, '.').last().unwrap_or_default();
    format!("{direction} {head}{behind}")
}

/// The call a row belongs to in the eyes of the colouring, and whether it is an argument: what stands before the
/// word `input`, or else before the word `output`, wherever these are.
pub(crate) fn group_of(name: &str) -> (u64, bool) {
    match name.split_once("input") {
        Some((group, _)) => (fingerprint(group), true),
        None => (fingerprint(name.split("output").next().unwrap_or_default()), false),
    }
}
