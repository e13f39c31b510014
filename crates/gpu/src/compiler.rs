//! NVRTC, opened at run time.

use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::ptr;

use libloading::{Library, Symbol};

use crate::SOURCE;
use crate::error::Error;

const NAME: &str = "NVRTC";

/// Names of the library, newest first. Torch has loaded one of them in a process that uses CUDA.
const FILES: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"];

/// The order of sums is part of the results: no multiplication and addition is joined by the compiler.
const OPTIONS: [&str; 2] = ["--fmad=false", "--std=c++17"];

type Program = *mut c_void;

/// The compiler of kernels.
#[derive(Debug)]
pub struct Compiler {
    library: Library,
}

impl Compiler {
    /// Opens the compiler where the loader finds it.
    pub fn open() -> Result<Compiler, Error> {
        let mut result = Compiler::open_file(FILES[0]);
        for file in &FILES[1..] {
            result = result.or_else(|_| Compiler::open_file(file));
        }
        result
    }

    /// Opens the compiler in a file.
    pub fn open_file(file: impl AsRef<OsStr>) -> Result<Compiler, Error> {
        // SAFETY: NVRTC has no code that runs when it is loaded and relies on its caller.
        #[expect(unsafe_code)]
        let library = unsafe { Library::new(file.as_ref()) };
        Ok(Compiler { library: library.map_err(|cause| Error::Library { library: NAME, cause })? })
    }

    /// The kernels as machine code for an architecture, such as `sm_90`.
    pub fn compile(&self, architecture: &str) -> Result<Vec<u8>, Error> {
        type Create = unsafe extern "C" fn(
            *mut Program,
            *const c_char,
            *const c_char,
            c_int,
            *const *const c_char,
            *const *const c_char,
        ) -> c_int;
        type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
        type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;
        let create: Symbol<'_, Create> = self.function(b"nvrtcCreateProgram\0")?;
        let compile: Symbol<'_, Compile> = self.function(b"nvrtcCompileProgram\0")?;
        let destroy: Symbol<'_, Destroy> = self.function(b"nvrtcDestroyProgram\0")?;
        let failed =
            |code: c_int, log: String| Error::Compile { architecture: architecture.to_owned(), code, log };
        let text = |text: &str| CString::new(text).map_err(|_| failed(0, "a zero in a text".to_owned()));
        let source = text(SOURCE)?;
        let architecture_option = text(&format!("--gpu-architecture={architecture}"))?;
        let others = OPTIONS.iter().map(|option| text(option)).collect::<Result<Vec<_>, _>>()?;
        let options: Vec<*const c_char> =
            std::iter::once(&architecture_option).chain(&others).map(|option| option.as_ptr()).collect();
        let mut program = ptr::null_mut();
        // SAFETY: the functions have the types of nvrtc.h, all texts end with zero and outlive the calls, and the program
        // is destroyed after its last use.
        #[expect(unsafe_code)]
        unsafe {
            let code =
                create(&mut program, source.as_ptr(), c"statistics.cu".as_ptr(), 0, ptr::null(), ptr::null());
            if code != 0 {
                return Err(failed(code, String::new()));
            }
            let code = compile(program, options.len() as c_int, options.as_ptr());
            let result = match code {
                0 => self.output(program, b"nvrtcGetCUBINSize\0", b"nvrtcGetCUBIN\0"),
                code => {
                    let log = self.output(program, b"nvrtcGetProgramLogSize\0", b"nvrtcGetProgramLog\0");
                    Err(failed(code, String::from_utf8_lossy(&log.unwrap_or_default()).into_owned()))
                }
            };
            destroy(&mut program);
            result
        }
    }

    /// What two functions say of a program: its size, and its bytes.
    ///
    /// # Safety
    /// The functions must be of that kind, and the program alive.
    #[expect(unsafe_code)]
    unsafe fn output(&self, program: Program, size: &[u8], bytes: &[u8]) -> Result<Vec<u8>, Error> {
        type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
        type Bytes = unsafe extern "C" fn(Program, *mut u8) -> c_int;
        let size: Symbol<'_, Size> = self.function(size)?;
        let bytes: Symbol<'_, Bytes> = self.function(bytes)?;
        let mut length = 0;
        // SAFETY: the caller's promise; the memory has the size that the library asks for.
        unsafe {
            size(program, &mut length);
            let mut found = vec![0; length];
            bytes(program, found.as_mut_ptr());
            Ok(found)
        }
    }

    fn function<T>(&self, name: &[u8]) -> Result<Symbol<'_, T>, Error> {
        // SAFETY: the callers give the types of nvrtc.h.
        #[expect(unsafe_code)]
        let found = unsafe { self.library.get(name) };
        found.map_err(|cause| Error::Library { library: NAME, cause })
    }
}
