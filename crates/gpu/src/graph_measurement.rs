//! Tensors that a captured graph measures: launches of the kernel that become nodes of the graph.
//!
//! ```text
//! capture: add ──► a launch on the captured stream: a node, whose results stay in memory of the device
//! replay:  the node runs ──► take: a launch behind it on the stream of the replay ──► slots, as for any measurement
//! ```
//! The addresses in a node are fixed, so memory that a graph uses is never used for anything else. Results are taken by a
//! launch of their own, to slots that are new for each replay: a replay does not overwrite numbers that nobody has read.

use std::collections::HashMap;
use std::sync::Arc;

use crate::driver::Stream;
use crate::error::Error;
use crate::gpu::{Gpu, GpuTensor, InFlight, Measured, Measurement, lock};
use crate::launch::{MAX_TAKEN, MAX_TENSORS, Outcome, Taking};
use crate::memory::{Scratch, Slot};

/// The tensors of one graph, in the order in which they were added.
#[derive(Debug)]
pub struct GraphMeasurement {
    gpu: Arc<Gpu>,
    /// By number of the captured stream: a graph may run its branches at the same time.
    scratches: HashMap<u64, Scratch>,
    /// Memory for [`MAX_TAKEN`] results each.
    results: Vec<u64>,
    tensors: Vec<Measured>,
}

impl GraphMeasurement {
    /// A graph without tensors.
    pub fn new(gpu: &Arc<Gpu>) -> GraphMeasurement {
        let (scratches, results, tensors) = (HashMap::new(), Vec::new(), Vec::new());
        GraphMeasurement { gpu: Arc::clone(gpu), scratches, results, tensors }
    }

    /// The GPU that it runs on.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// How many tensors the graph measures.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether it measures none.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// Measures tensors of one dtype at this place of the graph that is being captured on a stream. Returns how many
    /// were added; if some could not be, these are the last ones, and the error says why.
    pub fn add(&mut self, stream: Stream, tensors: &[GpuTensor], has_digest: bool) -> (usize, Option<Error>) {
        let before = self.len();
        let mut parts = tensors.chunks(MAX_TENSORS);
        let error = parts.find_map(|part| self.add_part(stream, part, has_digest).err());
        (self.len() - before, error)
    }

    fn add_part(&mut self, stream: Stream, tensors: &[GpuTensor], has_digest: bool) -> Result<(), Error> {
        let Some(first) = tensors.first() else { return Ok(()) };
        let gpu = Arc::clone(&self.gpu);
        let prepared = gpu.prepare(first.dtype, tensors, has_digest)?;
        // Allocations are no part of the graph, and must not end its capture.
        gpu.driver.beside_graphs(gpu.device, || {
            let scratch = self.scratch(stream)?;
            let first = self.len();
            let results = (first..first + tensors.len()).map(|number| self.result(number));
            let results = results.collect::<Result<Vec<u64>, Error>>()?;
            gpu.launch_prepared(stream, &prepared, scratch, results.into_iter())
        })?;
        self.tensors.extend(prepared.measured);
        Ok(())
    }

    /// The scratch memory of a stream. The graph itself clears it: nothing else is in the order of its nodes.
    fn scratch(&mut self, stream: Stream) -> Result<Scratch, Error> {
        let driver = &self.gpu.driver;
        let id = driver.id(stream);
        if let Some(scratch) = self.scratches.get(&id) {
            return Ok(*scratch);
        }
        let scratch = lock(&self.gpu.graphs).scratch(driver)?;
        scratch.clear(stream, driver)?;
        self.scratches.insert(id, scratch);
        Ok(scratch)
    }

    /// The address of the nth result.
    fn result(&mut self, number: usize) -> Result<u64, Error> {
        if self.results.len() == number / MAX_TAKEN {
            self.results.push(lock(&self.gpu.graphs).results(&self.gpu.driver)?);
        }
        Ok(self.results[number / MAX_TAKEN] + (number % MAX_TAKEN * size_of::<Outcome>()) as u64)
    }

    /// Takes the numbers of a replay, after everything that is queued on its stream. Waits for nothing but room in the
    /// queue of launches. If the numbers of some tensors cannot be taken, these are the last ones: the error says why.
    pub fn take(&self, stream: Stream) -> (Measurement, Option<Error>) {
        let mut measurement =
            Measurement { gpu: Arc::clone(&self.gpu), tensors: Vec::with_capacity(self.len()) };
        let mut parts = self.results.iter().zip(self.tensors.chunks(MAX_TAKEN));
        let error = parts.find_map(|(&results, tensors)| {
            self.take_part(stream, (results, tensors), &mut measurement).err()
        });
        (measurement, error)
    }

    fn take_part(
        &self,
        stream: Stream,
        (results, tensors): (u64, &[Measured]),
        measurement: &mut Measurement,
    ) -> Result<(), Error> {
        let gpu = &self.gpu;
        let Some(function) = gpu.take else { return Ok(()) };
        gpu.driver.within(gpu.device, || {
            let slots = gpu.take_slots(tensors.len())?;
            let taking = Taking::new(results, slots.iter().map(Slot::device));
            if let Err(error) = gpu.driver.launch(function, stream, 1, &taking) {
                lock(&gpu.slots).give_back(slots.into_iter());
                return Err(error);
            }
            let taken = slots.into_iter().zip(tensors);
            measurement.tensors.extend(taken.map(|(slot, &measured)| InFlight { slot, measured }));
            Ok(())
        })
    }
}
