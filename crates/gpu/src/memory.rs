//! Memory of a device for results: slots in memory of the host, where the kernel writes them, and scratch memory of the
//! device for partial results, one piece for each stream of the program. Captured graphs have memory of their own for
//! both.

use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::driver::{Driver, Mapped, Stream};
use crate::error::Error;
use crate::launch::{MAX_BLOCKS, MAX_TAKEN, MAX_TENSORS, Outcome, PARTIAL_BYTES};

/// Slots that are allocated at a time, and how often: 21 MB of the host.
const SLOTS: usize = 4096;
const MAX_PIECES: usize = 64;

/// Streams that have scratch memory: 54 MiB of the device. Torch has 32 of each priority, and the default stream.
const MAX_STREAMS: usize = 96;

/// Memory of the device for captured graphs.
const MAX_OF_GRAPHS: usize = 256 << 20;

/// Bytes of the partial results of one tensor.
const PARTIALS: usize = MAX_BLOCKS as usize * PARTIAL_BYTES;

/// Bytes of one counter, in a cache line of its own.
const COUNTER: usize = 128;

/// Where the kernel writes the result of a tensor.
#[derive(Debug)]
pub(crate) struct Slot(Mapped);

impl Slot {
    /// Its address on the device.
    pub(crate) fn device(&self) -> u64 {
        self.0.device
    }

    fn outcome(&self) -> *mut Outcome {
        self.0.host as *mut Outcome
    }

    fn done(&self) -> &AtomicU64 {
        // SAFETY: the slot is memory for an `Outcome` that lives until the `Gpu` is dropped, which outlives all slots.
        // Here and on the device its last word is written whole.
        #[expect(unsafe_code)]
        unsafe {
            AtomicU64::from_ptr(&raw mut (*self.outcome()).done)
        }
    }

    /// Whether the kernel has written the result.
    pub(crate) fn has_arrived(&self) -> bool {
        self.done().load(Ordering::Acquire) != 0
    }

    /// The result, once it has arrived.
    pub(crate) fn read(&self) -> Option<Outcome> {
        // SAFETY: as above. The kernel writes the word `done` after all others, and nothing after it.
        #[expect(unsafe_code)]
        self.has_arrived().then(|| unsafe { ptr::read_volatile(self.outcome()) })
    }
}

/// The slots that are not in use.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    pieces: Vec<Mapped>,
    free: Vec<Mapped>,
    /// Those that nobody waits for, but a kernel may still write to.
    abandoned: Vec<Slot>,
}

impl Slots {
    /// Takes some slots, or none.
    pub(crate) fn take(&mut self, count: usize, driver: &Driver) -> Result<Vec<Slot>, Error> {
        if self.free.len() < count {
            let arrived = self.abandoned.extract_if(.., |slot| slot.has_arrived());
            self.free.extend(arrived.map(|slot| slot.0));
        }
        while self.free.len() < count {
            if self.pieces.len() == MAX_PIECES {
                return Err(Error::Full(self.pieces.len() * SLOTS - self.free.len()));
            }
            let piece = driver.allocate_mapped(SLOTS * size_of::<Outcome>())?;
            self.pieces.push(piece);
            // The last is taken first: results of one call are neighbours.
            self.free.extend((0..SLOTS).rev().map(|number| Mapped {
                host: piece.host + number * size_of::<Outcome>(),
                device: piece.device + (number * size_of::<Outcome>()) as u64,
            }));
        }
        Ok(self.take_free(count).unwrap_or_default())
    }

    /// Takes some slots that are there, if there are as many.
    pub(crate) fn take_free(&mut self, count: usize) -> Option<Vec<Slot>> {
        let left = self.free.len().checked_sub(count)?;
        let taken = self.free.split_off(left).into_iter().map(Slot);
        Some(taken.inspect(|slot| slot.done().store(0, Ordering::Release)).collect())
    }

    /// Takes back slots that no kernel will write to.
    pub(crate) fn give_back(&mut self, slots: impl Iterator<Item = Slot>) {
        self.free.extend(slots.map(|slot| slot.0));
    }

