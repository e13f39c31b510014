//! A backward call in progress: its gradients arrive one by one, in one pass or several, in one step or different ones.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ulpscope_dump::journal::encode::add_shared_with;

use crate::backward_names::{age_mark, backward_name, marked_backward_name};
use crate::call_record::{CallRecord, Kind};
use crate::ledger::{ACROSS_GRAPH, NOT_SELECTED};
use crate::plan::Plan;
use crate::recording::Recording;
use crate::stack::CallStack;
use crate::state::{State, StepId};

/// A backward call in progress. `P` is a part of a gradient: a tensor.
#[derive(Debug)]
pub struct PendingBackward<P> {
    /// The forward call.
    call: Arc<str>,
    parent: Option<Arc<str>>,
    /// The step of the forward call.
    made_in: StepId,
    /// The step of this pass, once a part of it has arrived.
    step: StepId,
    /// The gradients at its results.
    pub results: Vec<ResultGradient<P>>,
    /// The gradients of its arguments.
    pub arguments: Vec<PartialGradient<P>>,
    /// For each hook, whether its node has run in this pass.
    pub fired: Vec<bool>,
    /// The name of this pass; `None` before it is counted.
    met_as: Option<Arc<str>>,
    /// Running hooks: while one measures a large gradient, another thread may run the next.
    at_work: usize,
    /// Passes before this one: a retained graph can be walked again.
    passes: u64,
    /// Why it is only counted, not recorded.
    pub left_out: Option<&'static str>,
    /// Whether it is part of the backward call that begins the scope.
    is_first_in_scope: bool,
    /// The name of the module whose call it is, without number.
    module: Option<Arc<str>>,
    /// Where the pass was begun, if that is recorded.
    pub stack: Option<Arc<CallStack>>,
}

/// Arguments that are the same tensor, so that their gradients cannot be separated: the one that has the sum, and the
/// others.
pub type SharedGradient = (usize, Vec<usize>);

/// The gradient that arrives at a result.
#[derive(Debug)]
pub struct ResultGradient<P> {
    /// Parts that the call itself added to the result's gradient, and that do not belong to it. Kept across passes
    /// until the gradient arrives: the nodes of two passes may differ.
    pub within: Vec<P>,
    /// The JSON object that describes it.
    pub text: Option<Vec<u8>>,
}

/// The gradient of an argument.
#[derive(Debug)]
pub struct PartialGradient<P> {
    /// How many nodes contribute a part.
    pub expected: usize,
    /// Parts to be summed, kept if there are several.
    pub parts: Vec<P>,
    /// Other arguments that are the same tensor, whose gradients are included.
    shared_with: Vec<usize>,
    text: Option<Vec<u8>>,
}

impl<P> Default for ResultGradient<P> {
    fn default() -> ResultGradient<P> {
        ResultGradient { within: Vec::new(), text: None }
    }
}

impl<P> Default for PartialGradient<P> {
    fn default() -> PartialGradient<P> {
        PartialGradient { expected: 0, parts: Vec::new(), shared_with: Vec::new(), text: None }
    }
}

impl<P> PartialGradient<P> {
    /// Sets the object that describes it, and adds the arguments whose gradients are included.
    pub fn set(&mut self, text: Option<Vec<u8>>) {
        self.text = text;
        if let Some(text) = self.text.as_mut().filter(|_| !self.shared_with.is_empty()) {
            add_shared_with(&self.shared_with, text);
        }
    }
}

/// A backward call, ready to be written.
#[derive(Debug)]
pub struct FinishedBackward<P> {
    /// The step it belongs to.
    pub step: StepId,
    /// Its name.
    pub name: Arc<str>,
    /// The backward call it is part of.
    pub parent: Option<String>,
    /// Where the pass was begun, if that is recorded.
    pub stack: Option<Arc<CallStack>>,
    /// The objects that describe the gradients at its results.
    pub results: Vec<Option<Vec<u8>>>,
    /// The objects that describe those of its arguments.
    pub arguments: Vec<Option<Vec<u8>>>,
    /// Parts of gradients that were not summed. Dropping a tensor may run Python code, which may let other threads run,
    /// so they outlive the lock of the call.
    _parts: Vec<P>,
}

impl<P> FinishedBackward<P> {
    /// A backward call of which everything is known at once.
    pub fn whole(
        step: StepId,
        name: Arc<str>,
        stack: Option<Arc<CallStack>>,
        results: Vec<Option<Vec<u8>>>,
        arguments: Vec<Option<Vec<u8>>>,
    ) -> FinishedBackward<P> {
        FinishedBackward { step, name, parent: None, stack, results, arguments, _parts: Vec::new() }
    }
}

