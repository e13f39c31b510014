//! Arguments and results as `dump.json` describes them.
//!
//! Scalars and containers are written here, tensors by [`Describe`]; any other value is passed to the front each time.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use ulpscope_capture::{Initialised, Plan, StepId, is_in_graph};
use ulpscope_dump::journal::encode::{ListText, ObjectText, Plain, push_null};
use ulpscope_dump::operators::is_of_blank;

use crate::capture::calls::call_in_progress::version;
use crate::capture::describe::tensors::Describe;
use crate::capture::provenance::call_memory::CallMemory;
use crate::capture::recorder::Recorder;

/// The deepest nesting of containers; the older tool's limit.
pub(in crate::capture) const MAX_DEPTH: usize = 400;

/// The largest number of values among the arguments, or the results, of one call.
const MAX_ITEMS: usize = 1 << 20;

/// Values in containers that were visited before. Without a limit, two containers that hold the next two twice each,
/// and so on, would take exponential time.
const MAX_REPEATED: usize = 1 << 14;

/// The part of a call that its results are.
pub(in crate::capture) const OUTPUT: &str = "output";

/// The ledger's note for a truncated value.
const CUT_OFF: &str = "a cyclic or oversized value was truncated; the rest is null";

/// A tensor that the walk found, with its properties.
pub(in crate::capture) struct Met {
    pub(in crate::capture) tensor: Py<PyAny>,
    pub(in crate::capture) requires_grad: bool,
    /// Its path among the results, if it is one: `0`, `1.2`, `name`.
    pub(in crate::capture) path: String,
    /// Whether it was found in an attribute of an object. The older tool does not search these. Gradients are numbered
    /// by the order of tensors, and keep the older tool's numbers.
    pub(in crate::capture) is_attribute: bool,
}

/// One walk over the arguments or results of a call.
pub(in crate::capture) struct Walk<'a> {
    pub(in crate::capture) recorder: &'a Recorder,
    /// The step that the call belongs to.
    step: StepId,
    /// The name of the call.
    pub(in crate::capture) call: &'a str,
    /// `input`, `output`, `kwargs`, `parameters`: used in file names.
    pub(in crate::capture) part: &'static str,
    pub(in crate::capture) path: String,
    /// Whether tensors get files.
    pub(in crate::capture) saves: bool,
    /// Whether the producers of tensors are written.
    pub(in crate::capture) has_sources: bool,
    pub(in crate::capture) is_recompute: bool,
    /// The addresses of arguments that the call has changed already.
    pub(in crate::capture) changed: Vec<usize>,
    /// Whether anything is written; if not, tensors are still collected.
    pub(in crate::capture) describes: bool,
    pub(in crate::capture) met: Vec<Met>,
    /// Whether the call only rearranges elements, and those that it gets are uninitialised.
    pub(in crate::capture) gets_blank: bool,
    /// Whether it has found a tensor of another class than torch's own.
    pub(in crate::capture) has_other_class: bool,
    depth: usize,
    /// The containers on the current path.
    around: Vec<usize>,
    /// The containers visited so far, by address. Most walks have none.
    known: Option<HashSet<usize>>,
    /// The length of `around` when a container was visited again; `None` outside of such containers.
    repeats_from: Option<usize>,
    items: usize,
    repeated: usize,
    is_cut_off: bool,
    /// How many objects with attributes are on the current path.
    objects: usize,
    /// Replacements from the front, kept alive since containers are identified by address.
    stand_ins: Vec<Py<PyAny>>,
    /// What the name of the call says of its memory, once it is needed.
    pub(in crate::capture) memory: OnceCell<CallMemory>,
}

