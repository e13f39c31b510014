//! How much of remote files is in memory.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::available_parallelism;

use super::OnDemand;

/// The variable with the budget, in MiB.
const VARIABLE: &str = "ULPSCOPE_BUCKET_CACHE_MB";

/// The least budget, in MiB: each core reads parts of two files at a time.
const LEAST: usize = 64;

/// The budget of one core, in MiB, if none is set; and that of a machine with few of them.
const PER_CORE: usize = 64;
const DEFAULT: usize = 1024;

/// The part of the budget that one tensor may have read beforehand.
const SHARE: usize = 8;

/// What is in memory, oldest first.
pub(super) struct Budget {
    limit: usize,
    used: usize,
    parts: VecDeque<(Weak<OnDemand>, Range<usize>)>,
}

static BUDGET: Mutex<Budget> = Mutex::new(Budget { limit: 0, used: 0, parts: VecDeque::new() });

/// Locked before the state of any file.
pub(super) fn lock() -> MutexGuard<'static, Budget> {
    let mut budget = BUDGET.lock().unwrap_or_else(PoisonError::into_inner);
    if budget.limit == 0 {
        budget.limit = limit();
    }
    budget
}

/// The bytes that one tensor may have read beforehand.
pub(super) fn share() -> usize {
    lock().limit / SHARE
}

/// Marks a file as closed: its addresses may be another's from now on.
pub(super) fn close(file: &OnDemand) {
    let mut budget = lock();
    let mut state = file.state();
    state.is_open = false;
    let is_present = |block: &usize| state.blocks[*block] == super::Block::Present;
    let present = (0..state.blocks.len()).filter(is_present).map(|block| file.bytes(block).len());
    budget.used = budget.used.saturating_sub(present.sum());
    drop(state);
    budget.parts.retain(|(part_of, _)| !std::ptr::eq(part_of.as_ptr(), file));
}

impl Budget {
    /// Gives up the oldest parts until there is room.
    pub(super) fn make_room(&mut self, bytes: usize) {
        while self.used + bytes > self.limit {
            let Some((file, blocks)) = self.parts.pop_front() else { return };
            if let Some(file) = file.upgrade() {
                self.used = self.used.saturating_sub(file.give_up(blocks));
            }
        }
    }

    pub(super) fn add(&mut self, file: &Arc<OnDemand>, blocks: Range<usize>, bytes: usize) {
        self.used += bytes;
        self.parts.push_back((Arc::downgrade(file), blocks));
    }
}

/// The budget in bytes. A variable that is no number is as if it were not set: the default serves every dump.
fn limit() -> usize {
    let set = std::env::var(VARIABLE).ok().and_then(|text| text.trim().parse::<usize>().ok());
    let cores = available_parallelism().map_or(1, NonZeroUsize::get);
    set.unwrap_or(DEFAULT.max(PER_CORE * cores)).max(LEAST) << 20
}