    /// Takes back slots that nobody reads any more. They are used again when their kernel has written to them.
    pub(crate) fn abandon(&mut self, slots: impl Iterator<Item = Slot>) {
        for slot in slots {
            match slot.has_arrived() {
                true => self.free.push(slot.0),
                false => self.abandoned.push(slot),
            }
        }
    }

    /// Whether a kernel may still write to a slot.
    pub(crate) fn are_awaited(&self) -> bool {
        self.abandoned.iter().any(|slot| !slot.has_arrived())
    }

    pub(crate) fn free_all(&mut self, driver: &Driver) -> Result<(), Error> {
        self.free.clear();
        self.abandoned.clear();
        self.pieces.drain(..).try_for_each(|piece| driver.free_mapped(piece))
    }
}

/// The scratch memory of the streams. Kernels of one stream run one after the other, and can share it.
#[derive(Debug, Default)]
pub(crate) struct Scratches {
    streams: HashMap<u64, Scratch>,
}

/// The scratch memory of one launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scratch(u64);

impl Scratch {
    const COUNTERS: usize = MAX_TENSORS * COUNTER;
    const BYTES: usize = Scratch::COUNTERS + MAX_TENSORS * PARTIALS;

    /// Sets the counters of blocks to zero, in the order of a stream.
    pub(crate) fn clear(self, stream: Stream, driver: &Driver) -> Result<(), Error> {
        driver.clear(self.0, Scratch::COUNTERS, stream)
    }

    /// The address of the partial results of the nth tensor of a launch.
    pub(crate) fn partials(self, number: usize) -> u64 {
        self.0 + (Scratch::COUNTERS + number * PARTIALS) as u64
    }

    /// The address of its counter of blocks.
    pub(crate) fn finished(self, number: usize) -> u64 {
        self.0 + (number * COUNTER) as u64
    }
}

impl Scratches {
    /// That of a stream, if it has been used before.
    pub(crate) fn get(&self, id: u64) -> Option<Scratch> {
        self.streams.get(&id).copied()
    }

    /// Allocates that of a further stream.
    pub(crate) fn add(&mut self, id: u64, stream: Stream, driver: &Driver) -> Result<Scratch, Error> {
        if self.streams.len() == MAX_STREAMS {
            return Err(Error::Streams(MAX_STREAMS));
        }
        let scratch = Scratch(driver.allocate(Scratch::BYTES)?);
        // In the order of the stream, and so before the first launch there.
        if let Err(error) = scratch.clear(stream, driver) {
            driver.free(scratch.0)?;
            return Err(error);
        }
        self.streams.insert(id, scratch);
        Ok(scratch)
    }

    pub(crate) fn free_all(&mut self, driver: &Driver) -> Result<(), Error> {
        self.streams.drain().try_for_each(|(_, scratch)| driver.free(scratch.0))
    }
}

/// Memory of the device whose addresses are in captured graphs. It is never used for anything else, and not freed before
/// the process ends: nobody reports the last replay of a graph.
#[derive(Debug, Default)]
pub(crate) struct GraphMemory {
    pieces: Vec<u64>,
    bytes: usize,
}

impl GraphMemory {
    /// Scratch memory of a stream within a graph.
    pub(crate) fn scratch(&mut self, driver: &Driver) -> Result<Scratch, Error> {
        self.allocate(Scratch::BYTES, driver).map(Scratch)
    }

    /// Memory for as many results as one launch copies.
    pub(crate) fn results(&mut self, driver: &Driver) -> Result<u64, Error> {
        self.allocate(MAX_TAKEN * size_of::<Outcome>(), driver)
    }

    fn allocate(&mut self, bytes: usize, driver: &Driver) -> Result<u64, Error> {
        if self.bytes + bytes > MAX_OF_GRAPHS {
            return Err(Error::Graphs(MAX_OF_GRAPHS >> 20));
        }
        let address = driver.allocate(bytes)?;
        self.pieces.push(address);
        self.bytes += bytes;
        Ok(address)
    }

    pub(crate) fn free_all(&mut self, driver: &Driver) -> Result<(), Error> {
        self.bytes = 0;
        self.pieces.drain(..).try_for_each(|address| driver.free(address))
    }
}
