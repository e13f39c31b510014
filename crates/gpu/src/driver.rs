//! The CUDA driver, opened at run time: the functions that are needed, each looked up once.

use std::ffi::{CString, OsStr, c_char, c_int, c_uint, c_void};
use std::ptr;

use libloading::Library;

use crate::error::Error;

const NAME: &str = "the CUDA driver";
const FILE: &str = "libcuda.so.1";

/// Threads of a block, as in `statistics.cu`.
const THREADS: c_uint = 256;

/// The driver's attributes of a device: the two numbers of its architecture.
const MAJOR: c_int = 75;
const MINOR: c_int = 76;

/// Memory of the host that every context of the process can use, and that the device can read and write directly.
const PORTABLE_AND_MAPPED: c_uint = 3;

/// A stream that does not wait for the default stream.
const NON_BLOCKING: c_uint = 1;

/// Calls of this thread are allowed while a graph is captured.
const RELAXED: c_int = 2;

/// The code of work that is not done yet.
const NOT_READY: c_int = 600;

type Pointer = *mut c_void;

macro_rules! functions {
    ($($name:ident($($kind:ty),*);)+) => {
        #[derive(Debug)]
        #[allow(non_snake_case)]
        struct Functions {
            $($name: unsafe extern "C" fn($($kind),*) -> c_int,)+
        }

        impl Functions {
            fn of(library: &Library) -> Result<Functions, Error> {
                let missing = |error| Error::of_loader(NAME, &error);
                // SAFETY: the functions have these types in cuda.h. The library is never closed before them: `Driver`
                // holds both.
                #[expect(unsafe_code)]
                let functions = unsafe {
                    Functions {
                        $($name: *library.get(concat!(stringify!($name), "\0").as_bytes()).map_err(missing)?,)+
                    }
                };
                Ok(functions)
            }
        }
    };
}

functions! {
    cuInit(c_uint);
    cuDeviceGet(*mut c_int, c_int);
    cuDeviceGetAttribute(*mut c_int, c_int, c_int);
    cuDevicePrimaryCtxRetain(*mut Pointer, c_int);
    cuDevicePrimaryCtxRelease_v2(c_int);
    cuCtxGetCurrent(*mut Pointer);
    cuCtxPushCurrent_v2(Pointer);
    cuCtxPopCurrent_v2(*mut Pointer);
    cuModuleLoadData(*mut Pointer, *const c_void);
    cuModuleUnload(Pointer);
    cuModuleGetFunction(*mut Pointer, Pointer, *const c_char);
    cuMemAlloc_v2(*mut u64, usize);
    cuMemFree_v2(u64);
    cuMemsetD8Async(u64, u8, usize, Pointer);
    cuMemHostAlloc(*mut Pointer, usize, c_uint);
    cuMemFreeHost(Pointer);
    cuMemHostGetDevicePointer_v2(*mut u64, Pointer, c_uint);
    cuStreamCreate(*mut Pointer, c_uint);
    cuStreamDestroy_v2(Pointer);
    cuStreamQuery(Pointer);
    cuStreamIsCapturing(Pointer, *mut c_int);
    cuThreadExchangeStreamCaptureMode(*mut c_int);
    cuLaunchKernel(
        Pointer, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Pointer, *mut Pointer, *mut Pointer
    );
}

/// Calls a function of the driver.
macro_rules! call {
    ($driver:expr, $name:ident($($argument:expr),*)) => {{
        // SAFETY: the function has this type in cuda.h, and what its arguments point to outlives the call. Handles are
        // those that the driver gave, or that torch says are its own.
        #[expect(unsafe_code)]
        let code = unsafe { ($driver.functions.$name)($($argument),*) };
        if code == 0 { Ok(()) } else { Err(Error::Driver { function: stringify!($name), code }) }
    }};
}

/// A stream, whether it is being captured, the number of the capture; graph, dependencies and their count, which nobody
/// asks for.
type CaptureInfo = unsafe extern "C" fn(
    Pointer,
    *mut c_int,
    *mut u64,
    *mut Pointer,
    *mut *const Pointer,
    *mut usize,
) -> c_int;

/// A stream of the program, as torch gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream(pub usize);

/// How strict a thread is while a graph is captured.
pub(crate) struct CaptureMode(c_int);

/// A kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function(usize);

/// A device with its context, which is the one that torch uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    device: c_int,
    context: usize,
}

/// Machine code on a device.
#[derive(Debug)]
pub(crate) struct Module(usize);

/// Memory of the host that the device can use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapped {
    /// Its address here.
    pub(crate) host: usize,
    /// Its address on the device.
    pub(crate) device: u64,
}

