//! Maps a remote file without downloading it.
//!
//! The file gets its range of addresses at once, with nothing in it. A read of a part that is not there yet faults;
//! [`bus_guard`](crate::bus_guard) has the part read (`supply`), maps it and lets the read go on. So every reader of
//! bytes reads remote files too, and reads no more than it looks at. Parts are whole blocks; reads that follow each other
//! have more and more of them read at a time, and [`OnDemand::fetch`] reads a part that is known beforehand at once.
//!
//! The parts of all files are in memory up to a budget (`budget`); then the oldest are given up, and are read again if
//! they are looked at again. If a part cannot be read, the file is marked, and its remaining parts are zeros, as they
//! are where a local file shrank: [`Bytes::check`](crate::Bytes::check) returns the error.

mod budget;
mod memory;
pub(crate) mod supply;

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use memmap2::Mmap;

use super::{Object, Opened, Storage};
use crate::bytes::Bytes;
use crate::error::{Error, Fault};
use crate::mapping::Mapping;

/// What is read at a time at least. A whole number of pages on every machine.
const BLOCK: usize = 256 << 10;

/// Blocks of one request. Larger parts are read by several requests at the same time.
const REQUEST: usize = 8;

/// Blocks that are read at a time at most.
const WINDOW: usize = 64;

/// Files up to this size are copied when they are opened: they came with the answer.
const SMALL: usize = 64 << 10;

/// Whether a block is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Absent,
    /// A thread is reading it.
    Asked,
    Present,
}

/// A remote file in memory.
pub(crate) struct OnDemand {
    object: Arc<dyn Object>,
    /// The address of its first byte.
    start: usize,
    size: usize,
    state: Mutex<State>,
    arrived: Condvar,
    /// Why a part could not be read. Nothing is read afterwards.
    failure: OnceLock<String>,
}

struct State {
    blocks: Vec<Block>,
    /// Whether the range of addresses is still this file's.
    is_open: bool,
}

/// Maps a file of a storage.
pub(crate) fn map(storage: &dyn Storage, path: &Path) -> Result<Bytes, Error> {
    let mapped = || {
        let Opened { object, beginning } = storage.open(path)?;
        let size = usize::try_from(object.size()).map_err(|_| Fault::TooLarge {
            what: "the size",
            limit: usize::MAX as u64,
            found: object.size(),
        })?;
        if size <= SMALL && beginning.len() == size {
            return Ok(Bytes::from(beginning));
        }
        supply::start()?;
        let memory = memory::reserve(size)?;
        let file = OnDemand::new(object, &memory);
        if beginning.len() >= file.bytes(0).len() {
            file.place(0..1, &beginning[..file.bytes(0).len()])?;
        }
        Ok(Bytes::from_mapping(Mapping::on_demand(memory, path, file)))
    };
    mapped().map_err(|fault: Fault| Error::whole(fault).in_file(path))
}

impl OnDemand {
    fn new(object: Arc<dyn Object>, memory: &Mmap) -> Arc<OnDemand> {
        let blocks = vec![Block::Absent; memory.len().div_ceil(BLOCK)];
        let file = Arc::new(OnDemand {
            object,
            start: memory.as_ptr() as usize,
            size: memory.len(),
            state: Mutex::new(State { blocks, is_open: true }),
            arrived: Condvar::new(),
            failure: OnceLock::new(),
        });
        supply::add(file.start, &file);
        file
    }

