//! What has come of a backward call so far: its gradients arrive one by one, over one pass or several, in one step or
//! another.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use ulpscope_dump::journal::encode::add_shared_with;

use super::backward_names::marked_backward_name;
use super::begun::Begun;
use super::recorder::Recorder;
use super::state::StepId;
use super::twins::Shared;

/// What has come of a backward call so far.
pub(super) struct Arriving {
    /// The forward call.
    call: Arc<str>,
    parent: Option<Arc<str>>,
    /// The step of the forward call.
    made_in: StepId,
    /// The step of this pass, once a part of it has arrived.
    step: StepId,
    pub(super) results: Vec<Arrival>,
    pub(super) arguments: Vec<Contribution>,
    /// For each hook, whether it has seen its node in this pass.
    pub(super) fired: Vec<bool>,
    /// What this pass is called; nothing before it counts as seen.
    met_as: Option<Arc<str>>,
    /// Hooks that are at work: while one measures a large gradient, another thread may come to the next.
    at_work: usize,
    /// Passes before this one: a graph that is kept can be walked again.
    passes: u64,
    /// Why it is only counted, if it is.
    pub(super) left_out: Option<&'static str>,
}

/// The gradient that arrives at a result.
#[derive(Default)]
pub(super) struct Arrival {
    /// What the call itself has given to the result, and is no part of it. Stays from pass to pass until the gradient
    /// comes: the nodes of a pass need not be those of the one before.
    pub(super) within: Vec<Py<PyAny>>,
    pub(super) text: Option<Vec<u8>>,
}

/// The gradient of an argument.
#[derive(Default)]
pub(super) struct Contribution {
    /// How many nodes give a part of it.
    pub(super) expected: usize,
    /// Parts to be summed, kept if there are several.
    pub(super) parts: Vec<Py<PyAny>>,
    /// Other arguments that are the same tensor, and whose gradients are in this one.
    shared_with: Vec<usize>,
    text: Option<Vec<u8>>,
}

impl Contribution {
    /// Takes the object that describes it, and has it name those whose gradients are in it.
    pub(super) fn set(&mut self, text: Option<Vec<u8>>) {
        self.text = text;
        if let Some(text) = self.text.as_mut().filter(|_| !self.shared_with.is_empty()) {
            add_shared_with(&self.shared_with, text);
        }
    }
}

/// A backward call, ready to be written.
pub(super) struct Finished {
    pub(super) step: StepId,
    pub(super) name: Arc<str>,
    pub(super) parent: Option<String>,
    pub(super) results: Vec<Option<Vec<u8>>>,
    pub(super) arguments: Vec<Option<Vec<u8>>>,
    /// Parts of gradients that were not summed up. Dropping a tensor may run Python code, which may let other threads run:
    /// so they outlive the lock of the call.
    _parts: Vec<Py<PyAny>>,
}

impl Arriving {
    /// The backward call of a call, which has so many results, of whose arguments so many nodes give each a part, or that
    /// of others, too, and on which there will be so many hooks.
    pub(super) fn of(
        begun: Begun,
        results: usize,
        parts: &[usize],
        shared: Vec<Shared>,
        hooks: usize,
    ) -> Arriving {
        let contribution = |&expected: &usize| Contribution { expected, ..Contribution::default() };
        let mut arguments: Vec<Contribution> = parts.iter().map(contribution).collect();
        for (argument, others) in shared {
            arguments[argument].shared_with = others;
        }
        Arriving {
            call: begun.name,
            parent: begun.parent,
            made_in: begun.step,
            step: begun.step,
            results: std::iter::repeat_with(Arrival::default).take(results).collect(),
            arguments,
            fired: vec![false; hooks],
            met_as: None,
            at_work: 0,
            passes: 0,
            left_out: begun.left_out,
        }
    }

    /// Lets the node of a hook pass by; tells whether it is the first of its pass.
    pub(super) fn pass_by(&mut self, hook: usize) -> bool {
        let is_new = !self.fired.contains(&true) || self.fired[hook];
        if is_new {
            self.fired.fill(false);
        }
        self.fired[hook] = true;
        if self.fired.iter().all(|fired| *fired) {
            self.fired.fill(false);
            self.passes += 1;
        }
        is_new
    }

    /// Whether no pass has come by so far.
    pub(super) fn is_untouched(&self) -> bool {
        self.passes == 0 && !self.is_met() && !self.fired.contains(&true)
    }

    /// The name in this pass over the graph: the second is `Tensor.mul@2.0.backward`, one over the graph of the step
    /// before is `Tensor.mul@-1.0.backward`.
    pub(super) fn name(&self) -> Arc<str> {
        if let Some(name) = &self.met_as {
            return Arc::clone(name);
        }
        let mut mark = self.age();
        if self.passes > 0 {
            mark.push_str(&format!("@{}", self.passes + 1));
        }
        marked_backward_name(&self.call, &mark).map_or_else(|| Arc::clone(&self.call), Arc::from)
    }

    /// The parent in this pass: the backward call of the module, as old as this one.
    fn parent(&self) -> Option<String> {
        let parent = self.parent.as_deref()?;
        // One that is a backward call already stays as it is.
        Some(marked_backward_name(parent, &self.age()).unwrap_or_else(|| parent.to_owned()))
    }

