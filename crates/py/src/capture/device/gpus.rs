//! NVIDIA GPUs: whether our own kernel can be used on each, and its launches.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use ulpscope_gpu::{Cache, Driver, Error, Gpu, GpuTensor};

use crate::capture::device::arrivals::{Expected, lock};
use crate::capture::device::gpu_arrivals::GpuBatch;
use crate::capture::device::queue::Queued;
use crate::capture::recorder::Recorder;
use crate::input::{OnGpu, on_gpu};

/// The GPUs that have been met, by torch's numbers.
#[derive(Default)]
pub(in crate::capture) struct Gpus {
    known: Mutex<HashMap<i32, State>>,
}

#[derive(Clone)]
enum State {
    Ready(Arc<Gpu>),
    /// Why torch's operations are used instead.
    Refused(Arc<str>),
}

/// A tensor that our own kernel measures.
pub(super) struct Place {
    found: OnGpu,
    gpu: Arc<Gpu>,
}

impl Place {
    pub(super) fn tensor(&self) -> &GpuTensor {
        &self.found.tensor
    }
}

impl Recorder {
    /// Where a tensor is, if our own kernel can measure it there.
    pub(super) fn place_on_gpu(&self, tensor: &Bound<'_, PyAny>) -> PyResult<Option<Place>> {
        if !self.recording.plan.measures_by_kernel() || !self.torch.is_on_gpu(tensor)? {
            return Ok(None);
        }
        let Some(found) = on_gpu(tensor)?.filter(|found| found.tensor.is_measurable()) else {
            return Ok(None);
        };
        let gpu = match self.gpu(tensor.py(), found.device)? {
            None => return Ok(None),
            Some(State::Ready(gpu)) => gpu,
            Some(State::Refused(why)) => {
                self.locked(|state| state.note_once(&refusal(found.device, &why)));
                return Ok(None);
            }
        };
        // The front counts tensors inside a graph that is being captured.
        Ok((!gpu.is_capturing(found.stream)).then_some(Place { found, gpu }))
    }

    /// What is known of a GPU. The first time, it is prepared, which may take seconds; but not while a graph is captured.
    fn gpu(&self, py: Python<'_>, number: i32) -> PyResult<Option<State>> {
        if let Some(state) = lock(&self.gpus.known).get(&number) {
            return Ok(Some(state.clone()));
        }
        let torch = py.import("torch")?;
        if torch.getattr("cuda")?.call_method0("is_current_stream_capturing")?.is_truthy()? {
            return Ok(None);
        }
        let torch: PathBuf = torch.getattr("__file__")?.extract()?;
        let torch = torch.parent().map(PathBuf::from).unwrap_or_default();
        let opened = py.detach(|| {
            let driver = Arc::new(Driver::open()?);
            Gpu::open(&driver, number, &torch, &Cache::of_user())
        });
        let state = match opened {
            Ok(gpu) => State::Ready(gpu),
            Err(error) => State::Refused(error.to_string().into()),
        };
        // Another thread may have been faster.
        Ok(Some(lock(&self.gpus.known).entry(number).or_insert(state).clone()))
    }

    /// Launches the kernel for tensors of one call; returns those that it could not be launched for.
    pub(super) fn launch(&self, py: Python<'_>, mut queue: Vec<(Queued, Place)>) -> PyResult<Vec<Queued>> {
        let mut refused = Vec::new();
        while let Some((first, place)) = queue.first() {
            let (step, gpu) = (Arc::clone(&first.step), Arc::clone(&place.gpu));
            let (stream, dtype, has_digest) =
                (place.found.stream, place.found.tensor.dtype, first.expected.has_digest);
            let is_same = |(queued, place): &mut (Queued, Place)| {
                Arc::ptr_eq(&queued.step, &step)
                    && Arc::ptr_eq(&place.gpu, &gpu)
                    && place.found.stream == stream
                    && place.found.tensor.dtype == dtype
                    && queued.expected.has_digest == has_digest
            };
            let batch: Vec<(Queued, Place)> = queue.extract_if(.., is_same).collect();
            let tensors: Vec<&GpuTensor> = batch.iter().map(|(_, place)| &place.found.tensor).collect();
            let mut launched = gpu.measure(stream, &tensors, has_digest);
            if let Err(Error::Full(_)) = launched {
                self.arrivals.gpu.wait_for_all(py)?;
                launched = gpu.measure(stream, &tensors, has_digest);
            }
            let number = batch.first().map_or(0, |(_, place)| place.found.device);
            let queued = batch.into_iter().map(|(queued, _)| queued);
            match launched {
                Ok(measurement) => {
                    // Its tensors may be freed: memory is used again in the order of the stream.
                    let tensors: Vec<Expected> = queued.map(|queued| queued.expected).collect();
                    let batch = GpuBatch { step, tensors, measurement };
                    self.arrivals.add_of_gpu(batch, &self.recording.plan);
                }
                Err(error) => {
                    let why: Arc<str> = error.to_string().into();
                    self.locked(|state| state.note_once(&refusal(number, &why)));
                    if !matches!(error, Error::Full(_) | Error::Streams(_)) {
                        lock(&self.gpus.known).insert(number, State::Refused(why));
                    }
                    refused.extend(queued);
                }
            }
        }
        Ok(refused)
    }
}

/// The ledger's note where our own kernel cannot be used.
fn refusal(number: i32, why: &str) -> String {
    format!("tensors on cuda:{number} were measured by operations of torch, which takes longer: {why}")
}
