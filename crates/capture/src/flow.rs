//! Which call produced a tensor.
//!
//! A tensor is identified by its Python object, held weakly: the object that one call returns is passed to the next. A
//! tensor that is unknown, and neither parameter nor buffer, came from outside. A change in place affects every other
//! tensor that shares the memory: see [`Changes`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ulpscope_tensor::Region;

use crate::address_map::AddressMap;
use crate::blanks::{Blanks, Initialised};
use crate::changes::{Changes, Storage};
use crate::state::StepId;

/// Tensors remembered before dead ones are removed.
const SWEEP: usize = 1 << 14;

/// A tensor as an object that a program holds.
///
/// Its methods may run code of the program, so they are never called under a lock. Exceptions: whether an object is
/// alive, and copying a reference.
pub trait TensorObject: Sized {
    /// A reference that does not keep it alive.
    type Weak;
    /// Why a query failed.
    type Error;

    /// Its identity while it is alive.
    fn address(&self) -> usize;
    /// A reference to it.
    fn weak(&self) -> Result<Self::Weak, Self::Error>;
    /// A copy of a reference.
    fn another(&self, reference: &Self::Weak) -> Self::Weak;
    /// Whether a reference refers to it.
    fn is(&self, reference: &Self::Weak) -> bool;
    /// The tensor of a reference, if it is alive; it may be a different tensor.
    fn upgrade(&self, reference: &Self::Weak) -> Option<Self>;
    /// Whether it is a parameter of torch's own class.
    fn is_parameter(&self) -> bool;
    /// The tensor that it is a view of.
    fn base(&self) -> Result<Option<Self>, Self::Error>;
    /// The storage of its elements; `None` if it has no elements of its own.
    fn storage(&self) -> Option<Storage>;
    /// The part of that storage that it shows; `None` if it has no elements.
    fn region(&self, storage: Storage) -> Option<Region>;
    /// Both at once.
    fn part(&self) -> Option<(Storage, Region)> {
        let storage = self.storage()?;
        Some((storage, self.region(storage)?))
    }
}

/// The producers of tensors, by the address of their object. `W` is a weak reference.
#[derive(Debug)]
pub struct Flow<W> {
    known: Mutex<Known<W>>,
    /// Whether there is uninitialised memory in this step.
    has_blanks: AtomicBool,
}

#[derive(Debug)]
struct Known<W> {
    step: StepId,
    /// Numbers all notes, across steps.
    serial: u64,
    /// What was changed in place in this step.
    changes: Changes,
    /// Outputs of the calls of this step.
    made: AddressMap<Made<W>>,
    /// Tensors that share their elements with another without torch reporting it: `x.data`, `x.detach()`.
    aliases: AddressMap<Alias<W>>,
    /// Uninitialised memory. A parameter made from it is a different object, and torch does not report the relation.
    blanks: Blanks,
    /// Views that were changed, or whose base was, and that got their nodes afterwards.
    up_to_date: AddressMap<UpToDate<W>>,
    /// Parameters and buffers, for the whole run.
    origins: AddressMap<Made<W>>,
    /// What calls noted while a graph was captured: the same is noted when it is replayed.
    of_graph: Vec<FlowNote<W>>,
    sweep_at: usize,
}

/// What a call in a captured graph noted of a tensor.
#[derive(Debug)]
pub struct FlowNote<W> {
    kind: NoteKind,
    reference: W,
    source: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoteKind {
    /// It made the tensor.
    Made,
    /// It has written to the tensor's memory.
    Change,
    /// It has changed the tensor, by the change noted last.
    Changed,
}

/// The tensors of a step. Dropping it may run code of the program.
#[derive(Debug)]
pub struct Forgotten<W> {
    _made: AddressMap<Made<W>>,
    _aliases: AddressMap<Alias<W>>,
    _up_to_date: AddressMap<UpToDate<W>>,
    _changes: Changes,
}

/// A tensor, and the owner of its elements; both held weakly.
#[derive(Debug)]
struct Alias<W> {
    reference: W,
    owner: W,
}

/// A view, held weakly, and its change count when it got its node.
#[derive(Debug)]
struct UpToDate<W> {
    reference: W,
    changes: u64,
}

#[derive(Debug)]
struct Made<W> {
    reference: W,
    origin: Origin,
}

/// Where a tensor comes from.
#[derive(Clone, Debug)]
struct Origin {
    source: Arc<str>,
    /// When it was noted.
    serial: u64,
    /// For a tensor changed in place: what was known of it before.
    before: Option<Before>,
}

/// What was known of a tensor before it was changed in place for the first time.
#[derive(Clone, Debug)]
struct Before {
    source: Option<Arc<str>>,
    /// A time when it already existed.
    serial: u64,
}

impl<W> Default for Flow<W> {
    fn default() -> Flow<W> {
        let known = Known {
            step: StepId::default(),
            serial: 0,
            changes: Changes::default(),
            made: AddressMap::default(),
            aliases: AddressMap::default(),
            blanks: Blanks::default(),
            up_to_date: AddressMap::default(),
            origins: AddressMap::default(),
            of_graph: Vec::new(),
            sweep_at: 0,
        };
        Flow { known: Mutex::new(known), has_blanks: AtomicBool::new(false) }
    }
}

impl<W> Known<W> {
    /// The addresses of known aliases of a tensor.
    fn owned_by<T: TensorObject<Weak = W>>(&self, owner: &T) -> Vec<usize> {
        let is_owned = |alias: &Alias<W>| owner.is(&alias.owner);
        self.aliases.iter().filter(|(_, alias)| is_owned(alias)).map(|(address, _)| *address).collect()
    }

