//! The plan, and the state of the current step under one lock.
//!
//! Code that could call back into the recording must not run while the state is locked.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use ulpscope_dump::journal::encode::{CallLine, LINE_END, ListText, ObjectText, Section, push_null};

use crate::buffers::Buffer;
use crate::call_record::{CallRecord, Kind};
use crate::captured_graphs::{AtReplay, CapturedGraphs, GraphCalls, IsHere, Replayed};
use crate::ledger::{IN_REPEATED, NOT_SELECTED, OVER_BYTES, RESULTS_OVER_BYTES};
use crate::limits::is_no_room;
use crate::modules::ModuleLevel;
use crate::pending_backward::FinishedBackward;
use crate::plan::{Interruption, Plan};
use crate::stack::CallStack;
use crate::state::{State, StepId, Written};

/// The ledger's note on a call that ended after its step.
const OVERTAKEN: &str = "a call that began in an earlier step ended in this one: neither its output nor its \
                         gradients are recorded";

/// Why the calls of a graph are lost.
const ABANDONED: &str = "its capture failed, or during it the step ended or another capture began";

/// Why a call and its backward call are not recorded; `None` if they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSelection {
    /// The call itself.
    pub forward: Option<&'static str>,
    /// Its backward call.
    pub backward: Option<&'static str>,
}

impl CallSelection {
    fn neither(why: &'static str) -> CallSelection {
        CallSelection { forward: Some(why), backward: Some(why) }
    }
}

/// A run that is being recorded.
pub struct Recording {
    /// What is selected.
    pub plan: Plan,
    state: Mutex<State>,
    graphs: CapturedGraphs,
}

impl Recording {
    /// Nothing is recorded before the state has a folder.
    pub fn new(plan: Plan) -> Recording {
        Recording { state: Mutex::new(State::new(plan.limits)), graphs: CapturedGraphs::default(), plan }
    }