/// The driver.
#[derive(Debug)]
pub struct Driver {
    functions: Functions,
    /// `cuStreamGetId`, which only newer drivers have.
    stream_id: Option<unsafe extern "C" fn(Pointer, *mut u64) -> c_int>,
    /// `cuStreamGetCaptureInfo_v2`, likewise.
    capture_info: Option<CaptureInfo>,
    _library: Library,
}

impl Driver {
    /// Opens the driver. Without a GPU there is none.
    pub fn open() -> Result<Driver, Error> {
        Driver::open_file(FILE)
    }

    /// Opens the driver in a file.
    pub fn open_file(file: impl AsRef<OsStr>) -> Result<Driver, Error> {
        // SAFETY: the driver has no code that runs when it is loaded and relies on its caller.
        #[expect(unsafe_code)]
        let library = unsafe { Library::new(file.as_ref()) };
        let library = library.map_err(|error| Error::of_loader(NAME, &error))?;
        let functions = Functions::of(&library)?;
        // SAFETY: as for the other functions.
        #[expect(unsafe_code)]
        let get_id = unsafe { library.get(b"cuStreamGetId\0") }.map(|function| *function).ok();
        // SAFETY: as for the other functions.
        #[expect(unsafe_code)]
        let capture_info = unsafe { library.get(b"cuStreamGetCaptureInfo_v2\0") };
        let capture_info = capture_info.map(|function| *function).ok();
        let driver = Driver { functions, stream_id: get_id, capture_info, _library: library };
        call!(driver, cuInit(0))?;
        Ok(driver)
    }

    /// A device by torch's number.
    pub(crate) fn device(&self, number: i32) -> Result<Device, Error> {
        let mut device = 0;
        call!(self, cuDeviceGet(&mut device, number))?;
        let mut context = ptr::null_mut();
        call!(self, cuDevicePrimaryCtxRetain(&mut context, device))?;
        Ok(Device { device, context: context as usize })
    }

    /// Gives a device back.
    pub(crate) fn release(&self, device: Device) -> Result<(), Error> {
        call!(self, cuDevicePrimaryCtxRelease_v2(device.device))
    }

    /// The architecture of a device, such as `sm_90`.
    pub(crate) fn architecture(&self, device: Device) -> Result<String, Error> {
        let mut numbers = [0; 2];
        for (number, attribute) in numbers.iter_mut().zip([MAJOR, MINOR]) {
            call!(self, cuDeviceGetAttribute(number, attribute, device.device))?;
        }
        Ok(format!("sm_{}{}", numbers[0], numbers[1]))
    }

    /// Runs `body` with the context of a device as that of this thread.
    pub(crate) fn within<T>(
        &self,
        device: Device,
        body: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut current = ptr::null_mut();
        call!(self, cuCtxGetCurrent(&mut current))?;
        if current as usize == device.context {
            return body();
        }
        call!(self, cuCtxPushCurrent_v2(device.context as Pointer))?;
        let result = body();
        call!(self, cuCtxPopCurrent_v2(&mut current))?;
        result
    }

    /// The same for calls that are not allowed while a thread of the program captures a graph: allocations, queries.
    /// They have nothing to do with that graph, and would end its capture otherwise.
    pub(crate) fn beside_graphs<T>(
        &self,
        device: Device,
        body: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.within(device, || {
            let mode = self.relax()?;
            let result = body();
            self.restore(mode)?;
            result
        })
    }

    /// Puts this thread into the relaxed mode; returns the mode that it was in.
    pub(crate) fn relax(&self) -> Result<CaptureMode, Error> {
        let mut mode = RELAXED;
        call!(self, cuThreadExchangeStreamCaptureMode(&mut mode))?;
        Ok(CaptureMode(mode))
    }

    /// Puts it back.
    pub(crate) fn restore(&self, mode: CaptureMode) -> Result<(), Error> {
        let mut mode = mode.0;
        call!(self, cuThreadExchangeStreamCaptureMode(&mut mode))
    }

    /// Loads machine code, or the text from which the driver makes it.
    pub(crate) fn load(&self, code: &[u8]) -> Result<Module, Error> {
        let mut module = ptr::null_mut();
        call!(self, cuModuleLoadData(&mut module, code.as_ptr().cast()))?;
        Ok(Module(module as usize))
    }

    pub(crate) fn unload(&self, module: &Module) -> Result<(), Error> {
        call!(self, cuModuleUnload(module.0 as Pointer))
    }