    /// The next serial number.
    fn count(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }
}

impl<W> Flow<W> {
    fn locked<T>(&self, with: impl FnOnce(&mut Known<W>) -> T) -> T {
        with(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes who produced a tensor in a step. Earlier knowledge of the tensor is discarded. Ignored if the step is not
    /// the current one.
    pub fn note<T: TensorObject<Weak = W>>(
        &self,
        step: StepId,
        tensor: &T,
        source: Arc<str>,
    ) -> Result<(), T::Error> {
        self.forget_blank(tensor);
        self.note_view(step, tensor, source)
    }

    /// Likewise of a tensor that shows the elements of another.
    pub fn note_view<T: TensorObject<Weak = W>>(
        &self,
        step: StepId,
        tensor: &T,
        source: Arc<str>,
    ) -> Result<(), T::Error> {
        self.note_in_graph(step, tensor, NoteKind::Made, &source);
        self.note_with(step, tensor, source, None)
    }

    /// Notes that a call has written to the memory of a tensor; returns the number of the change.
    pub fn add_change<T: TensorObject<Weak = W>>(&self, step: StepId, tensor: &T, source: Arc<str>) -> u64 {
        let written = tensor.part();
        self.note_in_graph(step, tensor, NoteKind::Change, &source);
        self.locked(|known| {
            let serial = known.count();
            if let Some((storage, region)) = written.filter(|_| known.step.is_within(step)) {
                known.changes.add(storage, region, serial, source);
            }
            serial
        })
    }

    /// Notes who changed a tensor, or a part of it, with the number of the change.
    pub fn note_changed<T: TensorObject<Weak = W>>(
        &self,
        step: StepId,
        tensor: &T,
        source: Arc<str>,
        change: u64,
    ) -> Result<(), T::Error> {
        let before = match self.exactly(tensor) {
            Some(Origin { before: Some(before), .. }) => before,
            Some(Origin { source, serial, .. }) => Before { source: Some(source), serial },
            None => Before { source: None, serial: change.saturating_sub(1) },
        };
        self.note_in_graph(step, tensor, NoteKind::Changed, &source);
        self.note_with(step, tensor, source, Some(before))
    }

    fn note_with<T: TensorObject<Weak = W>>(
        &self,
        step: StepId,
        tensor: &T,
        source: Arc<str>,
        before: Option<Before>,
    ) -> Result<(), T::Error> {
        let reference = tensor.weak()?;
        let (is_much, _before, _reference) = self.locked(|known| {
            if !known.step.is_within(step) {
                return (false, None, Some(reference));
            }
            let origin = Origin { source, serial: known.count(), before };
            let replaced = known.made.insert(tensor.address(), Made { reference, origin });
            (known.made.len() > known.sweep_at.max(SWEEP), replaced, None)
        });
        if is_much {
            self.sweep(tensor);
        }
        Ok(())
    }

    /// Keeps a note of a call in a graph that is being captured.
    fn note_in_graph<T: TensorObject<Weak = W>>(
        &self,
        step: StepId,
        tensor: &T,
        kind: NoteKind,
        source: &Arc<str>,
    ) {
        if step.graph().is_none() {
            return;
        }
        // A tensor without weak references is unknown to later calls in any case.
        let Ok(reference) = tensor.weak() else { return };
        let _forgotten = self.locked(|known| {
            known.of_graph.push(FlowNote { kind, reference, source: Arc::clone(source) });
            if !known.of_graph.len().is_multiple_of(SWEEP) {
                return Vec::new();
            }
            let is_dead = |note: &mut FlowNote<W>| tensor.upgrade(&note.reference).is_none();
            known.of_graph.extract_if(.., is_dead).collect()
        });
    }

    /// Takes what calls noted since a graph is captured.
    pub fn take_graph_notes(&self) -> Vec<FlowNote<W>> {
        self.locked(|known| std::mem::take(&mut known.of_graph))
    }

    /// Notes for a replayed graph what its calls noted when it was captured, with the names that they have now. `any` is
    /// any tensor.
    pub fn note_replay<T: TensorObject<Weak = W>>(
        &self,
        step: StepId,
        (any, notes): (&T, &[FlowNote<W>]),
        name: impl Fn(&str) -> Option<Arc<str>>,
    ) -> Result<(), T::Error> {
        let mut change = 0;
        for note in notes {
            let (Some(tensor), Some(source)) = (any.upgrade(&note.reference), name(&note.source)) else {
                continue;
            };
            match note.kind {
                NoteKind::Made => self.note_view(step, &tensor, source)?,
                NoteKind::Change => change = self.add_change(step, &tensor, source),
                NoteKind::Changed => self.note_changed(step, &tensor, source, change)?,
            }
        }
        Ok(())
    }

    /// Notes that a tensor is uninitialised.
    pub fn note_blank<T: TensorObject<Weak = W>>(&self, tensor: &T, source: Arc<str>) {
        let Some((storage, region)) = tensor.part() else { return };
        self.locked(|known| known.blanks.add(storage, region, source));
        self.has_blanks.store(true, Ordering::Relaxed);
    }

    /// Notes that a call has written to a tensor, of whose storage the rest may be uninitialised.
    pub fn fill_blank<T: TensorObject<Weak = W>>(&self, tensor: &T) {
        self.change_blanks(|| tensor.part(), |blanks, (storage, region)| blanks.write(storage, region));
    }

    /// Notes that a tensor counts as initialised.
    pub fn forget_blank<T: TensorObject<Weak = W>>(&self, tensor: &T) {
        self.change_blanks(|| tensor.storage(), Blanks::forget);
    }

    fn change_blanks<P>(&self, find: impl FnOnce() -> Option<P>, change: impl FnOnce(&mut Blanks, P)) {
        if !self.has_blanks.load(Ordering::Relaxed) {
            return;
        }
        let Some(place) = find() else { return };
        let is_last = self.locked(|known| {
            change(&mut known.blanks, place);
            known.blanks.is_empty()
        });
        self.has_blanks.store(!is_last, Ordering::Relaxed);
    }

    /// How much of a tensor is initialised, as far as is known.
    pub fn initialised<T: TensorObject<Weak = W>>(&self, tensor: &T) -> Initialised {
        if !self.has_blanks.load(Ordering::Relaxed) {
            return Initialised::Fully;
        }
        let Some((storage, region)) = tensor.part() else { return Initialised::Fully };
        self.locked(|known| known.blanks.state(storage, &region))
    }

    /// Notes that a tensor shares the elements of another.
    pub fn note_alias<T: TensorObject<Weak = W>>(&self, tensor: &T, owner: &T) -> Result<(), T::Error> {
        let alias = Alias { reference: tensor.weak()?, owner: owner.weak()? };
        let _before = self.locked(|known| {
            if known.aliases.len() >= SWEEP {
                known.aliases.retain(|_, alias| tensor.upgrade(&alias.reference).is_some());
            }
            known.aliases.insert(tensor.address(), alias)
        });
        Ok(())
    }

    /// Forgets a tensor and drops references to it: torch does not swap tensors with weak references. Returns its
    /// producer, and its role in its model.
    pub fn let_go<T: TensorObject<Weak = W>>(&self, tensor: &T) -> [Option<Arc<str>>; 2] {
        let address = tensor.address();
        let (made, origin, _aliases, _up_to_date) = self.locked(|known| {
            // No check whether the entry is this tensor's: a dead tensor's entry is unused.
            let own = known.aliases.remove(&address);
            let owned: Vec<usize> = known.owned_by(tensor);
            let aliases: Vec<Alias<W>> =
                owned.iter().filter_map(|alias| known.aliases.remove(alias)).chain(own).collect();
            let up_to_date = known.up_to_date.remove(&address);
            (known.made.remove(&address), known.origins.remove(&address), aliases, up_to_date)
        });
        let source = |made: &Made<W>| tensor.is(&made.reference).then(|| Arc::clone(&made.origin.source));
        [made.as_ref().and_then(source), origin.as_ref().and_then(source)]
    }

    /// The owner of a tensor's elements, if it is known as an alias.
    pub fn owner_of<T: TensorObject<Weak = W>>(&self, tensor: &T) -> Option<T> {
        let found = self.locked(|known| {
            let alias = known.aliases.get(&tensor.address())?;
            Some((tensor.another(&alias.reference), tensor.another(&alias.owner)))
        });
        let (reference, owner) = found?;
        if !tensor.is(&reference) {
            return None;
        }
        tensor.upgrade(&owner)
    }

    /// Notes that a view has its node, after this many changes.
    pub fn note_up_to_date<T: TensorObject<Weak = W>>(&self, view: &T, changes: u64) -> Result<(), T::Error> {
        let noted = UpToDate { reference: view.weak()?, changes };
        let _before = self.locked(|known| {
            if known.up_to_date.len() >= SWEEP {
                known.up_to_date.retain(|_, noted| view.upgrade(&noted.reference).is_some());
            }
            known.up_to_date.insert(view.address(), noted)
        });
        Ok(())
    }

    /// Whether a view is known to have its node, after this many changes.
    pub fn is_up_to_date<T: TensorObject<Weak = W>>(&self, view: &T, changes: u64) -> bool {
        let found = self.locked(|known| {
            let noted = known.up_to_date.get(&view.address())?;
            (noted.changes == changes).then(|| view.another(&noted.reference))
        });
        found.is_some_and(|reference| view.is(&reference))
    }

    /// The current step.
    pub fn step(&self) -> StepId {
        self.locked(|known| known.step)
    }

    /// Notes a tensor that exists at the start of the step.
    pub fn note_origin<T: TensorObject<Weak = W>>(&self, tensor: &T, source: String) -> Result<(), T::Error> {
        let reference = tensor.weak()?;
        let _before = self.locked(|known| {
            let origin = Origin { source: source.into(), serial: known.count(), before: None };
            known.origins.insert(tensor.address(), Made { reference, origin })
        });
        Ok(())
    }

    /// Who produced a tensor, or last changed its elements.
    pub fn source<T: TensorObject<Weak = W>>(&self, tensor: &T) -> Result<Option<Arc<str>>, T::Error> {
        if let Some(origin) = self.exactly(tensor) {
            let changed = self.changed_since(tensor, origin.serial);
            return Ok(Some(changed.unwrap_or(origin.source)));
        }
        if tensor.is_parameter() {
            return Ok(Some(self.blank_of(tensor).unwrap_or_else(|| "parameter".into())));
        }
        // A view that torch made without a call, or in an earlier step.
        let origin = tensor.base()?.and_then(|base| self.exactly(&base));
        let Some(origin) = origin else { return Ok(None) };
        let Some(before) = origin.before else { return Ok(Some(origin.source)) };
        Ok(self.changed_since(tensor, before.serial).or(before.source))
    }

    /// The last call that changed the elements of a tensor that existed at a number.
    fn changed_since<T: TensorObject<Weak = W>>(&self, tensor: &T, serial: u64) -> Option<Arc<str>> {
        if self.locked(|known| known.changes.last <= serial) {
            return None;
        }
        let storage = tensor.storage()?;
        if !self.locked(|known| known.changes.has_since(storage, serial)) {
            return None;
        }
        let region = tensor.region(storage)?;
        self.locked(|known| known.changes.latest(storage, &region, serial))
    }

    /// The call that returned the uninitialised memory of a parameter.
    fn blank_of<T: TensorObject<Weak = W>>(&self, parameter: &T) -> Option<Arc<str>> {
        if !self.has_blanks.load(Ordering::Relaxed) {
            return None;
        }
        let storage = parameter.storage()?;
        self.locked(|known| known.blanks.source(storage))
    }

    fn exactly<T: TensorObject<Weak = W>>(&self, tensor: &T) -> Option<Origin> {
        let address = tensor.address();
        let found = |made: &Made<W>| (tensor.another(&made.reference), made.origin.clone());
        let (made, origin) = self
            .locked(|known| (known.made.get(&address).map(found), known.origins.get(&address).map(found)));
        let mut candidates = made.into_iter().chain(origin);
        candidates.find(|(reference, _)| tensor.is(reference)).map(|(_, origin)| origin)
    }

    /// Starts the next step. Returns the tensors of the last one, which must be dropped outside of any lock.
    pub fn turn(&self, step: StepId) -> Forgotten<W> {
        self.has_blanks.store(false, Ordering::Relaxed);
        self.locked(|known| {
            known.step = step;
            known.blanks.clear();
            Forgotten {
                _made: std::mem::take(&mut known.made),
                _aliases: std::mem::take(&mut known.aliases),
                _up_to_date: std::mem::take(&mut known.up_to_date),
                _changes: std::mem::take(&mut known.changes),
            }
        })
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.locked(|known| {
            known.made.clear();
            known.aliases.clear();
            known.blanks.clear();
            known.up_to_date.clear();
            known.origins.clear();
            known.changes = Changes::default();
        });
    }

    fn sweep<T: TensorObject<Weak = W>>(&self, any: &T) {
        self.locked(|known| {
            known.made.retain(|_, made| any.upgrade(&made.reference).is_some());
            known.sweep_at = known.made.len() * 2;
        });
    }
}