    /// Runs `with` on the state; on that of a graph, if this thread captures one. It must not run code of the program.
    pub fn locked<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        match self.graphs.of_this_thread() {
            Some(graph) => graph.locked(with),
            None => self.locked_outside(with),
        }
    }

    /// The same outside of graphs, whatever this thread captures.
    pub fn locked_outside<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs `with` on the state, if the step is the current one, or of the graph that is being captured.
    pub fn in_step<T>(&self, step: StepId, with: impl FnOnce(&mut State) -> T) -> Option<T> {
        let in_state = |state: &mut State| (state.id == step).then(|| with(state));
        match step.graph() {
            Some(_) => self.graphs.captured()?.locked(in_state),
            None => self.locked_outside(in_state),
        }
    }

    /// Appends to the journal of a step, if the step is not over and there is room.
    pub fn append<T>(
        &self,
        step: StepId,
        with: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> io::Result<Written<T>> {
        let appended = self.in_step(step, |state| {
            if !state.takes(step) {
                return Ok(Written::StepOver);
            }
            state.begin_files(&self.plan)?;
            with(state).map(Written::Done)
        });
        let appended = appended.unwrap_or(Ok(Written::StepOver));
        match appended {
            Err(error) if is_no_room(&error) => Ok(Written::NoRoom),
            appended => appended,
        }
    }

    /// Records what this thread does for a graph that is being captured, until `end_graph`: it is part of the graph where
    /// `is_here` says so. Returns the step of its calls.
    pub fn begin_graph(&self, is_here: IsHere) -> StepId {
        self.locked_outside(|state| self.graphs.begin(state, is_here))
    }

    /// Ends the capture of a graph, and returns its calls; `None` if there is none.
    pub fn end_graph(&self) -> Option<GraphCalls> {
        self.graphs.end()
    }

    /// Ends the capture of a graph whose calls will not be recorded, if there is one: the step ends meanwhile, another
    /// capture begins, or this one has failed.
    pub fn abandon_graph(&self) {
        if let Some(calls) = self.graphs.end() {
            self.locked_outside(|state| {
                state.note(format!("a captured graph of {} calls is not recorded: {ABANDONED}", calls.len()));
            });
        }
    }

    /// Writes the calls of a graph that was replayed. `None` if the step is over, or a limit prevents it.
    pub fn replay(&self, calls: &GraphCalls, at: &AtReplay) -> io::Result<Option<Replayed>> {
        let mut replays = self.graphs.replays();
        let replayed = self.locked_outside(|state| {
            if !state.takes(state.id) {
                return Ok(None);
            }
            state.begin_files(&self.plan)?;
            state.replay(calls, &replays, at)
        })?;
        if let Some(replayed) = &replayed {
            replays.insert(calls.graph(), (replayed.step, Arc::clone(&replayed.numbers)));
        }
        Ok(replayed)
    }

    /// Counts a call as seen and left out.
    pub fn leave_out(&self, why: &'static str) {
        self.locked(|state| {
            state.ledger.meet();
            state.ledger.skip(why);
        });
    }

    /// Which limit has been reached, if any.
    pub fn over_limit(&self) -> Option<&'static str> {
        if self.plan.limits.is_none() { None } else { self.locked(State::over_limit) }
    }

    /// Counts a call, and names it.
    pub fn meet_call(&self, base: &Arc<str>, kind: Kind) -> CallRecord {
        let (number, step) = self.locked(|state| {
            state.ledger.meet();
            (state.number(base), state.id)
        });
        let call = CallRecord::new(CallRecord::name_of(base, kind, number), kind, step);
        CallRecord { ends_last: call.ends_last || self.plan.inner_calls, ..call }
    }

    /// Counts a checked call, in one go if it is in range; returns its number among those of its base, and its step.
    pub fn meet_checked(&self, base: &Arc<str>, is_in_range: bool) -> (u64, StepId) {
        self.locked(|state| {
            state.ledger.meet();
            state.ledger.in_range += u64::from(is_in_range);
            (state.number(base), state.id)
        })
    }

    /// Whether a call and its backward call are recorded, given the module around it. `is_selected`: it is, or runs
    /// inside, a selected module.
    pub fn select(
        &self,
        call: &CallRecord,
        is_selected: bool,
        around: Option<&ModuleLevel>,
    ) -> Result<CallSelection, Interruption> {
        let plan = &self.plan;
        let name = &call.name;
        let in_scope = !plan.has_scope()
            || self.in_step(call.step, |state| plan.in_scope(name, false, &mut state.scope)) == Some(true);
        if plan.has_list() {
            self.in_step(call.step, |state| plan.match_list(name, &mut state.listed));
        }
        if around.is_some_and(|level| level.is_muted) {
            return Ok(CallSelection::neither(IN_REPEATED));
        }
        if !plan.is_selected(name, is_selected)? {
            return Ok(CallSelection::neither(NOT_SELECTED));
        }
        let is_listed = plan.is_listed(name) || around.is_some_and(|level| level.is_listed);
        // Whether it is in the scope is decided when it runs.
        let is_backward_listed =
            plan.is_backward_listed(name) || around.is_some_and(|level| level.is_backward_listed);
        let backward = if is_backward_listed { self.over_limit() } else { Some(NOT_SELECTED) };
        if !plan.wants_forward() || !is_listed || !in_scope {
            return Ok(CallSelection { forward: Some(NOT_SELECTED), backward });
        }
        if plan.limits.is_none() {
            return Ok(CallSelection { forward: None, backward });
        }
        Ok(match self.in_step(call.step, State::take_place).flatten() {
            Some(why) => CallSelection::neither(why),
            None => CallSelection { forward: None, backward },
        })
    }

    /// Writes the start of a call with its sections, and numbers it.
    pub fn begin(&self, call: &mut CallRecord, stack: Option<&CallStack>, sections: &[u8]) -> io::Result<()> {
        // Ids follow the order of lines, whichever thread began first.
        let written = self.append(call.step, |state| {
            let id = state.next_id();
            let mut head = Buffer::new();
            call.first_line(id, stack).open(&mut head);
            if let Some(stack) = stack {
                state.define(stack)?;
            }
            state.append(&[&head, sections, LINE_END])?;
            state.ledger.record();
            Ok(id)
        })?;
        match written {
            Written::Done(id) => call.id = Some(id),
            Written::NoRoom => self.in_step(call.step, |state| state.ledger.skip(OVER_BYTES)).unwrap_or(()),
            Written::StepOver => {}
        }
        Ok(())
    }

    /// Writes the line that ends a recorded call; returns whether its step still accepted it.
    pub fn end(&self, call: &CallRecord, line: &[u8]) -> io::Result<bool> {
        match self.append(call.step, |state| state.append(&[line]))? {
            Written::Done(()) => {}
            Written::NoRoom => self.take_back(call),
            Written::StepOver => {
                self.note_overtaken(call);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes the end of a call whose results could not be recorded.
    pub fn end_without_results(&self, call: &CallRecord) -> io::Result<()> {
        self.leave_scope(call);
        if !call.is_recorded() {
            return Ok(());
        }
        let mut line = Buffer::new();
        call.last_line().encode(&mut line);
        self.append(call.step, |state| state.append(&[&line])).map(|_| ())
    }

    /// Writes that a call has raised an error of a kind, after a line with further sections, if any. `is_counted` says
    /// whether that counts as an error: a recomputed forward is left by an exception as soon as it is no longer needed.
    pub fn raise(&self, call: &CallRecord, kind: &str, mut line: Buffer, is_counted: bool) -> io::Result<()> {
        let Some(raised) = call.raised_line() else { return Ok(()) };
        raised.encode(&mut line);
        match self.append(call.step, |state| state.append(&[&line]))? {
            // Without that line it is also a call that has not returned.
            Written::Done(()) | Written::NoRoom if !is_counted => {}
            Written::Done(()) | Written::NoRoom => {
                let why = format!("{}: {kind}", call.base());
                self.in_step(call.step, |state| state.ledger.raise(why));
            }
            Written::StepOver => self.note_overtaken(call),
        }
        Ok(())
    }

    /// Writes a backward call.
    pub fn write_backward<P>(&self, finished: FinishedBackward<P>) -> io::Result<()> {
        let FinishedBackward { step, name, parent, stack, results, arguments, .. } = finished;
        let plan = &self.plan;
        let mut line = Buffer::new();
        let stack_id = stack.as_ref().map(|stack| stack.id);
        CallLine::Begin { name: &name, id: None, stack: stack_id, parent: parent.as_deref() }.open(&mut line);
        let parts = [
            (Section::Input, results, plan.wants_inputs()),
            (Section::Output, arguments, plan.wants_outputs()),
        ];
        let mut sections = ObjectText::open(&mut line);
        for (section, texts, _) in parts.into_iter().filter(|(_, _, is_wanted)| *is_wanted) {
            sections.section(section, &mut line);
            let mut list = ListText::open(&mut line);
            for text in texts {
                list.element(&mut line);
                match text {
                    Some(text) => line.extend_from_slice(&text),
                    None => push_null(&mut line),
                }
            }
            list.close(&mut line);
        }
        sections.close(&mut line);
        line.extend_from_slice(LINE_END);
        let written = self.append(step, |state| {
            plan.leave_scope(&name, &mut state.scope);
            if let Some(stack) = &stack {
                state.define(stack)?;
            }
            state.append(&[&line])?;
            state.ledger.record();
            Ok(())
        })?;
        if let Written::NoRoom = written {
            self.locked(|state| state.ledger.skip(OVER_BYTES));
        }
        Ok(())
    }

    /// Leaves the scope, if a call is its last.
    pub fn leave_scope(&self, call: &CallRecord) {
        if self.plan.has_scope() {
            self.in_step(call.step, |state| self.plan.leave_scope(&call.name, &mut state.scope));
        }
    }

    /// Counts a recorded call as not recorded: there is no room for its results.
    fn take_back(&self, call: &CallRecord) {
        self.in_step(call.step, |state| {
            state.ledger.take_back();
            state.ledger.skip(RESULTS_OVER_BYTES);
        });
    }

    /// Notes that a call of an earlier step has ended.
    fn note_overtaken(&self, call: &CallRecord) {
        self.locked(|state| {
            if state.id != call.step {
                state.note(OVERTAKEN.to_owned());
            }
        });
    }
}
