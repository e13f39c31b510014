//! How far the values of a call go.

use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use ulpscope_dump::operators::ApiName;
use ulpscope_kernels::{Reach, Survival, Threads, reach, survival};
use ulpscope_tensor::{DType, View};

use crate::capture::calls::arguments::Arguments;
use crate::capture::calls::call_in_progress::version;
use crate::capture::calls::functions::Changed;
use crate::capture::describe::tensors::LONG;
use crate::capture::overflow::SWEEP;
use crate::capture::overflow::devices::Extent;
use crate::capture::recorder::Recorder;
use crate::capture::torch_api::Torch;
use crate::input::Input;

/// The deepest nesting of containers that is searched.
const MAX_DEPTH: usize = 16;

/// Tensors of this many bytes are remembered as in range: smaller ones are read again sooner than looked up.
const LARGE: usize = 1 << 16;

/// The largest numbers of the float dtypes: a program that passes one as a scalar means it, as masks do.
const LIMITS: [DType; 6] = [DType::F16, DType::BF16, DType::F32, DType::F64, DType::F8E4M3FN, DType::F8E5M2];

/// What a pass over some values found.
#[derive(Default)]
pub(super) struct Found<'py> {
    pub(super) reach: Reach,
    /// What they would lose in the dtype of `would_overflow`.
    pub(super) lost: Survival,
    /// Tensors on other devices, which are checked there.
    pub(super) remote: Vec<Bound<'py, PyAny>>,
    /// Whether there are values that could not be read.
    pub(super) is_partial: bool,
    /// The first tensor, and whether a gradient can come back to any.
    pub(super) tensors: Vec<Bound<'py, PyAny>>,
}

