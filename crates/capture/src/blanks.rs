//! Uninitialised memory, until calls have written to all of it.
//!
//! What lies there is no result: no two runs have the same. Views show it under other names, and programs often fill it
//! part by part.

use std::sync::Arc;

use ulpscope_tensor::Region;

use crate::address_map::AddressMap;
use crate::changes::Storage;

/// Storages remembered.
const MAX_STORAGES: usize = 1 << 14;

/// Parts that were written, of one storage. With more it counts as initialised.
const MAX_PARTS: usize = 64;

/// How much of a tensor is initialised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initialised {
    /// All of it, as far as is known.
    Fully,
    /// Some of it.
    Partly,
    /// Nothing.
    Not,
}

/// Uninitialised memory, by storage.
#[derive(Debug, Default)]
pub(crate) struct Blanks {
    storages: AddressMap<Blank>,
}

#[derive(Debug)]
struct Blank {
    /// Who returned it.
    source: Arc<str>,
    /// All of it.
    region: Region,
    /// The parts that calls have written to since; no two share a byte.
    written: Vec<Region>,
}

impl Blank {
    fn bytes_left(&self) -> usize {
        self.region.bytes().saturating_sub(self.written.iter().map(Region::bytes).sum())
    }
}

impl Blanks {
    pub(crate) fn is_empty(&self) -> bool {
        self.storages.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.storages.clear();
    }

    /// Notes memory that a call returned uninitialised.
    pub(crate) fn add(&mut self, storage: Storage, region: Region, source: Arc<str>) {
        if self.storages.len() < MAX_STORAGES {
            self.storages.insert(storage.start(), Blank { source, region, written: Vec::new() });
        }
    }

    /// Forgets a storage: a call returned it with results, or may have written to it.
    pub(crate) fn forget(&mut self, storage: Storage) {
        self.storages.remove(&storage.start());
    }

    /// Notes that a call has written to a part.
    pub(crate) fn write(&mut self, storage: Storage, part: Region) {
        let Some(blank) = self.storages.get_mut(&storage.start()) else { return };
        if blank.written.iter().any(|known| known.covers(&part)) {
            return;
        }
        blank.written.retain(|known| !part.covers(known));
        // How much two parts share is not computed: then nothing more is said of the storage.
        let is_clear =
            blank.written.len() < MAX_PARTS && !blank.written.iter().any(|known| known.meets(&part));
        blank.written.push(part);
        if !is_clear || blank.bytes_left() == 0 {
            self.forget(storage);
        }
    }

    /// How much of a part is initialised. Of a part that is not all of the storage, it is not known whether all of it was
    /// written in pieces: then it counts as initialised.
    pub(crate) fn state(&self, storage: Storage, part: &Region) -> Initialised {
        let Some(blank) = self.storages.get(&storage.start()) else { return Initialised::Fully };
        if !blank.written.iter().any(|known| known.meets(part)) {
            Initialised::Not
        } else if *part == blank.region {
            Initialised::Partly
        } else {
            Initialised::Fully
        }
    }

    /// Who returned a storage, as long as some of it is uninitialised.
    pub(crate) fn source(&self, storage: Storage) -> Option<Arc<str>> {
        self.storages.get(&storage.start()).map(|blank| Arc::clone(&blank.source))
    }
}
