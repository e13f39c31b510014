//! Which tensors of a far rank are moved.
//!
//! What the dumps recorded of tensors is compared first: shape, statistics, digest. Only where these are the same, or were
//! not recorded, bytes are read to tell whether the tensor is at hand already. Of the others, those whose statistics differ
//! come first, each in the order of the calls: a budget may not last for all. The choice depends on nothing else, so a
//! comparison that is repeated is the same.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use super::far::{FarRank, FileRange};
use super::stored::{FILES_AT_ONCE, StoredTensor, TensorPlace};
use crate::file_part::FilePart;

/// Bytes whose hashes are asked for at a time.
const HASHED_AT_ONCE: u64 = 256 << 20;

/// Where the tensors of a moved rank are.
#[derive(Debug, Default)]
pub(crate) struct MovedTensors {
    /// At hand, with the same bytes.
    same: HashMap<TensorPlace, TensorPlace>,
    /// Nowhere.
    left: HashSet<TensorPlace>,
}

/// Where a tensor is.
pub(crate) enum MovedTo<'a> {
    /// In the mirror, or nowhere on the far machine either.
    Mirror,
    /// In a file at hand.
    Same(&'a TensorPlace),
    /// It was not moved.
    Left,
}

impl MovedTensors {
    /// Where the tensor is that the rank reads here.
    pub(crate) fn place(&self, path: &Path, part: Option<&FilePart>) -> MovedTo<'_> {
        let place = TensorPlace::of(path, part);
        match self.same.get(&place) {
            Some(same) => MovedTo::Same(same),
            None if self.left.contains(&place) => MovedTo::Left,
            None => MovedTo::Mirror,
        }
    }
}

/// What is to be moved.
#[derive(Default)]
pub(super) struct Choice {
    pub(super) tensors: MovedTensors,
    /// In order.
    pub(super) moved: Vec<FileRange>,
    pub(super) left: u64,
    pub(super) left_bytes: u64,
}

/// Tensors, and the machine that has them.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) tensors: &'a [StoredTensor],
    pub(super) files: &'a dyn FarRank,
}

/// Chooses which tensors of a far rank are moved, within a budget.
pub(super) fn choose(far: Side<'_>, at_hand: Option<Side<'_>>, budget: u64) -> Result<Choice, String> {
    let mut choice = Choice::default();
    let known = Records::of(at_hand.map(|side| side.tensors).unwrap_or_default());
    if let Some(at_hand) = at_hand {
        choice.tensors.same = same(far, at_hand, &known)?;
    }
    let mut room = budget;
    for are_same in [false, true] {
        let waiting = far.tensors.iter().filter(|tensor| known.have(tensor) == are_same);
        for tensor in waiting {
            if choice.tensors.same.contains_key(&tensor.place) {
                continue;
            }
            if let Some(rest) = room.checked_sub(tensor.range.length) {
                room = rest;
                choice.moved.push(tensor.range.clone());
            } else {
                choice.left += 1;
                choice.left_bytes += tensor.range.length;
                choice.tensors.left.insert(tensor.place.clone());
            }
        }
    }
    Ok(choice)
}

/// What was recorded of tensors, by their size in bytes.
struct Records(HashMap<u64, HashSet<Option<u64>>>);

impl Records {
    fn of<'t>(tensors: impl IntoIterator<Item = &'t StoredTensor>) -> Records {
        let mut by_length: HashMap<u64, HashSet<Option<u64>>> = HashMap::new();
        for tensor in tensors {
            by_length.entry(tensor.range.length).or_default().insert(tensor.recorded);
        }
        Records(by_length)
    }

    /// Whether one of them has the same statistics or digest.
    fn have(&self, tensor: &StoredTensor) -> bool {
        let known = self.0.get(&tensor.range.length);
        tensor.recorded.is_some() && known.is_some_and(|known| known.contains(&tensor.recorded))
    }

    /// Whether one of them may have the same bytes.
    fn may_have(&self, tensor: &StoredTensor) -> bool {
        self.0.get(&tensor.range.length).is_some_and(|known| {
            tensor.recorded.is_none() || known.contains(&None) || known.contains(&tensor.recorded)
        })
    }
}

/// The tensors whose bytes are at hand, and where.
fn same(
    far: Side<'_>,
    at_hand: Side<'_>,
    known: &Records,
) -> Result<HashMap<TensorPlace, TensorPlace>, String> {
    let theirs: Vec<&StoredTensor> = far.tensors.iter().filter(|tensor| known.may_have(tensor)).collect();
    let wanted = Records::of(theirs.iter().copied());
    let ours: Vec<&StoredTensor> = at_hand.tensors.iter().filter(|tensor| wanted.may_have(tensor)).collect();
    // A dump cannot know it, so none can be made whose different tensors have equal hashes.
    let key = RandomState::new().hash_one(0u8);
    let (of_theirs, of_ours) = std::thread::scope(|scope| {
        let asked = scope.spawn(|| hashes(&theirs, far.files, key));
        let own = hashes(&ours, at_hand.files, key);
        (asked.join().unwrap_or_else(|_| Err("the far files could not be asked for".to_owned())), own)
    });
    let mut by_content: HashMap<(u64, u128), &StoredTensor> = HashMap::new();
    for (tensor, hash) in ours.iter().zip(of_ours?) {
        by_content.entry((tensor.range.length, hash)).or_insert(tensor);
    }
    let found = theirs.iter().zip(of_theirs?).filter_map(|(tensor, hash)| {
        let same = by_content.get(&(tensor.range.length, hash))?;
        // A file of one tensor is not a part of a file, though the bytes be the same.
        let is_alike = tensor.place.part.is_some() == same.place.part.is_some();
        is_alike.then(|| (tensor.place.clone(), same.place.clone()))
    });
    Ok(found.collect())
}

/// The hash of each tensor's bytes.
fn hashes(tensors: &[&StoredTensor], files: &dyn FarRank, key: u64) -> Result<Vec<u128>, String> {
    let mut found = Vec::with_capacity(tensors.len());
    let mut rest = tensors;
    while !rest.is_empty() {
        let mut size = 0u64;
        let fits = |tensor: &&&StoredTensor| {
            let before = size;
            size = size.saturating_add(tensor.range.length);
            before < HASHED_AT_ONCE
        };
        let count = rest.iter().take(FILES_AT_ONCE).take_while(fits).count();
        let (now, later) = rest.split_at(count);
        let ranges: Vec<FileRange> = now.iter().map(|tensor| tensor.range.clone()).collect();
        let hashes = files.digests(&ranges, key)?;
        if hashes.len() != ranges.len() {
            return Err(format!("expected {} hashes, found {}", ranges.len(), hashes.len()));
        }
        found.extend(hashes);
        rest = later;
    }
    Ok(found)
}
