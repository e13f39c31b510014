//! One GPU: the kernels on it, memory for their results, and measurements that are on their way.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ulpscope_kernels::{Digest, Stats};
use ulpscope_tensor::DType;

use crate::cache::Cache;
use crate::compiler::Compiler;
use crate::driver::{Device, Driver, Function, Mapped, Module, Stream};
use crate::error::Error;
use crate::launch::{
    FEW_TENSORS, Launch, MAX_RANK, MAX_TENSORS, TAKE, Tensor, function_name, has_function, name_for_few,
};
use crate::memory::{GraphMemory, Scratch, Scratches, Slot, Slots};
use crate::self_check;

/// From this number of elements on, repeated elements (`expand`) are read once, as on the host.
const MANY: u64 = 1 << 24;

/// Expanded tensors of more bytes than this have no digest, as on the host.
const ENDLESS: u64 = 1 << 30;

/// A tensor in the memory of a GPU.
#[derive(Clone, Debug)]
pub struct GpuTensor {
    /// Its dtype.
    pub dtype: DType,
    /// The address of its first element.
    pub address: u64,
    /// Its dimensions, outermost first.
    pub shape: Vec<usize>,
    /// In bytes.
    pub strides: Vec<isize>,
}

impl GpuTensor {
    /// How many elements it has.
    pub fn len(&self) -> u64 {
        self.shape.iter().map(|&dim| dim as u64).product()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Whether it repeats its elements to so many bytes that it has no digest.
    pub fn is_endless(&self) -> bool {
        self.repeats() > 1 && self.len().saturating_mul(self.dtype.size() as u64) > ENDLESS
    }

    /// Whether the kernel can measure it.
    pub fn is_measurable(&self) -> bool {
        let has_few_dims = || self.shape.len() <= MAX_RANK || self.prepared(false).is_ok();
        !self.is_empty() && has_function(self.dtype) && has_few_dims()
    }

    /// How often all elements occur.
    fn repeats(&self) -> u64 {
        let repeated = self.shape.iter().zip(&self.strides).filter(|(_, stride)| **stride == 0);
        repeated.map(|(&dim, _)| dim as u64).product()
    }

    /// The tensor for a launch, how many elements that reads, and how often they occur.
    fn prepared(&self, has_digest: bool) -> Result<(Tensor, u64, u64), Error> {
        let (count, repeats) = (self.len(), self.repeats());
        let reads_once = count > MANY && repeats > 1 && (!has_digest || self.is_endless());
        if !reads_once {
            let tensor = Tensor::new(self.dtype, self.address, &self.shape, &self.strides)?;
            return Ok((tensor, count, 1));
        }
        let once = |(&dim, &stride): (&usize, &isize)| if stride == 0 { 1 } else { dim };
        let shape: Vec<usize> = self.shape.iter().zip(&self.strides).map(once).collect();
        Ok((Tensor::new(self.dtype, self.address, &shape, &self.strides)?, count / repeats, repeats))
    }
}

/// A GPU whose kernels have passed their self-check.
#[derive(Debug)]
pub struct Gpu {
    pub(crate) driver: Arc<Driver>,
    pub(crate) device: Device,
    module: Option<Module>,
    /// A stream of our own, to ask about the device. The default stream may not be asked while a graph is captured.
    own_stream: Option<Stream>,
    /// By number of the dtype.
    functions: Vec<Option<Function>>,
    /// Those for few tensors.
    for_few: Vec<Option<Function>>,
    /// The kernel that copies results of captured graphs.
    pub(crate) take: Option<Function>,
    pub(crate) slots: Mutex<Slots>,
    scratches: Mutex<Scratches>,
    pub(crate) graphs: Mutex<GraphMemory>,
    /// What the self-check measured. To free it would wait for all work of the device.
    checked: Mutex<Vec<Mapped>>,
    process: u32,
}

impl Gpu {
    /// Prepares the GPU that torch gives this number: kernels from the cache or compiled by NVRTC, which is looked for
    /// around `torch`, the folder of that package. Runs them once, and compares their numbers with the host's.
    pub fn open(driver: &Arc<Driver>, number: i32, torch: &Path, cache: &Cache) -> Result<Arc<Gpu>, Error> {
        let device = driver.device(number)?;
        // Dropping it gives back what it has, wherever the rest fails.
        let mut gpu = Gpu {
            driver: Arc::clone(driver),
            device,
            module: None,
            own_stream: None,
            functions: Vec::new(),
            for_few: Vec::new(),
            take: None,
            slots: Mutex::default(),
            scratches: Mutex::default(),
            graphs: Mutex::default(),
            checked: Mutex::default(),
            process: std::process::id(),
        };
        let architecture = driver.architecture(device)?;
        let compiler = Compiler::open(torch)?;
        let target = compiler.target(&architecture)?;
        let code = cache.get(&target, &compiler.version()?, || compiler.compile(&target))?;
        driver.beside_graphs(device, || {
            gpu.own_stream = Some(driver.new_stream()?);
            let module = gpu.module.insert(driver.load(&code)?);
            let functions = |name_of: fn(DType) -> Option<String>| {
                let names = DType::ALL.into_iter().map(name_of);
                let found = names.map(|name| name.map(|name| driver.function(module, &name)).transpose());
                found.collect::<Result<Vec<_>, _>>()
            };
            gpu.functions = functions(|dtype| function_name(dtype).ok())?;
            gpu.for_few = functions(name_for_few)?;
            gpu.take = Some(driver.function(module, TAKE)?);
            Ok(())
        })?;
        let gpu = Arc::new(gpu);
        self_check::run(&gpu)?;
        Ok(gpu)
    }

