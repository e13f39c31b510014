//! The changing state of a step: its files, its counters, its ledger.
//!
//! One lock protects it, under which no Python code runs: Python may call the recorder again. To end a step its state
//! is taken out whole, so that its dump is written while other threads record the next step. Calls that began in it
//! know its [`StepId`], and find that it is over.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ulpscope_dump::journal::JOURNAL_FILE;
use ulpscope_dump::journal::encode::{Header, StackLine};
use ulpscope_dump::writer::{DATA_FOLDER, Fingerprint, Journal, LateNumbers, SavedTensor, TensorStore};
use ulpscope_formats::{Error, Fault, Tensor};

use crate::captured_graphs::{
    AtReplay, FirstNumbers, GraphCalls, GraphLines, GraphNumber, GraphTotals, Numbers, Replayed, Replays,
};
use crate::gradient_counts::GradientCounts;
use crate::ledger::{NOT_ARRIVED, OVER_BYTES, StepLedger};
use crate::limits::{Limits, is_no_room};
use crate::overflow::StepOverflows;
use crate::plan::{Plan, ScopeState};
use crate::stack::CallStack;

/// A step of this run, counted by ends of steps: the user's numbers need not be in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepId {
    number: u64,
    /// The graph that is being captured in the step; zero outside of graphs. What is recorded there is no part of the
    /// step.
    graph: GraphNumber,
}

impl StepId {
    /// How many steps ago an earlier one was.
    pub fn since(self, earlier: StepId) -> u64 {
        self.number.saturating_sub(earlier.number)
    }

    /// Whether two are of the same step, within a graph or not.
    pub fn is_within(self, other: StepId) -> bool {
        self.number == other.number
    }

    /// The graph that is being captured, if one is.
    pub fn graph(self) -> Option<GraphNumber> {
        (self.graph != GraphNumber::default()).then_some(self.graph)
    }
}

/// The state of the step that is being recorded.
#[derive(Debug, Default)]
pub struct State {
    /// Which step it is.
    pub id: StepId,
    step: Option<Step>,
    /// The folder of the step, created on the first write; `None` if the step is not selected.
    folder: Option<PathBuf>,
    /// Whether lines are accepted: not while the dump is made from them.
    is_open: bool,
    counters: HashMap<Arc<str>, u64>,
    /// Counts across steps, so that no two journals share an id.
    ids: u64,
    /// Counts of calls and their outcomes.
    pub ledger: StepLedger,
    /// What the task `overflow_check` has found.
    pub overflows: StepOverflows,
    /// Calls of this step in its journal, or with a place reserved there, including those that raised or failed.
    places: u64,
    /// The same, and bytes written, in the steps before.
    earlier: (u64, u64),
    /// The position in the scope.
    pub scope: ScopeState,
    /// Entries of the list that matched a name.
    pub listed: HashSet<usize>,
    /// Modules with selected backward calls.
    pub wanted_modules: HashSet<Arc<str>>,
    /// Growing calls with a part seen so far; `true` if the call is left out, with all later parts.
    growing_met: HashMap<String, bool>,
    limits: Limits,
    /// Statistics of this step that devices are still computing.
    pub numbers: Arc<LateNumbers>,
    /// Why recording ended early, if not by a limit.
    pub ended: Option<String>,
    /// How often each parameter of a module has got a gradient in this step, by the name of their call.
    gradients: GradientCounts,
    /// What a graph records that is being captured; `None` outside of graphs.
    pub(crate) graph: Option<GraphLines>,
}

/// The outcome of a write.
#[derive(Debug, PartialEq, Eq)]
pub enum Written<T> {
    /// It is written.
    Done(T),
    /// Its step is over, or stopped.
    StepOver,
    /// It would be more than `max_bytes`.
    NoRoom,
}

/// The files of a step.
#[derive(Debug)]
struct Step {
    journal: Journal,
    tensors: TensorStore,
    stacks: HashSet<u64>,
    /// Calls that still grow: the gradients of a module's parameters, by name.
    growing: HashMap<String, u64>,
    /// Whether lines were written after the last dump.
    is_behind: bool,
}