impl<P> PendingBackward<P> {
    /// The backward call of a call with this many results and hooks. For each argument: how many nodes contribute a
    /// part, or which other argument has its gradient.
    pub fn of(
        call: &CallRecord,
        results: usize,
        parts: &[usize],
        shared: Vec<SharedGradient>,
        hooks: usize,
    ) -> PendingBackward<P> {
        let contribution = |&expected: &usize| PartialGradient { expected, ..PartialGradient::default() };
        let mut arguments: Vec<PartialGradient<P>> = parts.iter().map(contribution).collect();
        for (argument, others) in shared {
            arguments[argument].shared_with = others;
        }
        PendingBackward {
            call: Arc::clone(&call.name),
            parent: call.parent.clone(),
            made_in: call.step,
            step: call.step,
            results: std::iter::repeat_with(ResultGradient::default).take(results).collect(),
            arguments,
            fired: vec![false; hooks],
            met_as: None,
            at_work: 0,
            passes: 0,
            left_out: call.backward_left_out,
            is_first_in_scope: call.is_backward_first,
            module: (call.kind == Kind::Module).then(|| Arc::from(call.base())),
            stack: None,
        }
    }

    /// The node of a hook runs without being recorded; returns whether it is the first of its pass.
    pub fn pass_by(&mut self, hook: usize) -> bool {
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

    /// Whether no pass has run so far.
    pub fn is_untouched(&self) -> bool {
        self.passes == 0 && !self.is_met() && !self.fired.contains(&true)
    }

    /// The name in this pass over the graph: the second is `Tensor.mul@2.0.backward`, one over the graph of the step
    /// before is `Tensor.mul@-1.0.backward`.
    pub fn name(&self) -> Arc<str> {
        if let Some(name) = &self.met_as {
            return Arc::clone(name);
        }
        let mut mark = self.age();
        if self.passes > 0 {
            mark.push_str(&format!("@{}", self.passes + 1));
        }
        marked_backward_name(&self.call, &mark).map_or_else(|| Arc::clone(&self.call), Arc::from)
    }

    /// The parent in this pass: the module's backward call of the same age.
    fn parent(&self) -> Option<String> {
        let parent = self.parent.as_deref()?;
        // A parent that is already a backward call is kept.
        Some(marked_backward_name(parent, &self.age()).unwrap_or_else(|| parent.to_owned()))
    }

    /// How many steps ago the call was made, in the form used in names.
    fn age(&self) -> String {
        age_mark(self.step.since(self.made_in))
    }

    /// Sets the objects that describe all gradients of the node of the call.
    pub fn set_all(&mut self, results: Vec<Option<Vec<u8>>>, arguments: Vec<Option<Vec<u8>>>) {
        self.results = results.into_iter().map(|text| ResultGradient { within: Vec::new(), text }).collect();
        self.arguments = arguments
            .into_iter()
            .map(|text| PartialGradient { text, ..PartialGradient::default() })
            .collect();
    }

    /// Returns the parts of a pass whose step is over: they are lost.
    pub fn take_outdated(&mut self, recording: &Recording) -> Option<FinishedBackward<P>> {
        let is_outdated = self.met_as.is_some() && self.step != recording.locked(|state| state.id);
        is_outdated.then(|| self.take())
    }

    /// Counts the pass of a hook and starts the hook; or returns why the pass is not recorded.
    pub fn meet(&mut self, recording: &Recording, hook: usize) -> Option<&'static str> {
        if self.met_as.is_none() {
            if self.fired.contains(&true) {
                // Its first hook has decided: a call is recorded whole or not at all.
                if !self.fired[hook] {
                    return Some(NOT_SELECTED);
                }
                self.fired.fill(false);
                self.passes += 1;
            }
            let (before, why_not) = recording.locked(|state| {
                let before = std::mem::replace(&mut self.step, state.id);
                (before, self.take_place(&recording.plan, state))
            });
            if why_not.is_some() {
                self.step = before;
                return why_not;
            }
            self.met_as = Some(self.name());
        }
        self.at_work += 1;
        None
    }