    /// Whether work on a stream goes into a graph instead of being run. If that cannot be told, it counts as such.
    pub fn is_capturing(&self, stream: Stream) -> bool {
        self.driver.within(self.device, || self.driver.is_capturing(stream)).unwrap_or(true)
    }

    /// The number of the graph that work on a stream goes into, if it goes into one.
    pub fn capture_id(&self, stream: Stream) -> Option<u64> {
        self.driver.within(self.device, || Ok(self.driver.capture_id(stream))).ok().flatten()
    }

    /// Measures tensors of one dtype, after everything that is queued on the stream. Waits for nothing but room in the
    /// queue of launches. If some cannot be measured, these are the last ones: the error says why.
    pub fn measure(
        self: &Arc<Gpu>,
        stream: Stream,
        tensors: &[GpuTensor],
        has_digest: bool,
    ) -> (Measurement, Option<Error>) {
        let mut measurement =
            Measurement { gpu: Arc::clone(self), tensors: Vec::with_capacity(tensors.len()) };
        let mut parts = tensors.chunks(MAX_TENSORS);
        let error = parts.find_map(|part| {
            let dtype = part.first()?.dtype;
            self.launch(stream, (dtype, part), has_digest, &mut measurement).err()
        });
        (measurement, error)
    }

    fn launch(
        &self,
        stream: Stream,
        (dtype, tensors): (DType, &[GpuTensor]),
        has_digest: bool,
        measurement: &mut Measurement,
    ) -> Result<(), Error> {
        let prepared = self.prepare(dtype, tensors, has_digest)?;
        let driver = &self.driver;
        driver.within(self.device, || {
            let id = driver.id(stream);
            // The lock is held until the launch: no other thread of the program may come between clearing and use.
            let mut scratches = lock(&self.scratches);
            let scratch = match scratches.get(id) {
                Some(scratch) => scratch,
                None => driver.beside_graphs(self.device, || scratches.add(id, stream, driver))?,
            };
            let slots = self.take_slots(tensors.len())?;
            if let Err(error) =
                self.launch_prepared(stream, &prepared, scratch, slots.iter().map(Slot::device))
            {
                lock(&self.slots).give_back(slots.into_iter());
                return Err(error);
            }
            let launched = slots.into_iter().zip(prepared.measured);
            measurement.tensors.extend(launched.map(|(slot, measured)| InFlight { slot, measured }));
            Ok(())
        })
    }

    /// What a launch for up to [`MAX_TENSORS`] tensors of one dtype needs.
    pub(crate) fn prepare(
        &self,
        dtype: DType,
        tensors: &[GpuTensor],
        has_digest: bool,
    ) -> Result<Prepared, Error> {
        let of_dtype = |functions: &[Option<Function>]| functions.get(dtype as usize).copied().flatten();
        let for_few = of_dtype(&self.for_few).filter(|_| tensors.len() <= FEW_TENSORS);
        let function = for_few.or_else(|| of_dtype(&self.functions)).ok_or(Error::Dtype(dtype))?;
        let mut launched = Vec::with_capacity(tensors.len());
        let mut measured = Vec::with_capacity(tensors.len());
        for tensor in tensors {
            let (prepared, count, repeats) = tensor.prepared(has_digest)?;
            launched.push(prepared);
            let has_digest = has_digest && !tensor.is_endless();
            measured.push(Measured { dtype, count, repeats, has_digest });
        }
        Ok(Prepared { function, is_for_few: for_few.is_some(), launched, measured, has_digest })
    }

