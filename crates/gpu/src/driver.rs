//! The CUDA driver, opened at run time: only what a launch needs.

use std::ffi::{CString, c_int, c_uint, c_void};
use std::ptr;

use libloading::{Library, Symbol};

use crate::error::Error;
use crate::launch::Launch;

const NAME: &str = "the CUDA driver";
const FILE: &str = "libcuda.so.1";

/// Threads of a block, as in `statistics.cu`.
const THREADS: c_uint = 256;

/// The driver's attributes of a device: the two numbers of its architecture.
const MAJOR: c_int = 75;
const MINOR: c_int = 76;

/// Memory of the host that the device writes to directly, at the same address.
const MAPPED: c_uint = 2;

/// A stream of the program, as torch gives it.
#[derive(Clone, Copy, Debug)]
pub struct Stream(pub *mut c_void);

/// A kernel in the current context.
#[derive(Clone, Copy, Debug)]
pub struct Function(*mut c_void);

/// The driver. All calls are about the context that is current on this thread, which is torch's.
#[derive(Debug)]
pub struct Driver {
    library: Library,
}

macro_rules! call {
    ($driver:expr, $name:ident: fn($($kind:ty),*), $($argument:expr),*) => {{
        // SAFETY: the function has this type in cuda.h, and what its arguments point to outlives the call.
        #[expect(unsafe_code)]
        let code = unsafe {
            let function: Symbol<'_, unsafe extern "C" fn($($kind),*) -> c_int> =
                $driver.library.get(concat!(stringify!($name), "\0").as_bytes()).map_err(missing)?;
            function($($argument),*)
        };
        if code == 0 { Ok(()) } else { Err(Error::Driver { function: stringify!($name), code }) }
    }};
}

fn missing(cause: libloading::Error) -> Error {
    Error::Library { library: NAME, cause }
}

impl Driver {
    /// Opens the driver. Without a GPU there is none.
    pub fn open() -> Result<Driver, Error> {
        // SAFETY: the driver has no code that runs when it is loaded and relies on its caller.
        #[expect(unsafe_code)]
        let library = unsafe { Library::new(FILE) };
        let driver = Driver { library: library.map_err(missing)? };
        call!(driver, cuInit: fn(c_uint), 0)?;
        Ok(driver)
    }

    /// The architecture of the current device, such as `sm_90`.
    pub fn architecture(&self) -> Result<String, Error> {
        let mut device: c_int = 0;
        call!(self, cuCtxGetDevice: fn(*mut c_int), &mut device)?;
        let mut numbers = [0; 2];
        for (number, attribute) in numbers.iter_mut().zip([MAJOR, MINOR]) {
            call!(self, cuDeviceGetAttribute: fn(*mut c_int, c_int, c_int), number, attribute, device)?;
        }
        Ok(format!("sm_{}{}", numbers[0], numbers[1]))
    }

    /// Loads machine code, for as long as the context lives; returns the kernels of these names.
    pub fn load(&self, code: &[u8], names: &[String]) -> Result<Vec<Function>, Error> {
        let mut module = ptr::null_mut();
        call!(self, cuModuleLoadData: fn(*mut *mut c_void, *const c_void), &mut module, code.as_ptr().cast())?;
        let function = |name: &String| {
            let name = CString::new(name.as_str()).unwrap_or_default();
            let mut function = ptr::null_mut();
            call!(self, cuModuleGetFunction: fn(*mut *mut c_void, *mut c_void, *const i8),
                &mut function, module, name.as_ptr().cast())?;
            Ok(Function(function))
        };
        names.iter().map(function).collect()
    }

    /// Starts a kernel. The parameter is copied before this returns.
    pub fn launch(&self, function: Function, stream: Stream, launch: &Launch) -> Result<(), Error> {
        type Extra = *mut *mut c_void;
        let mut parameters = [ptr::from_ref(launch).cast_mut().cast::<c_void>()];
        call!(self, cuLaunchKernel: fn(*mut c_void, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint,
                *mut c_void, Extra, Extra),
            function.0, launch.blocks(), 1, 1, THREADS, 1, 1, 0, stream.0, parameters.as_mut_ptr(), ptr::null_mut())
    }

    /// Allocates memory of the device.
    pub fn allocate(&self, bytes: usize) -> Result<u64, Error> {
        let mut address = 0;
        call!(self, cuMemAlloc_v2: fn(*mut u64, usize), &mut address, bytes)?;
        call!(self, cuMemsetD8_v2: fn(u64, u8, usize), address, 0, bytes)?;
        Ok(address)
    }

    /// Allocates memory of the host that the device can write to. The address is the same on both.
    pub fn allocate_mapped(&self, bytes: usize) -> Result<*mut c_void, Error> {
        let mut address = ptr::null_mut();
        call!(self, cuMemHostAlloc: fn(*mut *mut c_void, usize, c_uint), &mut address, bytes, MAPPED)?;
        Ok(address)
    }
}