impl<'a> Walk<'a> {
    pub(in crate::capture) fn new(
        recorder: &'a Recorder,
        step: StepId,
        call: &'a str,
        part: &'static str,
    ) -> Walk<'a> {
        Walk {
            recorder,
            step,
            call,
            part,
            path: String::new(),
            saves: recorder.recording.plan.saves(call),
            has_sources: part != OUTPUT && !recorder.recording.plan.checks_overflow(),
            is_recompute: false,
            changed: Vec::new(),
            describes: true,
            met: Vec::new(),
            gets_blank: false,
            has_other_class: false,
            depth: 0,
            around: Vec::new(),
            known: None,
            repeats_from: None,
            items: 0,
            repeated: 0,
            is_cut_off: false,
            objects: 0,
            stand_ins: Vec::new(),
            memory: OnceCell::new(),
        }
    }

    fn memory(&self) -> CallMemory {
        *self.memory.get_or_init(|| CallMemory::of(self.call))
    }

    /// The elements of a tuple, as a list.
    pub(in crate::capture) fn elements(
        &mut self,
        items: &Bound<'_, PyTuple>,
        out: &mut Vec<u8>,
    ) -> PyResult<()> {
        self.list(items.iter(), out)
    }

    /// The values of a dictionary, as an object.
    pub(in crate::capture) fn values(
        &mut self,
        pairs: &Bound<'_, PyDict>,
        out: &mut Vec<u8>,
    ) -> PyResult<()> {
        self.object(pairs.iter(), out)
    }

    /// One value.
    pub(in crate::capture) fn item(&mut self, item: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
        if item.is_none() {
            push_null(out);
            return Ok(());
        }
        if self.recorder.torch.is_plain_tensor(item) {
            return self.tensor(item, out);
        }
        if let Ok(items) = item.cast_exact::<PyTuple>() {
            return self.within(item, out, |walk, out| walk.list(items.iter(), out));
        }
        if let Ok(items) = item.cast_exact::<PyList>() {
            return self.within(item, out, |walk, out| walk.list(items.iter(), out));
        }
        if let Ok(pairs) = item.cast_exact::<PyDict>() {
            // Another thread may change the user's dictionary while one of its tensors is measured.
            return self.within(item, out, |walk, out| walk.object(pairs.copy()?.iter(), out));
        }
        if self.scalar(item, out)? {
            return Ok(());
        }
        if self.recorder.torch.is_tensor(item)? {
            self.has_other_class = true;
            return self.tensor(item, out);
        }
        self.unusual(item, out)
    }

    fn list<'py>(
        &mut self,
        items: impl Iterator<Item = Bound<'py, PyAny>>,
        out: &mut Vec<u8>,
    ) -> PyResult<()> {
        let length = self.path.len();
        let mut list = ListText::open(out);
        for (position, item) in items.enumerate() {
            list.element(out);
            self.push_path(itoa::Buffer::new().format(position), length);
            self.element(&item, out)?;
            self.path.truncate(length);
        }
        list.close(out);
        Ok(())
    }

    fn object<'py>(
        &mut self,
        pairs: impl Iterator<Item = (Bound<'py, PyAny>, Bound<'py, PyAny>)>,
        out: &mut Vec<u8>,
    ) -> PyResult<()> {
        let length = self.path.len();
        let mut object = ObjectText::open(out);
        for (key, item) in pairs {
            let key = key.str()?;
            let key = key.to_string_lossy();
            object.key(&key, out);
            self.push_path(&key, length);
            self.element(&item, out)?;
            self.path.truncate(length);
        }
        object.close(out);
        Ok(())
    }

    fn push_path(&mut self, part: &str, length: usize) {
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(part);
    }

    /// Enters a container, unless it is cyclic or too large.
    fn within(
        &mut self,
        container: &Bound<'_, PyAny>,
        out: &mut Vec<u8>,
        walk: impl FnOnce(&mut Self, &mut Vec<u8>) -> PyResult<()>,
    ) -> PyResult<()> {
        let address = container.as_ptr() as usize;
        if self.around.contains(&address) {
            return self.cut_off(out);
        }
        let is_known = !self.known.get_or_insert_default().insert(address);
        if is_known && self.repeats_from.is_none() {
            self.repeats_from = Some(self.around.len());
        }
        self.around.push(address);
        let result = walk(self, out);
        self.around.pop();
        if self.repeats_from == Some(self.around.len()) {
            self.repeats_from = None;
        }
        result
    }

    /// One value in a container.
    fn element(&mut self, item: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
        self.items += 1;
        let is_repeated = self.repeats_from.is_some();
        self.repeated += usize::from(is_repeated);
        if self.items > MAX_ITEMS || is_repeated && self.repeated > MAX_REPEATED {
            return self.cut_off(out);
        }
        self.deeper(out, |walk, out| walk.item(item, out))
    }

    fn deeper(
        &mut self,
        out: &mut Vec<u8>,
        walk: impl FnOnce(&mut Self, &mut Vec<u8>) -> PyResult<()>,
    ) -> PyResult<()> {
        if self.depth >= MAX_DEPTH {
            return self.cut_off(out);
        }
        self.depth += 1;
        let result = walk(self, out);
        self.depth -= 1;
        result
    }

    fn cut_off(&mut self, out: &mut Vec<u8>) -> PyResult<()> {
        if !std::mem::replace(&mut self.is_cut_off, true) {
            self.recorder.locked(|state| state.note(CUT_OFF.to_owned()));
        }
        push_null(out);
        Ok(())
    }

    /// Writes a number, boolean or text; returns whether it was one.
    fn scalar(&mut self, item: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<bool> {
        let start = out.len();
        if let Ok(flag) = item.cast_exact::<PyBool>() {
            Plain::Bool(flag.is_true()).encode(out);
        } else if let Ok(number) = item.cast_exact::<PyInt>() {
            match number.extract::<i128>() {
                Ok(number) => Plain::Int(number).encode(out),
                Err(_) => Plain::LongInt(&number.str()?.to_string_lossy()).encode(out),
            }
        } else if let Ok(number) = item.cast_exact::<PyFloat>() {
            Plain::Float(number.value()).encode(out);
        } else if let Ok(text) = item.cast_exact::<PyString>() {
            Plain::Str(&text.to_string_lossy()).encode(out);
        } else {
            return Ok(false);
        }
        if self.recorder.recording.plan.skip_scalars {
            out.truncate(start);
            push_null(out);
        }
        Ok(true)
    }

    fn tensor(&mut self, tensor: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
        let py = tensor.py();
        let requires_grad = tensor.getattr(intern!(py, "requires_grad"))?.is_truthy()?;
        self.met.push(Met {
            tensor: tensor.clone().unbind(),
            requires_grad,
            // Arguments are found by their places, results by their paths.
            path: if self.part == OUTPUT { self.path.clone() } else { String::new() },
            is_attribute: self.objects > 0,
        });
        if !self.describes || is_left_out(&self.recorder.recording.plan, tensor)? {
            push_null(out);
            return Ok(());
        }
        let mut source = if self.has_sources {
            let found = self.recorder.flow.source(&self.recorder.tensor(tensor))?;
            let found = found.filter(|source| !self.recorder.passes.have_changed(|| version(tensor), source));
            Some(found.unwrap_or_else(|| Arc::from("outside")))
        } else {
            None
        };
        let is_blank = self.is_blank(tensor, source.as_deref());
        if let Some(found) = source.as_mut().filter(|_| self.recorder.graphs.are_used()) {
            match (self.step.graph(), is_in_graph(found)) {
                (Some(_), false) => *found = self.recorder.graph_argument(tensor, found),
                // It was captured, and not replayed in this step.
                (None, true) => *found = Arc::from("outside"),
                _ => {}
            }
        }
        let stem = (self.saves && !is_blank).then(|| match self.path.as_str() {
            "" => [self.call, ".", self.part].concat(),
            path => [self.call, ".", self.part, ".", path].concat(),
        });
        let describe = Describe {
            recorder: self.recorder,
            step: self.step,
            file: stem.as_deref(),
            source,
            is_recompute: self.is_recompute,
            is_changed: self.changed.contains(&(tensor.as_ptr() as usize)),
        };
        match is_blank {
            true => describe.push_blank(tensor, requires_grad, out),
            false => describe.push(tensor, requires_grad, out),
        }
    }

    /// Whether a tensor is uninitialised, at least in part, and the call computes nothing from it.
    fn is_blank(&mut self, tensor: &Bound<'_, PyAny>, source: Option<&str>) -> bool {
        let tensor = self.recorder.tensor(tensor);
        let initialised = || self.recorder.flow.initialised(&tensor);
        let memory = self.memory();
        match (self.part, source) {
            (OUTPUT, _) if memory.rearranges => self.gets_blank || initialised() != Initialised::Fully,
            (OUTPUT, _) => memory.is_blank,
            ("parameters", _) => false,
            _ if self.is_overwritten() => {
                source.is_some_and(is_of_blank) || initialised() != Initialised::Fully
            }
            _ if memory.rearranges => {
                let initialised = initialised();
                self.gets_blank |= self.path == "0" && initialised == Initialised::Not;
                initialised != Initialised::Fully
            }
            _ => {
                // It may have written to it, in a way that torch does not report.
                self.recorder.flow.forget_blank(&tensor);
                false
            }
        }
    }

    /// Whether the call only writes to the current argument.
    fn is_overwritten(&self) -> bool {
        match self.part {
            "input" => self.memory().overwrites_first && self.path.split('.').next() == Some("0"),
            "kwargs" => self.path == "out" || self.path.starts_with("out."),
            _ => false,
        }
    }

    /// A value for the front: it returns JSON text, a value to describe instead, or nothing. For an object, its
    /// attributes and notes.
    fn unusual(&mut self, item: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
        let py = item.py();
        let kind = item.get_type();
        if kind.is(&self.recorder.torch.size) {
            let sizes: Vec<i128> = item.extract()?;
            Plain::Size(&sizes).encode(out);
            return Ok(());
        }
        let mut told = self.recorder.torch.front.bind(py).call_method1(intern!(py, "value"), (item,))?;
        let mut is_object = false;
        if let Ok(with_notes) = told.cast_exact::<PyTuple>() {
            let notes: Vec<String> = with_notes.get_item(1)?.extract()?;
            self.recorder.locked(|state| notes.into_iter().for_each(|note| state.note(note)));
            told = with_notes.get_item(0)?;
            is_object = true;
        }
        if let Ok(text) = told.cast_exact::<PyString>() {
            out.extend_from_slice(text.to_string_lossy().as_bytes());
            return Ok(());
        }
        if told.is_none() {
            push_null(out);
            return Ok(());
        }
        self.stand_ins.push(told.clone().unbind());
        self.objects += usize::from(is_object);
        let walked = self.within(item, out, |walk, out| {
            walk.deeper(out, |walk, out| match told.cast_exact::<PyDict>() {
                Ok(pairs) => walk.object(pairs.iter(), out),
                Err(_) => walk.list(told.cast::<PyList>()?.iter(), out),
            })
        });
        self.objects -= usize::from(is_object);
        walked
    }
}

/// Whether a tensor is of a kind that is not recorded.
pub(in crate::capture) fn is_left_out(plan: &Plan, tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    if plan.skip_ints && !is_float(tensor)? {
        return Ok(true);
    }
    if !plan.skip_single_values {
        return Ok(false);
    }
    let py = tensor.py();
    let has_dimensions = tensor.call_method0(intern!(py, "dim"))?.is_truthy()?;
    Ok(!has_dimensions || !tensor.call_method0(intern!(py, "numel"))?.is_truthy()?)
}

fn is_float(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = tensor.py();
    Ok(tensor.call_method0(intern!(py, "is_floating_point"))?.is_truthy()?
        || tensor.call_method0(intern!(py, "is_complex"))?.is_truthy()?)
}
