//! Which calls have written to which memory, and in which order: a view that was made before its base was changed shows
//! what the change has left.
//!
//! Changes are kept by the storage that they were made to. What is asked is always about a tensor that was there before the
//! change, so that memory which has been freed and taken again gives no answer.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use ulpscope_tensor::Region;

/// Changes kept of one storage. With more of them the oldest are forgotten.
const MAX_CHANGES: usize = 512;

/// Storages kept. With more of them those that were changed first are forgotten.
const MAX_STORAGES: usize = 1 << 14;

/// The changes of a step.
#[derive(Default)]
pub(super) struct Changes {
    storages: HashMap<usize, Vec<Change>>,
    /// The number of the last one; 0 if there is none.
    pub(super) last: u64,
}

struct Change {
    region: Region,
    serial: u64,
    source: Arc<str>,
}

/// The storage of a tensor.
#[derive(Clone, Copy)]
pub(super) struct Storage {
    start: usize,
    /// The address of the tensor's first element.
    first_element: usize,
}

impl Storage {
    /// Nothing where a tensor has no memory that torch tells of.
    pub(super) fn of(tensor: &Bound<'_, PyAny>) -> Option<Storage> {
        let py = tensor.py();
        let ask = |name| tensor.call_method0(name).ok()?.extract::<usize>().ok();
        let first_element = ask(intern!(py, "data_ptr")).filter(|address| *address != 0)?;
        let before = match ask(intern!(py, "storage_offset"))? {
            0 => 0,
            elements => elements * ask(intern!(py, "element_size"))?,
        };
        Some(Storage { start: first_element.checked_sub(before)?, first_element })
    }

    fn ask_region(&self, tensor: &Bound<'_, PyAny>) -> PyResult<Option<Region>> {
        let py = tensor.py();
        let size: usize = tensor.call_method0(intern!(py, "element_size"))?.extract()?;
        if tensor.call_method0(intern!(py, "is_contiguous"))?.is_truthy()? {
            let count: usize = tensor.call_method0(intern!(py, "numel"))?.extract()?;
            return Ok(Region::new(self.first_element, size, &[count], &[1]));
        }
        let shape: Vec<usize> = tensor.getattr(intern!(py, "shape"))?.extract()?;
        let strides: Vec<usize> = tensor.call_method0(intern!(py, "stride"))?.extract()?;
        Ok(Region::new(self.first_element, size, &shape, &strides))
    }

    /// What of it the tensor shows; nothing where it has no elements.
    pub(super) fn region(&self, tensor: &Bound<'_, PyAny>) -> Option<Region> {
        self.ask_region(tensor).ok()?
    }
}

impl Changes {
    /// Notes a change, the latest so far.
    pub(super) fn add(&mut self, storage: Storage, region: Region, serial: u64, source: Arc<str>) {
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
    pub(super) fn has_since(&self, storage: Storage, after: u64) -> bool {
        let changes = self.storages.get(&storage.start);
        changes.and_then(|changes| changes.last()).is_some_and(|change| change.serial > after)
    }

    /// The latest change of a region, of those after a number.
    pub(super) fn latest(&self, storage: Storage, region: &Region, after: u64) -> Option<Arc<str>> {
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
