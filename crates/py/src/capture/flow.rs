//! Which call made a tensor.
//!
//! A tensor is known by its Python object, held weakly: the object that one call returns is the one that is handed to
//! the next. A tensor that is not known, and is neither parameter nor buffer, came from outside. What is changed in place is
//! changed for every other tensor that shows the same memory, too: see [`super::changes`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;

use super::changes::{Changes, Storage};
use super::state::StepId;
use super::torch_api::Torch;

/// Tensors remembered before the dead ones are looked for.
const SWEEP: usize = 1 << 14;

/// Places in memory remembered that nothing was written to.
const MAX_BLANKS: usize = 1 << 14;

/// The makers of tensors, by the address of their Python object.
#[derive(Default)]
pub(super) struct Flow {
    known: Mutex<Known>,
    /// Whether memory was found in this step that may not have been written to.
    has_blanks: AtomicBool,
}

#[derive(Default)]
struct Known {
    step: StepId,
    /// Counts what is noted, from step to step.
    serial: u64,
    /// What was changed in place in this step.
    changes: Changes,
    /// Outputs of the calls of this step.
    made: HashMap<usize, Made>,
    /// Tensors that share their elements with another, of which torch does not tell: `x.data`, `x.detach()`.
    aliases: HashMap<usize, Alias>,
    /// Memory as it was found, by its address, until a call has written to it: a parameter that is made of it is another
    /// object, of which torch does not tell.
    blanks: HashMap<usize, Arc<str>>,
    /// Views that were changed, or whose base was, and that have had their nodes since.
    up_to_date: HashMap<usize, UpToDate>,
    /// Parameters and buffers, for as long as the run is.
    origins: HashMap<usize, Made>,
    sweep_at: usize,
}

/// What a step has made.
pub(super) struct Forgotten {
    _made: HashMap<usize, Made>,
    _aliases: HashMap<usize, Alias>,
    _up_to_date: HashMap<usize, UpToDate>,
    _changes: Changes,
}

/// A tensor, and whose elements it has; both held weakly.
struct Alias {
    reference: Py<PyAny>,
    owner: Py<PyAny>,
}

/// A view, held weakly, and how often it had been changed when it had its node.
struct UpToDate {
    reference: Py<PyAny>,
    changes: u64,
}

struct Made {
    reference: Py<PyAny>,
    origin: Origin,
}

/// Where a tensor comes from.
#[derive(Clone)]
struct Origin {
    source: Arc<str>,
    /// When it was noted.
    serial: u64,
    /// Of what was changed in place, what was known of it before.
    before: Option<Before>,
}

/// What was known of a tensor before it was changed in place for the first time.
#[derive(Clone)]
struct Before {
    source: Option<Arc<str>>,
    /// When it was there already.
    serial: u64,
}

impl Known {
    /// The addresses of the tensors that are known to have the elements of another.
    fn owned_by(&self, owner: &Bound<'_, PyAny>) -> Vec<usize> {
        let is_owned = |alias: &Alias| Torch::refers_to(&alias.owner, owner);
        self.aliases.iter().filter(|(_, alias)| is_owned(alias)).map(|(address, _)| *address).collect()
    }

    /// A number after all others.
    fn count(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }
}

