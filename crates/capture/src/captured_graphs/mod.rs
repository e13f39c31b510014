//! Calls that are recorded while a graph is captured, and written whenever it is replayed.
//!
//! ```text
//! capture: calls ──► Recording ──► the graph's own State ──► GraphLines ──► GraphCalls
//! replay:  GraphCalls + numbers, ids, tickets, sources of the current step ──► its journal
//! ```
//! While a graph is captured nothing runs. So nothing of it belongs to the step, and its calls have no numbers yet.

mod calls;
mod lines;
mod names;
mod pieces;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use calls::{GraphCalls, Replayed};
pub use names::{GraphNumber, is_in_graph};
pub use pieces::AtReplay;

pub(crate) use calls::GraphTotals;
pub(crate) use lines::GraphLines;
pub(crate) use names::{Numbers, Replays};
pub(crate) use pieces::FirstNumbers;

use crate::state::{State, StepId};

/// Whether what this thread does now goes into the graph that is being captured.
pub type IsHere = Box<dyn Fn() -> bool + Send + Sync>;

/// A graph that is being captured.
pub(crate) struct GraphCapture {
    is_here: IsHere,
    state: Mutex<State>,
}

impl GraphCapture {
    pub(crate) fn locked<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut lock(&self.state))
    }
}

/// The graphs of a run. One is captured at a time.
#[derive(Default)]
pub(crate) struct CapturedGraphs {
    /// Whether there is one: each call asks.
    is_capturing: AtomicBool,
    captured: Mutex<Option<Arc<GraphCapture>>>,
    count: AtomicU32,
    replays: Mutex<Replays>,
}

impl CapturedGraphs {
    /// The graph that is being captured.
    pub(crate) fn captured(&self) -> Option<Arc<GraphCapture>> {
        if self.is_capturing.load(Ordering::Relaxed) { lock(&self.captured).clone() } else { None }
    }

    /// The graph, if what this thread does goes there.
    pub(crate) fn of_this_thread(&self) -> Option<Arc<GraphCapture>> {
        self.captured().filter(|graph| (graph.is_here)())
    }

    pub(crate) fn begin(&self, outside: &State, is_here: IsHere) -> StepId {
        let graph = GraphNumber(self.count.fetch_add(1, Ordering::Relaxed) + 1);
        let state = outside.of_graph(graph);
        let step = state.id;
        *lock(&self.captured) = Some(Arc::new(GraphCapture { is_here, state: Mutex::new(state) }));
        self.is_capturing.store(true, Ordering::Relaxed);
        step
    }

    pub(crate) fn end(&self) -> Option<GraphCalls> {
        self.is_capturing.store(false, Ordering::Relaxed);
        let graph = lock(&self.captured).take()?;
        let state = graph.locked(std::mem::take);
        state.into_graph_calls()
    }

    pub(crate) fn replays(&self) -> MutexGuard<'_, Replays> {
        lock(&self.replays)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
