//! One tensor: where its elements are, and the object that describes it in `dump.json`.

use std::borrow::Cow;
use std::sync::Arc;

use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::intern;
use pyo3::prelude::*;
use ulpscope_capture::{Plan, Sample, StepId};
use ulpscope_dump::journal::encode::{Elements, TensorHead, TensorRest};
use ulpscope_kernels::{Digest, Stats, Threads, digest, read_once, stats};
use ulpscope_tensor::View;

use crate::capture::device::queue::Remote;
use crate::capture::recorder::{Recorder, kind_of};
use crate::input::{Input, OnGpu, TensorPlace, place_of};

/// Tensors of this many bytes are measured and written without the GIL: smaller ones take less time than switching.
pub(in crate::capture) const LONG: usize = 1 << 20;

/// Tensors of this many bytes are measured on all threads.
const HUGE: usize = 8 << 20;

/// Expanded tensors of this many bytes are not visited element by element.
const ENDLESS: usize = 1 << 30;

/// The ledger's note for such a tensor if digests are wanted.
const NO_DIGEST: &str =
    "an expanded tensor that stands for more than 1 GiB has no digest: use its statistics";

/// Why a tensor has no numbers, as the front says it, too.
const IN_GRAPH: &str = "inside a captured graph";

/// The ledger's note for such a tensor if elements are wanted.
const NO_SAMPLE: &str = "the elements of an expanded tensor that stands for more than 1 GiB are not recorded";

/// The first elements of a tensor as float32, in row-major order.
fn first_elements(view: &View<'_>, sample: Sample) -> Vec<f32> {
    let count = match sample {
        Sample::First(count) => count.min(view.len()),
        Sample::All => view.len(),
    };
    (0..count).map(|index| view.get(index).to_f64() as f32).collect()
}

/// Whether a tensor repeats its elements to so many bytes that only its statistics are computed.
pub(in crate::capture) fn is_endless(view: &View<'_>) -> bool {
    view.packed_size() > ENDLESS && read_once(view).is_some()
}

/// The statistics of a tensor, its digest and its first elements, as far as the settings ask for them.
pub(in crate::capture) fn measured(
    plan: &Plan,
    view: &View<'_>,
) -> (Stats, Option<Digest>, Option<Vec<f32>>) {
    let threads = if view.packed_size() >= HUGE { Threads::All } else { Threads::One };
    let kind = plan.digest.filter(|_| !is_endless(view));
    let elements = plan.sample.filter(|_| !is_endless(view)).map(|sample| first_elements(view, sample));
    (stats(view, threads), kind.map(|kind| digest(view, kind)), elements)
}

/// The class of an ordinary tensor.
const PLAIN_CLASS: &str = "torch.Tensor";

/// How a tensor is described; docs/dumps.md lists the keys.
pub(in crate::capture) struct Describe<'a> {
    pub(in crate::capture) recorder: &'a Recorder,
    /// The step that records it.
    pub(in crate::capture) step: StepId,
    /// The name of its file without suffix, if it gets one.
    pub(in crate::capture) file: Option<&'a str>,
    pub(in crate::capture) source: Option<Arc<str>>,
    pub(in crate::capture) is_recompute: bool,
    /// Whether its call has changed it.
    pub(in crate::capture) is_changed: bool,
}

