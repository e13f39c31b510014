//! Modules: their names, and which of them a call runs in.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::address_map::AddressMap;
use crate::threads::ThreadId;

/// A module of the model.
#[derive(Clone, Debug)]
pub struct ModuleName {
    /// `Module.{path}.{Class}`.
    pub base: Arc<str>,
    /// Whether it is a repeated layer that is left out with everything inside.
    pub is_muted: bool,
    /// Whether calls inside it are selected.
    pub is_selected: bool,
}

/// The nodes that a module call created, by their numbers on its thread.
#[derive(Debug)]
struct Span {
    thread: ThreadId,
    nodes: Range<u64>,
    call: Arc<str>,
}

/// The names of modules by the address of their object. The front reports when one is freed, before its address can be
/// reused.
#[derive(Debug, Default)]
pub struct Modules {
    /// Modules without a name are part of a model, but not recorded as calls.
    known: Mutex<AddressMap<Option<ModuleName>>>,
    /// Module calls of this step, ordered by end.
    spans: Mutex<Vec<Span>>,
}

impl Modules {
    fn locked<T>(&self, with: impl FnOnce(&mut AddressMap<Option<ModuleName>>) -> T) -> T {
        with(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Registers a module by its address. One that has a name keeps it.
    pub fn add(&self, address: usize, name: Option<ModuleName>) {
        self.locked(|known| {
            let own = known.entry(address).or_default();
            *own = name.or_else(|| own.take());
        });
    }

    /// The name of a module, if it has one; the outer `None` if the module is unknown.
    pub fn name(&self, address: usize) -> Option<Option<ModuleName>> {
        self.locked(|known| known.get(&address).cloned())
    }

    /// Forgets a freed module.
    pub fn forget(&self, address: usize) {
        self.locked(|known| known.remove(&address));
    }

    /// Notes which nodes of the autograd graph a call on this thread created.
    pub fn add_span(&self, nodes: Range<u64>, call: &Arc<str>) {
        if !nodes.is_empty() {
            self.spans().push(Span { thread: ThreadId::current(), nodes, call: Arc::clone(call) });
        }
    }

    /// The innermost call that created a node; `None` if calls on several threads created one with this number.
    pub fn with_node(&self, number: u64, has_threads: bool) -> Option<Arc<str>> {
        let spans = self.spans();
        let mut found = spans.iter().filter(|span| span.nodes.contains(&number));
        let innermost = found.next()?;
        let is_sure = !has_threads || found.all(|span| span.thread == innermost.thread);
        is_sure.then(|| Arc::clone(&innermost.call))
    }

    /// Forgets which calls created which nodes.
    pub fn forget_spans(&self) {
        self.spans().clear();
    }

    fn spans(&self) -> MutexGuard<'_, Vec<Span>> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets all modules.
    pub fn clear(&self) {
        self.locked(AddressMap::clear);
    }
}

/// A module call that has not returned.
#[derive(Clone, Debug)]
pub struct ModuleLevel {
    /// The recorder it belongs to.
    pub recorder: usize,
    /// Its name in the dump.
    pub name: Arc<str>,
    /// Whether it, or one around it, is on the list to record.
    pub is_listed: bool,
    /// Whether the backward call of it, or of one around it, is on the list.
    pub is_backward_listed: bool,
    /// Whether the scope begins with the backward call of it, or of one around it.
    pub is_backward_first: bool,
    /// Whether calls inside it, or inside one around it, are selected.
    pub is_selected: bool,
    /// Whether it, or one around it, is left out with everything inside.
    pub is_muted: bool,
}

thread_local! {
    static INSIDE: RefCell<Vec<ModuleLevel>> = const { RefCell::new(Vec::new()) };
}

/// The module call of a recorder that this thread is in.
pub fn innermost(recorder: usize) -> Option<ModuleLevel> {
    INSIDE.with_borrow(|inside| inside.last().filter(|level| level.recorder == recorder).cloned())
}

/// Enters a module call.
pub fn enter(level: ModuleLevel) {
    INSIDE.with_borrow_mut(|inside| inside.push(level));
}

/// Leaves a module call, and all calls inside it that never returned.
pub fn leave(recorder: usize, name: &str) {
    INSIDE.with_borrow_mut(|inside| {
        let own = inside.iter().rposition(|level| level.recorder == recorder && &*level.name == name);
        if let Some(position) = own {
            inside.truncate(position);
        }
    });
}

/// Whether this thread is in no module call of a recorder.
pub fn is_outermost(recorder: usize) -> bool {
    innermost(recorder).is_none()
}
