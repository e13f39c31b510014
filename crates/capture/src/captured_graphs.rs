//! The graph that is being captured, with a state of its own, and the latest replays of all graphs.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::graph::{GraphCalls, GraphNumber, Replays};
use crate::state::{State, StepId};

/// Whether what this thread does now goes into the graph that is being captured.
pub type IsHere = Box<dyn Fn() -> bool + Send + Sync>;

/// A graph that is being captured.
pub(crate) struct CapturedGraph {
    is_here: IsHere,
    state: Mutex<State>,
}

impl CapturedGraph {
    pub(crate) fn locked<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut lock(&self.state))
    }
}

/// The graphs of a run. One is captured at a time.
#[derive(Default)]
pub(crate) struct Graphs {
    /// Whether there is one: each call asks.
    is_capturing: AtomicBool,
    captured: Mutex<Option<Arc<CapturedGraph>>>,
    count: AtomicU32,
    replays: Mutex<Replays>,
}

impl Graphs {
    /// The graph that is being captured.
    pub(crate) fn captured(&self) -> Option<Arc<CapturedGraph>> {
        if self.is_capturing.load(Ordering::Relaxed) { lock(&self.captured).clone() } else { None }
    }

    /// The graph, if what this thread does goes there.
    pub(crate) fn of_this_thread(&self) -> Option<Arc<CapturedGraph>> {
        self.captured().filter(|graph| (graph.is_here)())
    }

    pub(crate) fn begin(&self, outside: &State, is_here: IsHere) -> StepId {
        let graph = GraphNumber(self.count.fetch_add(1, Ordering::Relaxed) + 1);
        let state = outside.of_graph(graph);
        let step = state.id;
        *lock(&self.captured) = Some(Arc::new(CapturedGraph { is_here, state: Mutex::new(state) }));
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