impl Flow {
    fn locked<T>(&self, with: impl FnOnce(&mut Known) -> T) -> T {
        with(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes who made a tensor, in a step. Whatever was known of it before is over; as is a step that is not the
    /// present one.
    pub(super) fn note(
        &self,
        torch: &Torch,
        step: StepId,
        tensor: &Bound<'_, PyAny>,
        source: Arc<str>,
    ) -> PyResult<()> {
        self.note_with(torch, step, tensor, source, None)
    }

    /// Notes that a call has written to the memory of a tensor; tells the number of the change.
    pub(super) fn add_change(&self, step: StepId, tensor: &Bound<'_, PyAny>, source: Arc<str>) -> u64 {
        let written = Storage::of(tensor).and_then(|storage| Some((storage, storage.region(tensor)?)));
        self.locked(|known| {
            let serial = known.count();
            if let Some((storage, region)) = written.filter(|_| known.step == step) {
                known.changes.add(storage, region, serial, source);
            }
            serial
        })
    }

    /// Notes who has changed a tensor, or a part of it, by the change of a number.
    pub(super) fn note_changed(
        &self,
        torch: &Torch,
        step: StepId,
        tensor: &Bound<'_, PyAny>,
        source: Arc<str>,
        change: u64,
    ) -> PyResult<()> {
        let before = match self.exactly(tensor) {
            Some(Origin { before: Some(before), .. }) => before,
            Some(Origin { source, serial, .. }) => Before { source: Some(source), serial },
            None => Before { source: None, serial: change.saturating_sub(1) },
        };
        self.note_with(torch, step, tensor, source, Some(before))
    }

    fn note_with(
        &self,
        torch: &Torch,
        step: StepId,
        tensor: &Bound<'_, PyAny>,
        source: Arc<str>,
        before: Option<Before>,
    ) -> PyResult<()> {
        let reference = torch.weak_reference(tensor)?;
        if self.has_blanks.load(Ordering::Relaxed)
            && let Some(address) = memory_of(tensor)
        {
            let is_last = self.locked(|known| {
                known.blanks.remove(&address);
                known.blanks.is_empty()
            });
            self.has_blanks.store(!is_last, Ordering::Relaxed);
        }
        let (is_much, _before, _reference) = self.locked(|known| {
            if known.step != step {
                return (false, None, Some(reference));
            }
            let origin = Origin { source, serial: known.count(), before };
            let replaced = known.made.insert(tensor.as_ptr() as usize, Made { reference, origin });
            (known.made.len() > known.sweep_at.max(SWEEP), replaced, None)
        });
        if is_much {
            self.sweep(tensor.py());
        }
        Ok(())
    }

    /// Notes that a tensor is memory as it was found.
    pub(super) fn note_blank(&self, tensor: &Bound<'_, PyAny>, source: Arc<str>) {
        let Some(address) = memory_of(tensor) else { return };
        self.locked(|known| {
            if known.blanks.len() < MAX_BLANKS {
                known.blanks.insert(address, source);
            }
        });
        self.has_blanks.store(true, Ordering::Relaxed);
    }

    /// Notes that a tensor has the elements of another.
    pub(super) fn note_alias(
        &self,
        torch: &Torch,
        tensor: &Bound<'_, PyAny>,
        owner: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let alias = Alias { reference: torch.weak_reference(tensor)?, owner: torch.weak_reference(owner)? };
        let py = tensor.py();
        let _before = self.locked(|known| {
            if known.aliases.len() >= SWEEP {
                known.aliases.retain(|_, alias| is_alive(&alias.reference, py));
            }
            known.aliases.insert(tensor.as_ptr() as usize, alias)
        });
        Ok(())
    }

    /// Forgets a tensor, and lets go of it: torch does not exchange the insides of tensors that anybody refers to weakly.
    /// Tells who made it, and what it is to its model.
    pub(super) fn let_go(&self, tensor: &Bound<'_, PyAny>) -> [Option<Arc<str>>; 2] {
        let address = tensor.as_ptr() as usize;
        let (made, origin, _aliases, _up_to_date) = self.locked(|known| {
            // Whether it is this one's is not asked: of others that have been here, nobody asks any more.
            let own = known.aliases.remove(&address);
            let owned: Vec<usize> = known.owned_by(tensor);
            let aliases: Vec<Alias> =
                owned.iter().filter_map(|alias| known.aliases.remove(alias)).chain(own).collect();
            let up_to_date = known.up_to_date.remove(&address);
            (known.made.remove(&address), known.origins.remove(&address), aliases, up_to_date)
        });
        let source =
            |made: &Made| Torch::refers_to(&made.reference, tensor).then(|| Arc::clone(&made.origin.source));
        [made.as_ref().and_then(source), origin.as_ref().and_then(source)]
    }

    /// The tensor whose elements a tensor has, if it is known as an alias.
    pub(super) fn owner_of<'py>(&self, tensor: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        let py = tensor.py();
        let found = self.locked(|known| {
            let alias = known.aliases.get(&(tensor.as_ptr() as usize))?;
            Some((alias.reference.clone_ref(py), alias.owner.clone_ref(py)))
        });
        let (reference, owner) = found?;
        if !Torch::refers_to(&reference, tensor) {
            return None;
        }
        owner.bind(py).call0().ok().filter(|owner| !owner.is_none())
    }

    /// Notes that a view has its node, after so many changes.
    pub(super) fn note_up_to_date(
        &self,
        torch: &Torch,
        view: &Bound<'_, PyAny>,
        changes: u64,
    ) -> PyResult<()> {
        let noted = UpToDate { reference: torch.weak_reference(view)?, changes };
        let py = view.py();
        let _before = self.locked(|known| {
            if known.up_to_date.len() >= SWEEP {
                known.up_to_date.retain(|_, noted| is_alive(&noted.reference, py));
            }
            known.up_to_date.insert(view.as_ptr() as usize, noted)
        });
        Ok(())
    }

    /// Whether a view is known to have its node, after so many changes.
    pub(super) fn is_up_to_date(&self, view: &Bound<'_, PyAny>, changes: u64) -> bool {
        let found = self.locked(|known| {
            let noted = known.up_to_date.get(&(view.as_ptr() as usize))?;
            (noted.changes == changes).then(|| noted.reference.clone_ref(view.py()))
        });
        found.is_some_and(|reference| Torch::refers_to(&reference, view))
    }

    /// The present step.
    pub(super) fn step(&self) -> StepId {
        self.locked(|known| known.step)
    }

    /// Notes a tensor that the step begins with.
    pub(super) fn note_origin(
        &self,
        torch: &Torch,
        tensor: &Bound<'_, PyAny>,
        source: String,
    ) -> PyResult<()> {
        let reference = torch.weak_reference(tensor)?;
        let _before = self.locked(|known| {
            let origin = Origin { source: source.into(), serial: known.count(), before: None };
            known.origins.insert(tensor.as_ptr() as usize, Made { reference, origin })
        });
        Ok(())
    }

    /// Who made a tensor, or was the last to change what it shows.
    pub(super) fn source(&self, torch: &Torch, tensor: &Bound<'_, PyAny>) -> PyResult<Option<Arc<str>>> {
        if let Some(origin) = self.exactly(tensor) {
            let changed = self.changed_since(tensor, origin.serial);
            return Ok(Some(changed.unwrap_or(origin.source)));
        }
        if tensor.get_type().is(&torch.parameter) {
            return Ok(Some(self.blank_of(tensor).unwrap_or_else(|| "parameter".into())));
        }
        // A view that torch made without a call, or in an earlier step.
        let base = tensor.getattr(intern!(tensor.py(), "_base"))?;
        let origin = if base.is_none() { None } else { self.exactly(&base) };
        let Some(origin) = origin else { return Ok(None) };
        let Some(before) = origin.before else { return Ok(Some(origin.source)) };
        Ok(self.changed_since(tensor, before.serial).or(before.source))
    }

    /// The last call that has changed what a tensor shows, which was there already at a number.
    fn changed_since(&self, tensor: &Bound<'_, PyAny>, serial: u64) -> Option<Arc<str>> {
        if self.locked(|known| known.changes.last <= serial) {
            return None;
        }
        let storage = Storage::of(tensor)?;
        if !self.locked(|known| known.changes.has_since(storage, serial)) {
            return None;
        }
        let region = storage.region(tensor)?;
        self.locked(|known| known.changes.latest(storage, &region, serial))
    }

    /// The call that found the memory of a parameter which nothing was written to yet.
    fn blank_of(&self, parameter: &Bound<'_, PyAny>) -> Option<Arc<str>> {
        if !self.has_blanks.load(Ordering::Relaxed) {
            return None;
        }
        let address = memory_of(parameter)?;
        self.locked(|known| known.blanks.get(&address).cloned())
    }

    fn exactly(&self, tensor: &Bound<'_, PyAny>) -> Option<Origin> {
        let address = tensor.as_ptr() as usize;
        let found = |made: &Made| (made.reference.clone_ref(tensor.py()), made.origin.clone());
        let (made, origin) = self
            .locked(|known| (known.made.get(&address).map(found), known.origins.get(&address).map(found)));
        let mut candidates = made.into_iter().chain(origin);
        candidates.find(|(reference, _)| Torch::refers_to(reference, tensor)).map(|(_, origin)| origin)
    }

    /// Goes on to the next step, and hands out what the one before has made, to be forgotten outside of any lock.
    pub(super) fn turn(&self, step: StepId) -> Forgotten {
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
    pub(super) fn clear(&self) {
        self.locked(|known| {
            known.made.clear();
            known.aliases.clear();
            known.blanks.clear();
            known.up_to_date.clear();
            known.origins.clear();
            known.changes = Changes::default();
        });
    }

    fn sweep(&self, py: Python<'_>) {
        self.locked(|known| {
            known.made.retain(|_, made| is_alive(&made.reference, py));
            known.sweep_at = known.made.len() * 2;
        });
    }
}

/// Whether what a weak reference refers to is there.
fn is_alive(reference: &Py<PyAny>, py: Python<'_>) -> bool {
    reference.bind(py).call0().is_ok_and(|found| !found.is_none())
}

/// Where the elements of a tensor begin; nothing where it has none of its own.
fn memory_of(tensor: &Bound<'_, PyAny>) -> Option<usize> {
    let address = tensor.call_method0(intern!(tensor.py(), "data_ptr")).ok()?.extract().ok()?;
    (address != 0).then_some(address)
}