impl Describe<'_> {
    /// Appends the object. For a tensor that cannot be read, only its numbers are missing.
    pub(in crate::capture) fn push(
        &self,
        tensor: &Bound<'_, PyAny>,
        requires_grad: bool,
        out: &mut Vec<u8>,
    ) -> PyResult<()> {
        let start = out.len();
        let error = match self.try_push(tensor, requires_grad, out) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let py = tensor.py();
        let is_over = self.recorder.locked(|state| state.ended.is_some());
        if is_over || self.recorder.recording.plan.strict || !error.is_instance_of::<PyException>(py) {
            return Err(error);
        }
        // Torch's text is meant for code that has the tensor, not for readers of the ledger.
        let why = match error.is_instance_of::<PyRuntimeError>(py) {
            true => format!("torch could not give its elements ({})", kind_of(error.value(py))),
            false => error.value(py).to_string(),
        };
        self.recorder.locked(|state| state.ledger.unread(why));
        out.truncate(start);
        self.push_bare(tensor, requires_grad, false, out)
    }

    /// Appends the object of uninitialised memory.
    pub(in crate::capture) fn push_blank(
        &self,
        tensor: &Bound<'_, PyAny>,
        requires_grad: bool,
        out: &mut Vec<u8>,
    ) -> PyResult<()> {
        self.push_bare(tensor, requires_grad, true, out)
    }

    /// Appends the object without numbers.
    fn push_bare(
        &self,
        tensor: &Bound<'_, PyAny>,
        requires_grad: bool,
        is_blank: bool,
        out: &mut Vec<u8>,
    ) -> PyResult<()> {
        let py = tensor.py();
        let dtype = tensor.getattr(intern!(py, "dtype"))?.str()?.to_string();
        let shape = tensor.getattr(intern!(py, "shape"))?.extract::<Vec<usize>>().unwrap_or_default();
        TensorHead { class: PLAIN_CLASS, dtype: &dtype, shape: &shape }.open(out);
        TensorRest { requires_grad, is_blank, ..self.rest() }.close(out);
        Ok(())
    }

    fn try_push(&self, tensor: &Bound<'_, PyAny>, requires_grad: bool, out: &mut Vec<u8>) -> PyResult<()> {
        let py = tensor.py();
        let torch = &self.recorder.torch;
        let is_plain = torch.is_plain_tensor(tensor);
        if is_plain
            && self.recorder.measures_all_by_torch()
            && self.push_remote(tensor, None, requires_grad, out)?
        {
            return Ok(());
        }
        let mut on_gpu = None;
        if is_plain && torch.may_have_address(tensor)? {
            match place_of(tensor)? {
                Some(TensorPlace::Memory(input)) => {
                    let placed = self.placed(tensor, "")?;
                    return self.push_readable(py, (PLAIN_CLASS, None, &placed), input, requires_grad, out);
                }
                Some(TensorPlace::Gpu(found)) => on_gpu = Some(found),
                Some(TensorPlace::Elsewhere) => {}
                None => torch.meet_memoryless(),
            }
        }
        if is_plain && self.push_remote(tensor, on_gpu, requires_grad, out)?
            || !is_plain && self.push_shard(tensor, requires_grad, out)?
        {
            return Ok(());
        }
        if is_plain && self.step.graph().is_some() {
            // Questions about its elements may end the capture.
            self.recorder.locked(|state| state.ledger.unread(IN_GRAPH.to_owned()));
            return self.push_bare(tensor, requires_grad, false, out);
        }
        // A different device or layout, or a tensor class: the front knows where the elements are.
        let found = torch.front.bind(py).call_method1(intern!(py, "tensor"), (tensor,))?;
        let (class, extra, dtype, shape, readable, why): Unusual<'_> = found.extract()?;
        let extra = self.placed(tensor, &extra)?;
        if let Some(input) = readable.map(|readable| Input::of(&readable)).transpose()? {
            return self.push_readable(py, (&class, Some(&dtype), &extra), input, requires_grad, out);
        }
        if let Some(why) = why {
            self.recorder.locked(|state| state.ledger.unread(why));
        }
        TensorHead { class: &class, dtype: &dtype, shape: &shape }.open(out);
        TensorRest { requires_grad, extra: &extra, ..self.rest() }.close(out);
        Ok(())
    }

    /// Appends the object of a distributed tensor whose part is measured where it is; returns whether it is.
    fn push_shard(
        &self,
        tensor: &Bound<'_, PyAny>,
        requires_grad: bool,
        out: &mut Vec<u8>,
    ) -> PyResult<bool> {
        let py = tensor.py();
        let torch = &self.recorder.torch;
        let found = torch.front.bind(py).call_method1(intern!(py, "shard"), (tensor,))?;
        let Some((class, extra, local)) = found.extract::<Option<(String, String, Bound<'_, PyAny>)>>()?
        else {
            return Ok(false);
        };
        let on_gpu = match torch.may_have_address(&local)?.then(|| place_of(&local)).transpose()?.flatten() {
            Some(TensorPlace::Memory(_)) => return Ok(false),
            Some(TensorPlace::Gpu(found)) => Some(found),
            _ => None,
        };
        let extra = self.placed(tensor, &extra)?;
        self.push_remote_as((&class, &extra), &local, on_gpu, requires_grad, out)
    }

    /// Appends the object of a tensor that is measured where it is, with room for its numbers; returns whether it is.
    fn push_remote(
        &self,
        tensor: &Bound<'_, PyAny>,
        on_gpu: Option<OnGpu>,
        requires_grad: bool,
        out: &mut Vec<u8>,
    ) -> PyResult<bool> {
        let extra = self.placed(tensor, "")?;
        self.push_remote_as((PLAIN_CLASS, &extra), tensor, on_gpu, requires_grad, out)
    }

    /// The same of a tensor that is recorded as one of a class, with further keys.
    fn push_remote_as(
        &self,
        (class, extra): (&str, &str),
        tensor: &Bound<'_, PyAny>,
        on_gpu: Option<OnGpu>,
        requires_grad: bool,
        out: &mut Vec<u8>,
    ) -> PyResult<bool> {
        let remote = match self.file {
            Some(stem) => self.recorder.queue_copy(tensor, self.step, stem)?,
            None => self.recorder.queue(tensor, on_gpu, self.step)?,
        };
        let Some(remote) = remote else { return Ok(false) };
        let Remote { dtype, shape, ticket, has_digest } = remote;
        if !has_digest && self.recorder.recording.plan.digest.is_some() {
            self.recorder.locked(|state| state.note(NO_DIGEST.to_owned()));
        }
        TensorHead { class, dtype: &dtype, shape: &shape }.open(out);
        let rest = TensorRest {
            ticket: Some(ticket),
            has_late_digest: has_digest,
            has_late_file: self.file.is_some(),
            ..self.rest()
        };
        TensorRest { requires_grad, extra, ..rest }.close(out);
        Ok(true)
    }

    /// Further keys of a tensor, with its strides and its offset in memory if these are wanted. A tensor without memory
    /// has neither.
    fn placed<'e>(&self, tensor: &Bound<'_, PyAny>, extra: &'e str) -> PyResult<Cow<'e, str>> {
        if !self.recorder.recording.plan.strides {
            return Ok(Cow::Borrowed(extra));
        }
        let py = tensor.py();
        let strides =
            tensor.call_method0(intern!(py, "stride")).and_then(|strides| strides.extract::<Vec<i64>>());
        let offset =
            tensor.call_method0(intern!(py, "storage_offset")).and_then(|offset| offset.extract::<u64>());
        let (Ok(strides), Ok(offset)) = (strides, offset) else { return Ok(Cow::Borrowed(extra)) };
        Ok(Cow::Owned(format!("{extra},\"stride\":{strides:?},\"offset\":{offset}")))
    }

    /// Appends the object of a tensor with a class and further keys. `dtype` is given if it differs from that of the
    /// elements that are read: those of a quantized tensor are its dequantized values.
    fn push_readable(
        &self,
        py: Python<'_>,
        (class, dtype_name, extra): (&str, Option<&str>, &str),
        input: Input<'_>,
        requires_grad: bool,
        out: &mut Vec<u8>,
    ) -> PyResult<()> {
        let plan = &self.recorder.recording.plan;
        let kind = plan.digest;
        let sample = plan.sample;
        let measure = |view: &View<'_>| measured(plan, view);
        let (dtype, is_scalar, found) = input.looked_at(|view| {
            let found = (view.packed_size() < LONG).then(|| measure(view));
            let dtype = dtype_name.unwrap_or(view.dtype().printed_name());
            TensorHead { class, dtype, shape: view.shape() }.open(out);
            (view.dtype(), view.shape().is_empty(), found)
        })?;
        let (numbers, digest, elements) = match found {
            Some(found) => found,
            None => input.detached(py, measure)?,
        };
        if kind.is_some() && digest.is_none() {
            self.recorder.locked(|state| state.note(NO_DIGEST.to_owned()));
        }
        if sample.is_some() && elements.is_none() {
            self.recorder.locked(|state| state.note(NO_SAMPLE.to_owned()));
        }
        let file = match self.file {
            // Torch has no such files, and would only report an unknown dtype.
            Some(_) if !dtype.is_in_torch() => None,
            Some(stem) => self.recorder.save_tensor(py, self.step, stem, input)?,
            None => None,
        };
        let saved = file.map(|saved| saved.recorded_as(dtype_name, dtype));
        let digest = digest.map(|digest| digest.to_string());
        let rest = TensorRest {
            stats: Some(&numbers),
            is_scalar,
            requires_grad,
            digest: digest.as_deref(),
            saved: saved.as_ref(),
            elements: elements.as_deref().zip(sample).map(|(elements, sample)| match sample {
                Sample::First(_) => Elements::Sample(elements),
                Sample::All => Elements::All(elements),
            }),
            extra,
            ..self.rest()
        };
        rest.close(out);
        Ok(())
    }

    /// What is known of the tensor before it is read.
    fn rest(&self) -> TensorRest<'_> {
        TensorRest {
            is_recompute: self.is_recompute,
            is_changed: self.is_changed,
            source: self.source.as_deref(),
            ..TensorRest::default()
        }
    }
}

/// The front's answer for an unusual tensor: its class, further keys as JSON, dtype, shape, and a tensor with readable
/// elements, or else the reason why there is none.
type Unusual<'py> = (String, String, String, Vec<usize>, Option<Bound<'py, PyAny>>, Option<String>);
