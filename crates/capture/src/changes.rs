//! Which calls have written to which memory, and in which order: a view that was made before its base was changed shows
//! what the change has left.
//!
//! Changes are kept by the storage that they were made to. What is asked is always about a tensor that was there before the
//! change, so that memory which has been freed and taken again gives no answer.

use std::collections::HashMap;
use std::sync::Arc;

use ulpscope_tensor::Region;

/// Changes kept of one storage. With more of them the oldest are forgotten.
const MAX_CHANGES: usize = 512;

/// Storages kept. With more of them those that were changed first are forgotten.
const MAX_STORAGES: usize = 1 << 14;

/// The changes of a step.
#[derive(Debug, Default)]
pub struct Changes {
    storages: HashMap<usize, Vec<Change>>,
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
    /// The storage that begins at an address, of a tensor whose first element lies at another.
    pub fn new(start: usize, first_element: usize) -> Storage {
        Storage { start, first_element }
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