    /// Why a part could not be read.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        self.failure.get().map(|why| io::Error::other(why.clone()))
    }

    /// Gives up the range of addresses. Must be called before it is unmapped.
    pub(crate) fn close(&self) {
        supply::remove(self.start);
        budget::close(self);
    }

    /// Reads a part of the file now, up to a share of the budget.
    pub(crate) fn fetch(self: &Arc<Self>, part: Range<usize>) -> io::Result<()> {
        let end = part.end.min(part.start.saturating_add(budget::share())).min(self.size);
        if part.start >= end {
            return Ok(());
        }
        let (mut block, last) = (part.start / BLOCK, end.div_ceil(BLOCK));
        while block < last {
            let window = block..last.min(block + WINDOW);
            block = window.end;
            self.read(window)?;
        }
        Ok(())
    }

    /// Reads what a fault needs. Returns whether it is there.
    fn answer(self: &Arc<Self>, address: usize) -> bool {
        let block = (address - self.start) / BLOCK;
        let blocks = {
            let state = self.state();
            // Several threads may each go through a part of their own: what is there before a block says how long its
            // reader has been at it.
            let before = state.blocks[..block].iter().rev().take(WINDOW);
            let known = before.take_while(|known| **known == Block::Present).count();
            block..(block + known.max(1)).min(state.blocks.len())
        };
        self.read(blocks).is_ok()
    }

    /// Reads those of some blocks that are not there.
    fn read(self: &Arc<Self>, blocks: Range<usize>) -> io::Result<()> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let absent = self.ask(blocks.clone());
        let ranges: Vec<Range<u64>> = absent
            .iter()
            .map(|run| (run.start * BLOCK) as u64..((run.end * BLOCK).min(self.size)) as u64)
            .collect();
        let read = || {
            if ranges.is_empty() {
                return Ok(());
            }
            let parts = self.object.read(&ranges)?;
            absent.iter().zip(parts).try_for_each(|(run, part)| self.place(run.clone(), &part))
        };
        if let Err(error) = read() {
            // The first failure is the one to report.
            let _ = self.failure.set(error.to_string());
            let mut state = self.state();
            for block in absent
                .into_iter()
                .flatten()
                .filter(|&block| state.blocks[block] == Block::Asked)
                .collect::<Vec<_>>()
            {
                state.blocks[block] = Block::Absent;
            }
            drop(state);
            self.arrived.notify_all();
            return Err(error);
        }
        let is_asked = |state: &mut State| state.blocks[blocks.clone()].contains(&Block::Asked);
        drop(self.arrived.wait_while(self.state(), is_asked));
        self.failure().map_or(Ok(()), Err)
    }

    /// Marks the absent ones among some blocks as asked for: runs of them, of at most one request each.
    fn ask(&self, blocks: Range<usize>) -> Vec<Range<usize>> {
        let mut state = self.state();
        let mut runs: Vec<Range<usize>> = Vec::new();
        for block in blocks.filter(|&block| state.blocks[block] == Block::Absent).collect::<Vec<_>>() {
            state.blocks[block] = Block::Asked;
            match runs.last_mut() {
                Some(run) if run.end == block && run.len() < REQUEST => run.end += 1,
                _ => runs.push(block..block + 1),
            }
        }
        runs
    }

    /// Maps blocks that were read.
    fn place(self: &Arc<Self>, blocks: Range<usize>, bytes: &[u8]) -> io::Result<()> {
        let addresses = self.addresses(blocks.clone());
        if bytes.len() != addresses.len() {
            let message = format!("{} bytes were asked for, and {} came", addresses.len(), bytes.len());
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        let mut budget = budget::lock();
        budget.make_room(addresses.len());
        let mut state = self.state();
        if state.is_open {
            memory::fill(addresses.start, bytes)?;
            state.blocks[blocks.clone()].fill(Block::Present);
            budget.add(self, blocks, addresses.len());
        }
        drop(state);
        self.arrived.notify_all();
        Ok(())
    }

    /// Gives blocks up: a read of them faults again. Returns how many bytes they had.
    fn give_up(&self, blocks: Range<usize>) -> usize {
        let mut state = self.state();
        if !state.is_open {
            return 0;
        }
        let addresses = self.addresses(blocks.clone());
        // If they stay, they are still the bytes of the file.
        if memory::empty(addresses.start, addresses.len()).is_err() {
            return 0;
        }
        state.blocks[blocks].fill(Block::Absent);
        addresses.len()
    }

    fn bytes(&self, block: usize) -> Range<usize> {
        block * BLOCK..((block + 1) * BLOCK).min(self.size)
    }

    fn addresses(&self, blocks: Range<usize>) -> Range<usize> {
        self.start + blocks.start * BLOCK..self.start + (blocks.end * BLOCK).min(self.size)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