    /// Counts the pass and reserves its place, if it runs in the scope and there is room.
    fn take_place(&self, plan: &Plan, state: &mut State) -> Option<&'static str> {
        if self.made_in.graph().is_some() != state.id.graph().is_some() {
            return Some(ACROSS_GRAPH);
        }
        if plan.has_scope() {
            let is_within_first = self.is_first_in_scope && self.step == self.made_in;
            if !plan.in_scope(&self.name(), is_within_first, &mut state.scope) {
                return Some(NOT_SELECTED);
            }
        }
        if let Some(why) = state.take_place() {
            return Some(why);
        }
        state.ledger.meet();
        if plan.has_list()
            && let Some(name) = backward_name(&self.call)
        {
            plan.match_list(&name, &mut state.listed);
        }
        if let Some(module) = self.module.as_ref().filter(|_| plan.has_scope()) {
            state.wanted_modules.insert(Arc::clone(module));
        }
        None
    }

    /// Notes that a hook has finished. Returns whether it is the first of its pass, and the call if it is the last.
    pub fn served(&mut self, hook: usize) -> (bool, Option<FinishedBackward<P>>) {
        self.at_work = self.at_work.saturating_sub(1);
        let is_met = self.met_as.is_some();
        let is_first = is_met && !self.fired.contains(&true);
        // If another thread took the pass, that thread has counted it.
        self.fired[hook] = is_met;
        let is_last = self.fired.iter().all(|fired| *fired);
        (is_first, is_last.then(|| self.take()))
    }

    /// Notes that a hook has failed. Returns whether the call failed with it: nothing else of this pass has arrived.
    pub fn failed(&mut self) -> bool {
        self.at_work = self.at_work.saturating_sub(1);
        let is_nothing = self.at_work == 0 && !self.fired.contains(&true);
        if is_nothing {
            self.met_as = None;
        }
        is_nothing
    }

    /// The step and call that record arriving gradients.
    pub fn at(&self) -> (StepId, Arc<str>) {
        (self.step, self.name())
    }

    /// Whether this pass is counted and recorded.
    pub fn is_met(&self) -> bool {
        self.met_as.is_some()
    }

    /// Returns what has arrived, and prepares for another pass.
    pub fn take(&mut self) -> FinishedBackward<P> {
        let name = self.name();
        self.passes += 1;
        self.fired.fill(false);
        self.met_as = None;
        let arguments = &mut self.arguments;
        let parts = arguments.iter_mut().flat_map(|argument| std::mem::take(&mut argument.parts)).collect();
        FinishedBackward {
            step: self.step,
            name,
            parent: self.parent(),
            stack: self.stack.take(),
            results: self.results.iter_mut().map(|result| result.text.take()).collect(),
            arguments: self.arguments.iter_mut().map(|argument| argument.text.take()).collect(),
            _parts: parts,
        }
    }
}

/// Backward calls kept per pass before complete ones are removed.
const SWEEP: usize = 1 << 12;

/// Backward calls with some gradients received, by their pass over the graph.
#[derive(Debug)]
pub struct StartedBackwards<P> {
    passes: Mutex<Vec<Pass<P>>>,
}

/// One pass over a graph. Several may run at a time: nested, or on different threads.
#[derive(Debug)]
struct Pass<P> {
    /// Torch's number for it.
    task: i64,
    calls: Vec<Arc<Mutex<PendingBackward<P>>>>,
    sweep_at: usize,
}

impl<P> Default for StartedBackwards<P> {
    fn default() -> StartedBackwards<P> {
        StartedBackwards { passes: Mutex::new(Vec::new()) }
    }
}

impl<P> StartedBackwards<P> {
    /// Keeps a call until its pass is over; returns whether it is the first of the pass.
    pub fn keep(&self, task: i64, call: Arc<Mutex<PendingBackward<P>>>) -> bool {
        let mut passes = self.lock();
        let Some(pass) = passes.iter_mut().rfind(|pass| pass.task == task) else {
            passes.push(Pass { task, calls: vec![call], sweep_at: SWEEP });
            return true;
        };
        pass.calls.push(call);
        if pass.calls.len() > pass.sweep_at {
            // This thread holds none of these locks: its hook has released the call being kept.
            pass.calls.retain(|call| lock_call(call).is_met());
            pass.sweep_at = SWEEP.max(2 * pass.calls.len());
        }
        false
    }

    /// Returns the calls of a pass.
    pub fn take(&self, task: i64) -> Vec<Arc<Mutex<PendingBackward<P>>>> {
        let mut passes = self.lock();
        let found = passes.iter().rposition(|pass| pass.task == task);
        found.map(|position| passes.remove(position).calls).unwrap_or_default()
    }

    /// Returns the calls of all passes.
    pub fn take_all(&self) -> Vec<Arc<Mutex<PendingBackward<P>>>> {
        std::mem::take(&mut *self.lock()).into_iter().flat_map(|pass| pass.calls).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Pass<P>>> {
        self.passes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks a call; after a panic it still has everything that arrived.
pub fn lock_call<P>(call: &Mutex<PendingBackward<P>>) -> MutexGuard<'_, PendingBackward<P>> {
    call.lock().unwrap_or_else(PoisonError::into_inner)
}