    /// How many steps ago the call was made, as names have it.
    fn age(&self) -> String {
        match self.step.since(self.made_in) {
            0 => String::new(),
            steps => format!("@-{steps}"),
        }
    }

    /// Hands out what has come of a pass in a step that is over: it is lost.
    pub(super) fn take_outdated(&mut self, recorder: &Recorder) -> Option<Finished> {
        let is_outdated = self.met_as.is_some() && self.step != recorder.locked(|state| state.id);
        is_outdated.then(|| self.take())
    }

    /// Meets the pass that the next hook belongs to, and lets it work; or tells which limit keeps it out.
    pub(super) fn meet(&mut self, recorder: &Recorder) -> Option<&'static str> {
        if self.met_as.is_none() {
            let met = recorder.locked(|state| {
                // Which of them are in the scope is known when they are written.
                let why_not = match recorder.plan.scopes_backward() {
                    true => state.over_limit(),
                    false => state.take_place(),
                };
                if why_not.is_none() {
                    state.ledger.meet();
                }
                why_not.map_or(Ok(state.id), Err)
            });
            match met {
                Ok(step) => self.step = step,
                Err(why) => return Some(why),
            }
            self.met_as = Some(self.name());
        }
        self.at_work += 1;
        None
    }

    /// Says that a hook has done its work. Tells whether it is the first of its pass, and hands out the call if it is the
    /// last.
    pub(super) fn served(&mut self, hook: usize) -> (bool, Option<Finished>) {
        self.at_work = self.at_work.saturating_sub(1);
        let is_met = self.met_as.is_some();
        let is_first = is_met && !self.fired.contains(&true);
        // Whoever took the pass meanwhile has counted it.
        self.fired[hook] = is_met;
        let is_last = self.fired.iter().all(|fired| *fired);
        (is_first, is_last.then(|| self.take()))
    }

    /// Says that a hook has failed. Tells whether the call has failed with it: nothing else of this pass has arrived.
    pub(super) fn failed(&mut self) -> bool {
        self.at_work = self.at_work.saturating_sub(1);
        let is_nothing = self.at_work == 0 && !self.fired.contains(&true);
        if is_nothing {
            self.met_as = None;
        }
        is_nothing
    }

    /// Where what arrives is recorded.
    pub(super) fn at(&self) -> (StepId, Arc<str>) {
        (self.step, self.name())
    }

    /// Whether this pass counts as seen, and is recorded.
    pub(super) fn is_met(&self) -> bool {
        self.met_as.is_some()
    }

    /// Hands out what has arrived and makes room for another pass.
    pub(super) fn take(&mut self) -> Finished {
        let name = self.name();
        self.passes += 1;
        self.fired.fill(false);
        self.met_as = None;
        let arguments = &mut self.arguments;
        let parts = arguments.iter_mut().flat_map(|argument| std::mem::take(&mut argument.parts)).collect();
        Finished {
            step: self.step,
            name,
            parent: self.parent(),
            results: self.results.iter_mut().map(|result| result.text.take()).collect(),
            arguments: self.arguments.iter_mut().map(|argument| argument.text.take()).collect(),
            _parts: parts,
        }
    }
}

/// Backward calls kept of a pass before those that are complete are looked for.
const SWEEP: usize = 1 << 12;

/// Backward calls of which a part has arrived, by the pass over the graph that it came with.
#[derive(Default)]
pub(super) struct Started {
    passes: Mutex<Vec<Pass>>,
}

/// One pass over a graph: there are as many at a time as run within each other, or on threads of their own.
struct Pass {
    /// Torch's number for it.
    task: i64,
    calls: Vec<Arc<Mutex<Arriving>>>,
    sweep_at: usize,
}

impl Started {
    /// Keeps a call until its pass is over; tells whether it is the first of that.
    pub(super) fn keep(&self, task: i64, call: Arc<Mutex<Arriving>>) -> bool {
        let mut passes = self.lock();
        let Some(pass) = passes.iter_mut().rfind(|pass| pass.task == task) else {
            passes.push(Pass { task, calls: vec![call], sweep_at: SWEEP });
            return true;
        };
        pass.calls.push(call);
        if pass.calls.len() > pass.sweep_at {
            // None of them is locked by this thread: its hook has let go of the one that is being kept.
            pass.calls.retain(|call| lock(call).is_met());
            pass.sweep_at = SWEEP.max(2 * pass.calls.len());
        }
        false
    }

    /// Hands out the calls of a pass.
    pub(super) fn take(&self, task: i64) -> Vec<Arc<Mutex<Arriving>>> {
        let mut passes = self.lock();
        let found = passes.iter().rposition(|pass| pass.task == task);
        found.map(|position| passes.remove(position).calls).unwrap_or_default()
    }

    /// Hands out the calls of all passes.
    pub(super) fn take_all(&self) -> Vec<Arc<Mutex<Arriving>>> {
        std::mem::take(&mut *self.lock()).into_iter().flat_map(|pass| pass.calls).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Pass>> {
        self.passes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn lock(call: &Mutex<Arriving>) -> MutexGuard<'_, Arriving> {
    call.lock().unwrap_or_else(PoisonError::into_inner)
}