impl Recorder {
    /// Adds what a value shows, with the tensors in it.
    pub(super) fn look_at<'py>(
        &self,
        value: &Bound<'py, PyAny>,
        found: &mut Found<'py>,
        depth: usize,
    ) -> PyResult<()> {
        if self.torch.is_plain_tensor(value) {
            return self.look_at_tensor(value, found);
        }
        if value.is_none() {
            return Ok(());
        }
        if depth > MAX_DEPTH {
            found.is_partial = true;
            return Ok(());
        }
        if let Ok(items) = value.cast::<PyTuple>() {
            for item in items.iter() {
                self.look_at(&item, found, depth + 1)?;
            }
        } else if let Ok(items) = value.cast::<PyList>() {
            for item in items.iter() {
                self.look_at(&item, found, depth + 1)?;
            }
        } else if let Ok(pairs) = value.cast::<PyDict>() {
            for item in pairs.values().iter() {
                self.look_at(&item, found, depth + 1)?;
            }
        } else if let Ok(number) = value.cast_exact::<PyFloat>() {
            found.reach = found.reach.max(reach_of(number.value()));
        } else if let Ok(number) = value.cast_exact::<PyInt>() {
            found.reach = found.reach.max(number.extract().map_or(Reach::InRange, reach_of));
        } else if self.torch.is_tensor(value)? {
            self.look_at_tensor(value, found)?;
        }
        Ok(())
    }

    /// How far plain tensors in ordinary memory go: the usual case, in which no function of torch runs. `None` if there
    /// is anything else. Adds the tensors to `met`.
    pub(super) fn quick_reach<'py>(
        &self,
        value: &Bound<'py, PyAny>,
        met: &mut Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Reach>> {
        if value.is_none() {
            return Ok(Some(Reach::InRange));
        }
        if !self.torch.is_plain_tensor(value) {
            let Ok(items) = value.cast_exact::<PyTuple>() else { return Ok(None) };
            let mut reach = Reach::InRange;
            for item in items.iter() {
                match self.quick_reach(&item, met)? {
                    Some(found) => reach = reach.max(found),
                    None => return Ok(None),
                }
            }
            return Ok(Some(reach));
        }
        if !self.overflow.is_quick || !self.torch.has_only_met_memory() {
            return Ok(None);
        }
        let Some(input) = Input::magnitudes_in_memory(value)? else {
            self.torch.meet_memoryless();
            return Ok(None);
        };
        met.push(value.clone());
        let mut found = Found::default();
        self.look_at_elements(value.py(), &input, &mut found)?;
        Ok(Some(found.reach))
    }

    fn look_at_tensor<'py>(&self, tensor: &Bound<'py, PyAny>, found: &mut Found<'py>) -> PyResult<()> {
        found.tensors.push(tensor.clone());
        let is_plain = self.torch.is_plain_tensor(tensor);
        if is_plain && !self.measures_all_by_torch() && self.torch.may_have_memory(tensor)? {
            if let Some(input) = Input::in_memory(tensor)? {
                return self.look_at_elements(tensor.py(), &input, found);
            }
            self.torch.meet_memoryless();
        }
        let py = tensor.py();
        let front = self.torch.front.bind(py);
        if is_plain
            && self.recording.plan.measures_by_torch()
            && !front.call_method1(intern!(py, "measurable"), (tensor,))?.is_none()
        {
            found.remote.push(tensor.clone());
            return Ok(());
        }
        let described = front.call_method1(intern!(py, "tensor"), (tensor,))?;
        let (_, _, _, _, readable, why): Unusual<'_> = described.extract()?;
        match (readable, why) {
            (Some(readable), _) => self.look_at_elements(py, &Input::of(&readable)?, found),
            (None, Some(why)) => {
                self.locked(|state| state.ledger.unread(why));
                found.is_partial |= has_floats(tensor)?;
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }

    fn look_at_elements(&self, py: Python<'_>, input: &Input<'_>, found: &mut Found<'_>) -> PyResult<()> {
        let target = self.recording.plan.would_overflow;
        let look = |view: &View<'_>| {
            let threads = if view.packed_size() >= 8 * LONG { Threads::All } else { Threads::One };
            let is_float = view.dtype().is_float() || view.dtype().is_complex();
            let lost = target.filter(|_| is_float).and_then(|target| survival(view, target, threads));
            (reach(view, threads), lost.unwrap_or_default())
        };
        let quick = input.looked_at(|view| (view.packed_size() < LONG).then(|| look(view)))?;
        let (reach, lost) = quick.map_or_else(|| input.detached(py, look), Ok)?;
        found.reach = found.reach.max(reach);
        found.lost = found.lost.merge(lost);
        Ok(())
    }

    /// How far arguments go that a call is about to change in place: afterwards it is too late.
    pub(super) fn extent_before(&self, py: Python<'_>, changed: &[Changed<'_>]) -> PyResult<Extent> {
        let mut found = Found::default();
        for Changed { argument, .. } in changed {
            match argument.cast::<PyList>() {
                Ok(items) => items.iter().try_for_each(|item| self.look_before(&item, &mut found))?,
                Err(_) => self.look_before(argument, &mut found)?,
            }
        }
        self.extent_of(py, &found)
    }

    fn look_before<'py>(&self, tensor: &Bound<'py, PyAny>, found: &mut Found<'py>) -> PyResult<()> {
        if self.is_known_in_range(tensor) { Ok(()) } else { self.look_at(tensor, found, 0) }
    }

    /// Whether a tensor was in range after its last change that torch counts.
    fn is_known_in_range(&self, tensor: &Bound<'_, PyAny>) -> bool {
        let Some((address, now)) = version(tensor) else { return false };
        let known = self.overflow.in_range();
        known
            .get(&address)
            .is_some_and(|(reference, then)| *then == now && Torch::refers_to(reference, tensor))
    }

    /// Remembers that large tensors are in range after a change.
    pub(super) fn note_in_range(&self, changed: &[Changed<'_>]) -> PyResult<()> {
        for Changed { argument, .. } in changed {
            match argument.cast::<PyList>() {
                Ok(items) => items.iter().try_for_each(|item| self.note_tensor_in_range(&item))?,
                Err(_) => self.note_tensor_in_range(argument)?,
            }
        }
        Ok(())
    }

    fn note_tensor_in_range(&self, tensor: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = tensor.py();
        if !self.torch.is_plain_tensor(tensor)
            || tensor.getattr(intern!(py, "nbytes"))?.extract::<usize>()? < LARGE
        {
            return Ok(());
        }
        let Some((address, now)) = version(tensor) else { return Ok(()) };
        let reference = self.torch.weak_reference(tensor)?;
        let _freed = {
            let mut known = self.overflow.in_range();
            let freed = if known.len() >= SWEEP { std::mem::take(&mut *known) } else { Default::default() };
            (freed, known.insert(address, (reference, now)))
        };
        Ok(())
    }

    /// How far the inputs of a call go, after it. Those that it changed count as they were before.
    pub(super) fn extent_of_inputs(
        &self,
        py: Python<'_>,
        call: &str,
        arguments: Arguments<'_, '_>,
        changed: &[Changed<'_>],
        before: &Extent,
    ) -> PyResult<Extent> {
        // Assigning to a part leaves the rest as it was.
        let (name, _) = ApiName::of_call(call);
        let is_overwritten = name.is_in_place() && name.overwrites_first();
        let mut found = Found::default();
        let is_changed =
            |argument: &Bound<'_, PyAny>| changed.iter().any(|changed| changed.argument.is(argument));
        for argument in arguments.args.iter().filter(|argument| !is_changed(argument)) {
            self.look_at_input(&argument, &mut found)?;
        }
        for (key, argument) in arguments.kwargs.iter().flat_map(|kwargs| kwargs.iter()) {
            // It receives the result.
            if !is_changed(&argument) && !key.eq("out")? {
                self.look_at_input(&argument, &mut found)?;
            }
        }
        let mut extent = self.extent_of(py, &found)?;
        if !is_overwritten {
            extent.add(before);
        }
        Ok(extent)
    }

    /// An input that cannot be read says nothing; that is remembered.
    pub(super) fn look_at_input<'py>(
        &self,
        argument: &Bound<'py, PyAny>,
        found: &mut Found<'py>,
    ) -> PyResult<()> {
        match self.look_at(argument, found, 0) {
            Err(error) if !error.is_instance_of::<PyException>(argument.py()) => Err(error),
            Err(_) => {
                found.is_partial = true;
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

/// The front's answer for an unusual tensor.
type Unusual<'py> = (String, String, String, Vec<usize>, Option<Bound<'py, PyAny>>, Option<String>);

/// Whether a tensor's dtype has NaN and infinity.
pub(super) fn has_floats(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = tensor.py();
    let dtype = tensor.getattr(intern!(py, "dtype"))?;
    let is = |what: &Bound<'_, PyString>| dtype.getattr(what)?.is_truthy();
    Ok(is(intern!(py, "is_floating_point"))? || is(intern!(py, "is_complex"))?)
}

/// How far a scalar argument goes.
fn reach_of(number: f64) -> Reach {
    let is_limit = |dtype: &DType| dtype.float_limits().is_some_and(|limits| limits.max == number.abs());
    match number {
        number if number.is_nan() => Reach::Nan,
        number if number.is_infinite() => Reach::Infinite,
        _ if LIMITS.iter().any(is_limit) => Reach::AtLimit,
        _ => Reach::InRange,
    }
}