    /// Launches the kernel, with the addresses of the results.
    pub(crate) fn launch_prepared(
        &self,
        stream: Stream,
        prepared: &Prepared,
        scratch: Scratch,
        results: impl Iterator<Item = u64>,
    ) -> Result<(), Error> {
        let with_memory = |(number, (tensor, result)): (usize, (&Tensor, u64))| {
            tensor.with_memory(scratch.partials(number), scratch.finished(number), result)
        };
        let launched = prepared.launched.iter().zip(results).enumerate().map(with_memory);
        let has_digest = prepared.has_digest;
        if prepared.is_for_few {
            let launch = Launch::<FEW_TENSORS>::new(launched, has_digest);
            return self.driver.launch(prepared.function, stream, launch.blocks(), &launch);
        }
        let launch = Launch::<MAX_TENSORS>::new(launched, has_digest);
        self.driver.launch(prepared.function, stream, launch.blocks(), &launch)
    }

    pub(crate) fn take_slots(&self, count: usize) -> Result<Vec<Slot>, Error> {
        let mut slots = lock(&self.slots);
        if let Some(taken) = slots.take_free(count) {
            return Ok(taken);
        }
        self.driver.beside_graphs(self.device, || slots.take(count, &self.driver))
    }

    /// An error if the GPU has failed, and no numbers will come.
    pub fn check(&self) -> Result<(), Error> {
        let Some(stream) = self.own_stream else { return Ok(()) };
        self.driver.beside_graphs(self.device, || self.driver.check(stream))
    }

    /// Runs `body` with our own stream and some memory that the host and the device share.
    pub(crate) fn with_own_stream<T>(
        &self,
        bytes: usize,
        body: impl FnOnce(Stream, usize, u64) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let driver = &self.driver;
        let Some(stream) = self.own_stream else { return Ok(None) };
        let memory = driver.beside_graphs(self.device, || driver.allocate_mapped(bytes))?;
        lock(&self.checked).push(memory);
        body(stream, memory.host, memory.device).map(Some)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // A forked child has no GPU. A kernel may still write to slots that nobody waits for: then nothing is freed.
        if self.process != std::process::id() || lock(&self.slots).are_awaited() {
            return;
        }
        let driver = &self.driver;
        // At the end of the process the driver may be gone already, and everything with it.
        let _ = driver.beside_graphs(self.device, || {
            let scratches = lock(&self.scratches).free_all(driver);
            let slots = lock(&self.slots).free_all(driver);
            let graphs = lock(&self.graphs).free_all(driver);
            let mut checked = lock(&self.checked);
            let checked = checked.drain(..).try_for_each(|memory| driver.free_mapped(memory));
            let stream = self.own_stream.map_or(Ok(()), |stream| driver.destroy_stream(stream));
            let module = self.module.as_ref().map_or(Ok(()), |module| driver.unload(module));
            scratches.and(slots).and(graphs).and(checked).and(stream).and(module)
        });
        let _ = driver.release(self.device);
    }
}

/// Tensors that are being measured.
#[derive(Debug)]
pub struct Measurement {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) tensors: Vec<InFlight>,
}

#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) slot: Slot,
    pub(crate) measured: Measured,
}

/// What is known of a tensor whose numbers come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    dtype: DType,
    count: u64,
    repeats: u64,
    has_digest: bool,
}

/// A launch without the memory that it writes to.
pub(crate) struct Prepared {
    function: Function,
    is_for_few: bool,
    launched: Vec<Tensor>,
    pub(crate) measured: Vec<Measured>,
    has_digest: bool,
}

impl Measurement {
    /// How many tensors are measured.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// Whether all numbers are there. Asks no one, and does not wait.
    pub fn has_arrived(&self) -> bool {
        self.tensors.iter().rev().all(|tensor| tensor.slot.has_arrived())
    }

    /// The numbers of each tensor that has them, with the digest if the launch had one.
    pub fn numbers(&self) -> impl Iterator<Item = Option<(Stats, Option<Digest>)>> {
        self.tensors.iter().map(|tensor| {
            let outcome = tensor.slot.read()?;
            let Measured { dtype, count, repeats, has_digest } = tensor.measured;
            Some((outcome.stats(dtype, count, repeats), has_digest.then(|| outcome.digest())))
        })
    }

    /// An error if the GPU has failed, and the numbers will not come.
    pub fn check(&self) -> Result<(), Error> {
        self.gpu.check()
    }
}

impl Drop for Measurement {
    fn drop(&mut self) {
        lock(&self.gpu.slots).abandon(self.tensors.drain(..).map(|tensor| tensor.slot));
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