    /// A kernel by its name.
    pub(crate) fn function(&self, module: &Module, name: &str) -> Result<Function, Error> {
        let name = CString::new(name).unwrap_or_default();
        let mut function = ptr::null_mut();
        call!(self, cuModuleGetFunction(&mut function, module.0 as Pointer, name.as_ptr()))?;
        Ok(Function(function as usize))
    }

    /// Starts a kernel with its one parameter, which is copied before this returns.
    pub(crate) fn launch<P>(
        &self,
        function: Function,
        stream: Stream,
        blocks: u32,
        parameter: &P,
    ) -> Result<(), Error> {
        let mut parameters = [ptr::from_ref(parameter).cast_mut().cast::<c_void>()];
        let parameters = parameters.as_mut_ptr();
        let (function, stream) = (function.0 as Pointer, stream.0 as Pointer);
        call!(
            self,
            cuLaunchKernel(function, blocks, 1, 1, THREADS, 1, 1, 0, stream, parameters, ptr::null_mut())
        )
    }

    /// Allocates memory of the device.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<u64, Error> {
        let mut address = 0;
        call!(self, cuMemAlloc_v2(&mut address, bytes))?;
        Ok(address)
    }

    pub(crate) fn free(&self, address: u64) -> Result<(), Error> {
        call!(self, cuMemFree_v2(address))
    }

    /// Fills memory of the device with zeros, in the order of a stream.
    pub(crate) fn clear(&self, address: u64, bytes: usize, stream: Stream) -> Result<(), Error> {
        call!(self, cuMemsetD8Async(address, 0, bytes, stream.0 as Pointer))
    }

    /// Allocates memory of the host that the device can use.
    pub(crate) fn allocate_mapped(&self, bytes: usize) -> Result<Mapped, Error> {
        let mut host = ptr::null_mut();
        call!(self, cuMemHostAlloc(&mut host, bytes, PORTABLE_AND_MAPPED))?;
        let mut device = 0;
        if let Err(error) = call!(self, cuMemHostGetDevicePointer_v2(&mut device, host, 0)) {
            call!(self, cuMemFreeHost(host))?;
            return Err(error);
        }
        Ok(Mapped { host: host as usize, device })
    }

    pub(crate) fn free_mapped(&self, memory: Mapped) -> Result<(), Error> {
        call!(self, cuMemFreeHost(memory.host as Pointer))
    }

    /// A stream of our own, which waits for no other.
    pub(crate) fn new_stream(&self) -> Result<Stream, Error> {
        let mut stream = ptr::null_mut();
        call!(self, cuStreamCreate(&mut stream, NON_BLOCKING))?;
        Ok(Stream(stream as usize))
    }

    pub(crate) fn destroy_stream(&self, stream: Stream) -> Result<(), Error> {
        call!(self, cuStreamDestroy_v2(stream.0 as Pointer))
    }

    /// An error if the device has failed: then every stream reports it. Does not wait.
    pub(crate) fn check(&self, stream: Stream) -> Result<(), Error> {
        match call!(self, cuStreamQuery(stream.0 as Pointer)) {
            Err(Error::Driver { code: NOT_READY, .. }) => Ok(()),
            result => result,
        }
    }

    /// Whether work on a stream goes into a graph instead of being run.
    pub(crate) fn is_capturing(&self, stream: Stream) -> Result<bool, Error> {
        let mut status = 0;
        call!(self, cuStreamIsCapturing(stream.0 as Pointer, &mut status))?;
        Ok(status != 0)
    }

    /// The number of the graph that work on a stream goes into, if it goes into one.
    pub(crate) fn capture_id(&self, stream: Stream) -> Option<u64> {
        let (mut status, mut id) = (0, 0);
        let (graph, dependencies, count) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        // SAFETY: the function has this type in cuda.h, where the last three may be null; the stream is one of torch.
        #[expect(unsafe_code)]
        let code = unsafe {
            (self.capture_info?)(stream.0 as Pointer, &mut status, &mut id, graph, dependencies, count)
        };
        // One means active; two, that an error has ended the capture.
        (code == 0 && status == 1).then_some(id)
    }

    /// What identifies a stream. Its address may be used again for a later one, its number is not.
    pub(crate) fn id(&self, stream: Stream) -> u64 {
        let Some(get_id) = self.stream_id else { return stream.0 as u64 };
        let mut id = 0;
        // SAFETY: the function has this type in cuda.h, and the stream is one of torch.
        #[expect(unsafe_code)]
        let code = unsafe { get_id(stream.0 as Pointer, &mut id) };
        if code == 0 { id } else { stream.0 as u64 }
    }
}