impl Step {
    fn create(folder: &Path, plan: &Plan) -> io::Result<Step> {
        let mut journal = Journal::create(folder)?;
        let mut line = Vec::new();
        let data_folder = folder.join(DATA_FOLDER);
        let data_folder = data_folder.to_string_lossy();
        Header {
            task: &plan.task,
            level: &plan.level,
            framework: "pytorch",
            dump_data_dir: (plan.task == "tensor").then_some(&*data_folder),
            stack_form: plan.stack_form,
        }
        .encode(&mut line);
        journal.append(&[&line]).inspect_err(|_| {
            // Remove an empty journal; if that fails, it is read as one without calls.
            let _ = fs::remove_file(folder.join(JOURNAL_FILE));
            let _ = fs::remove_dir(folder);
            let _ = folder.parent().map(fs::remove_dir);
        })?;
        Ok(Step {
            journal,
            tensors: TensorStore::new(folder, plan.format),
            stacks: HashSet::new(),
            growing: HashMap::new(),
            is_behind: true,
        })
    }
}

impl State {
    /// The state of the first step.
    pub fn new(limits: Limits) -> State {
        State { limits, ..State::default() }
    }

    /// The limit that prevents a further call, if any.
    pub fn over_limit(&mut self) -> Option<&'static str> {
        self.limits.reached_by(self.so_far())
    }

    /// Reserves a place in the journal for a call, or returns the limit that prevents it.
    pub fn take_place(&mut self) -> Option<&'static str> {
        let why_not = self.over_limit();
        self.places += u64::from(why_not.is_none());
        why_not
    }

    /// Releases the place of a call of which nothing was written.
    pub fn give_back_place(&mut self) {
        self.places = self.places.saturating_sub(1);
    }

    /// Whether something was left out for lack of room: growing calls then stop growing.
    pub fn is_out_of_room(&self) -> bool {
        self.limits.is_out_of_room()
    }

    /// Checks that this many bytes fit within the limit.
    pub fn find_room(&mut self, bytes: u64) -> io::Result<()> {
        self.limits.find_room(self.so_far().1, bytes)
    }

    /// Counts a part of a growing call; returns whether it is the first.
    pub fn meet_growing(&mut self, name: &str) -> bool {
        let is_first = !self.growing_met.contains_key(name);
        if is_first {
            self.growing_met.insert(name.to_owned(), false);
            self.ledger.meet();
        }
        is_first
    }

    /// Leaves out a growing call, with all later parts.
    pub fn leave_out_growing(&mut self, name: &str, why: &'static str) {
        self.growing_met.insert(name.to_owned(), true);
        self.ledger.skip(why);
    }

    /// Whether a growing call was left out.
    pub fn is_left_out(&self, name: &str) -> bool {
        self.growing_met.get(name).copied().unwrap_or(false)
    }

    /// Notes that the first part of a growing call could not be recorded: the next one becomes the first.
    pub fn forget_growing(&mut self, name: &str) {
        self.growing_met.remove(name);
    }

    /// Sets the folder of a step. Files are created on the first write.
    pub fn aim(&mut self, folder: PathBuf) {
        self.folder = Some(folder);
        self.is_open = true;
    }

    /// Clears the folder and the notes of the step, unless something was recorded.
    pub fn withdraw(&mut self) {
        if self.step.is_none() {
            self.folder = None;
            self.is_open = false;
            self.ledger = StepLedger::default();
        }
    }

    /// Whether a step can be recorded: it is this one, and it accepts lines.
    pub fn takes(&self, step: StepId) -> bool {
        self.is_open && self.id == step
    }

    /// Creates the files of a step, unless they exist or there is no folder.
    pub fn begin_files(&mut self, plan: &Plan) -> io::Result<()> {
        let Some(folder) = self.folder.as_ref().filter(|_| self.step.is_none() && self.ended.is_none())
        else {
            return Ok(());
        };
        match Step::create(folder, plan) {
            Ok(step) => {
                self.step = Some(step);
                Ok(())
            }
            Err(error) => {
                self.end(&format!("{}: {error}", folder.display()));
                Err(error)
            }
        }
    }

    /// Whether the step has a folder.
    pub fn is_aimed(&self) -> bool {
        self.folder.is_some()
    }

    /// Whether the step needs a dump without any recorded call, because the ledger has something to report.
    pub fn has_something_to_say(&self) -> bool {
        self.folder.is_some() && !self.ledger.is_empty()
    }

    /// Whether a step has a dump at its end. A check has one only if it found something.
    pub fn needs_dump(&self, plan: &Plan, is_wanted: bool) -> bool {
        match plan.checks_overflow() {
            true => self.folder.is_some() && (self.ledger.has_remarks() || !self.overflows.is_empty()),
            false => is_wanted || self.has_something_to_say(),
        }
    }

    /// Calls with a place, and bytes written, in all steps.
    pub fn so_far(&self) -> (u64, u64) {
        let written = self.step.as_ref().map_or(0, |step| step.journal.written() + step.tensors.written());
        (self.earlier.0 + self.places, self.earlier.1 + written)
    }

    /// The state of a graph that is being captured in this step.
    pub fn of_graph(&self, graph: GraphNumber) -> State {
        State {
            id: StepId { graph, ..self.id },
            is_open: self.is_open,
            ids: graph.first(),
            graph: Some(GraphLines::new(graph)),
            ..State::default()
        }
    }

    /// The number of the next gradient of a parameter of a module among those of this step. Within a graph, the call
    /// that it is part of is numbered when the graph is replayed.
    pub fn gradient_number(&mut self, base: &str, parameter: &str) -> u64 {
        let number = self.gradients.next(base, parameter);
        self.graph.as_mut().map_or(number, |graph| graph.gradient(base, number))
    }

    /// The number of this call among those with its base name. Within a graph, calls are numbered when it is replayed.
    pub fn number(&mut self, base: &Arc<str>) -> u64 {
        if let Some(graph) = &mut self.graph {
            return graph.call(base);
        }
        let counter = self.counters.entry(Arc::clone(base)).or_default();
        *counter += 1;
        *counter - 1
    }

    /// Ends the capture of a graph: what was recorded is written when the graph is replayed.
    pub(crate) fn into_graph_calls(self) -> Option<GraphCalls> {
        let State { graph, gradients, ids, numbers, places, ledger, .. } = self;
        let totals = GraphTotals { gradients, last_id: ids, tickets: numbers.tickets(), places, ledger };
        graph.map(|lines| GraphCalls::new(lines, totals))
    }

    /// Writes the calls of a graph that was replayed, all or none; `None` if a limit prevents it, which is counted.
    /// `others` are the latest replays of all graphs.
    pub(crate) fn replay(
        &mut self,
        calls: &GraphCalls,
        others: &Replays,
        at: &AtReplay,
    ) -> io::Result<Option<Replayed>> {
        let (places, written) = self.so_far();
        let after = (places + calls.places.saturating_sub(1), written);
        if let Some(why) = self.limits.reached_by(after) {
            self.ledger.leave_out_replay(&calls.ledger, why);
            return Ok(None);
        }
        let gradients = std::mem::take(&mut self.gradients);
        let own: Arc<[u64]> = calls.numbers(|base| self.number(base), &gradients).into();
        self.gradients = gradients;
        self.gradients.add(&calls.gradients);
        let late = Arc::clone(&self.numbers);
        let first = FirstNumbers { id: self.ids, ticket: late.take_tickets(calls.tickets) };
        self.ids += calls.ids;
        let numbers = Numbers { step: self.id, graph: calls.graph(), own: &own, others };
        let (text, left_out) = calls.text(&numbers, first, at);
        let mut defined = calls.stacks.iter().try_for_each(|(id, frames)| self.define_frames(*id, frames));
        defined = defined.and_then(|()| self.append(&[&text]));
        match defined {
            Err(error) if is_no_room(&error) => {
                self.ledger.leave_out_replay(&calls.ledger, OVER_BYTES);
                return Ok(None);
            }
            defined => defined?,
        }
        self.places += calls.places;
        for (name, id) in calls.growing(&numbers, first) {
            self.growing_met.insert(name.clone(), false);
            self.begin_growing(&name, id);
        }
        self.ledger.add_replay(&calls.ledger, left_out, |name| numbers.name(name));
        Ok(Some(Replayed::new((self.id, calls.graph()), Arc::clone(&own), (first.ticket, late))))
    }

    /// A number that no other call has.
    pub fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// The id of a growing call, if it exists.
    pub fn growing(&self, name: &str) -> Option<u64> {
        if let Some(graph) = &self.graph {
            return graph.growing.get(name).copied();
        }
        self.step.as_ref()?.growing.get(name).copied()
    }

    /// Notes that a growing call exists now.
    pub fn begin_growing(&mut self, name: &str, id: u64) {
        if let Some(graph) = &mut self.graph {
            graph.growing.insert(name.to_owned(), id);
        } else if let Some(step) = &mut self.step {
            step.growing.insert(name.to_owned(), id);
        }
    }

    /// Appends a line, given in parts, if there is room.
    pub fn append(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        if let Some(graph) = &mut self.graph {
            graph.add(parts);
            return Ok(());
        }
        if self.numbers.has_tickets() {
            return self.append_with_room(parts);
        }
        self.find_room(parts.iter().map(|part| part.len() as u64).sum())?;
        let Some(step) = &mut self.step else { return Ok(()) };
        step.is_behind = true;
        let result = step.journal.append(parts);
        if let Err(error) = &result {
            self.end(error);
        }
        result
    }

    /// Appends a line that may have room for statistics.
    fn append_with_room(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let numbers = Arc::clone(&self.numbers);
        let Some(line) = self.step.as_ref().map(|step| numbers.place(parts, &step.journal)) else {
            return Ok(());
        };
        self.find_room(line.size())?;
        let Some(step) = &mut self.step else { return Ok(()) };
        step.is_behind = true;
        let result = numbers.append(line, &mut step.journal);
        if let Err(error) = &result {
            self.end(error);
        }
        result
    }

    /// Appends the definition of a stack, if it is new to the journal.
    pub fn define(&mut self, stack: &CallStack) -> io::Result<()> {
        if let Some(graph) = &mut self.graph {
            graph.define(stack);
            return Ok(());
        }
        self.define_frames(stack.id, &stack.frames)
    }

    /// The same by number and frames.
    pub(crate) fn define_frames(&mut self, id: u64, frames: &str) -> io::Result<()> {
        let Some(step) = &mut self.step else { return Ok(()) };
        if step.stacks.contains(&id) {
            return Ok(());
        }
        let mut line = Vec::with_capacity(frames.len() + 32);
        StackLine { id, frames }.encode(&mut line);
        self.append(&[&line])?;
        if let Some(step) = &mut self.step {
            step.stacks.insert(id);
        }
        Ok(())
    }

    /// Changes the folder of the rank, and moves the existing files there.
    pub fn move_to(&mut self, folder: PathBuf) -> io::Result<()> {
        if let Some(step) = &mut self.step {
            step.journal.move_to(&folder)?;
            step.tensors.moved_to(&folder);
        }
        self.folder = Some(folder);
        Ok(())
    }

    /// Adds a note to the ledger.
    pub fn note(&mut self, text: String) {
        self.ledger.note(text);
        if let Some(step) = &mut self.step {
            step.is_behind = true;
        }
    }

    /// Adds a note that is kept once, without a count.
    pub fn note_once(&mut self, text: &str) {
        self.ledger.note_once(text);
        if let Some(step) = &mut self.step {
            step.is_behind = true;
        }
    }

    /// Adds to the ledger what a model returned.
    pub fn returned(&mut self, results: Vec<(String, Option<String>)>) {
        self.ledger.returned(results);
        if let Some(step) = &mut self.step {
            step.is_behind = true;
        }
    }

    /// Notes which names in the settings matched nothing, if there was anything to match; returns the notes.
    pub fn note_unmatched(&mut self, plan: &Plan) -> Vec<String> {
        if self.folder.is_none() || !self.ledger.has_seen() {
            return Vec::new();
        }
        let notes = plan.unmatched(self.scope, &self.listed);
        for note in &notes {
            self.note(note.clone());
        }
        notes
    }

    /// The place of an equal tensor that was saved before, for an entry of this name; `None` if there is none.
    pub fn link(&mut self, stem: &str, fingerprint: &Fingerprint) -> Option<SavedTensor> {
        self.step.as_mut()?.tensors.link(stem, fingerprint)
    }

    /// Checks that the elements of a tensor fit within the limit.
    pub fn find_room_for(&mut self, tensor: &Tensor) -> io::Result<()> {
        let Some(step) = &self.step else { return Ok(()) };
        self.find_room(step.tensors.most_added(tensor))
    }

    /// Saves a tensor for an entry of this name.
    pub fn save(
        &mut self,
        stem: &str,
        fingerprint: Fingerprint,
        tensor: &Tensor,
    ) -> Result<SavedTensor, Error> {
        let Some(step) = &mut self.step else { return Ok(SavedTensor::default()) };
        let result = step.tensors.save(stem, fingerprint, tensor);
        if let Err(error) = &result
            && let Fault::Io(cause) = &error.fault
            && is_final(cause)
        {
            self.end(error);
        }
        result
    }

    /// Ends recording early. Written data stays.
    fn end(&mut self, error: &dyn std::fmt::Display) {
        self.ended.get_or_insert_with(|| format!("cannot write: {error}"));
    }

    /// Stops accepting lines until the folder is set again, and writes the ledger. Returns the folder, and whether the
    /// journal has anything that the dump lacks. Later notes make the dump incomplete again.
    pub fn settle(&mut self, plan: &Plan, is_over: bool) -> io::Result<Option<(PathBuf, bool)>> {
        self.is_open = false;
        let limit = self.limits.in_words();
        let Some(step) = &mut self.step else { return Ok(None) };
        let is_behind = std::mem::take(&mut step.is_behind);
        if is_behind {
            for _ in 0..self.numbers.give_up()? {
                self.ledger.unread(NOT_ARRIVED.to_owned());
            }
            if let Some(note) = plan.unwatched(self.ledger.has_left_out()) {
                self.ledger.note_once(note);
            }
            // If that fails, the dump is complete all the same: it says itself where each tensor is.
            if let Err(error) = step.tensors.finish() {
                self.ledger.note(format!(
                    "tensors are complete, but other programs cannot open their file: {error}"
                ));
            }
            let mut line = Vec::new();
            let mut report = self.ledger.report(self.ended.as_deref(), limit.as_deref());
            report.notes.extend(self.overflows.notes());
            report.encode(is_over, &mut line);
            step.journal.append_last(&[&line])?;
            step.journal.trim()?;
        }
        Ok(Some((step.journal.folder().to_owned(), is_behind)))
    }

    /// Notes that no dump could be made after `settle`.
    pub fn unsettle(&mut self) {
        if let Some(step) = &mut self.step {
            step.is_behind = true;
        }
    }

    /// Writes to the journal, which stays, why no dump could be made of a finished step.
    pub fn give_up(&mut self, plan: &Plan, why: &dyn std::fmt::Display) -> io::Result<()> {
        self.end(why);
        self.unsettle();
        self.settle(plan, true).map(|_| ())
    }

    /// Counts bytes written to earlier steps.
    pub fn add_earlier(&mut self, bytes: u64) {
        self.earlier.1 += bytes;
    }

    /// Starts the next step, with a folder if it is selected, and returns the finished one. Counters restart.
    pub fn turn(&mut self, folder: Option<PathBuf>) -> State {
        let next = State {
            id: StepId { number: self.id.number + 1, ..StepId::default() },
            is_open: folder.is_some(),
            folder,
            ids: self.ids,
            ended: self.ended.clone(),
            limits: self.limits,
            earlier: self.so_far(),
            ..State::default()
        };
        std::mem::replace(self, next)
    }
}

/// Whether an error will affect all further files, too.
fn is_final(error: &io::Error) -> bool {
    use io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::StorageFull
            | ErrorKind::QuotaExceeded
            | ErrorKind::FileTooLarge
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::PermissionDenied
    )
}
