//! Which calls wrote to which memory, in which order: a view made before its base was changed shows the changed
//! elements.
//!
//! Changes are kept by storage. Queries are always about a tensor that existed before the change, so freed and reused
//! memory gives no wrong answer.

use std::sync::Arc;

use ulpscope_tensor::Region;

use crate::address_map::AddressMap;

/// Changes kept per storage. Beyond that the oldest are forgotten.
const MAX_CHANGES: usize = 512;

/// Storages kept. Beyond that those changed first are forgotten.
const MAX_STORAGES: usize = 1 << 14;

/// The changes of a step.
#[derive(Debug, Default)]
pub struct Changes {
    storages: AddressMap<Vec<Change>>,
    /// The number of the last one; 0 if there is none.
    pub last: u64,
}

#[derive(Debug)]
struct Change {
    region: Region,
    serial: u64,
    source: Arc<str>,
}

/// The storage of a tensor.
#[derive(Clone, Copy, Debug)]
pub struct Storage {
    start: usize,
    first_element: usize,
}

impl Storage {
    /// The storage with a start address, of a tensor with the given address of its first element.
    pub fn new(start: usize, first_element: usize) -> Storage {
        Storage { start, first_element }
    }

    /// The address of the storage.
    pub fn start(&self) -> usize {
        self.start
    }

    /// The address of the tensor's first element.
    pub fn first_element(&self) -> usize {
        self.first_element
    }
}

impl Changes {
    /// Notes a change, the latest so far.
    pub fn add(&mut self, storage: Storage, region: Region, serial: u64, source: Arc<str>) {
        self.last = serial;
        if self.storages.len() >= MAX_STORAGES && !self.storages.contains_key(&storage.start) {
            self.forget_half();
        }
        let changes = self.storages.entry(storage.start).or_default();
        changes.retain(|change| !region.covers(&change.region));
        if changes.len() >= MAX_CHANGES {
            changes.remove(0);
        }
        changes.push(Change { region, serial, source });
    }

    /// Whether a storage was changed after a number.
    pub fn has_since(&self, storage: Storage, after: u64) -> bool {
        let changes = self.storages.get(&storage.start);
        changes.and_then(|changes| changes.last()).is_some_and(|change| change.serial > after)
    }

    /// The latest change of a region, of those after a number.
    pub fn latest(&self, storage: Storage, region: &Region, after: u64) -> Option<Arc<str>> {
        let changes = self.storages.get(&storage.start)?.iter().rev();
        let mut since = changes.take_while(|change| change.serial > after);
        since.find(|change| change.region.meets(region)).map(|change| Arc::clone(&change.source))
    }

    fn forget_half(&mut self) {
        let last = |changes: &Vec<Change>| changes.last().map_or(0, |change| change.serial);
        let mut serials: Vec<u64> = self.storages.values().map(last).collect();
        serials.sort_unstable();
        let middle = serials[serials.len() / 2];
        self.storages.retain(|_, changes| last(changes) >= middle);
    }
}
