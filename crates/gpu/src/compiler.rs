//! NVRTC, opened at run time.

use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::ptr;

use libloading::{Library, Symbol};

use crate::SOURCE;
use crate::error::Error;

const NAME: &str = "NVRTC";

/// How the file's name begins.
const FILE: &str = "libnvrtc.so";

/// How that of the library with its tables begins, which NVRTC loads by name.
const BUILTINS: &str = "libnvrtc-builtins.so";

/// Names for the loader, newest first.
const NAMES: [&str; 4] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"];

/// Where toolkits are installed.
const SYSTEM: &str = "/usr/local/cuda/lib64";

/// The order of sums is part of the results: no multiplication and addition is joined by the compiler.
pub(crate) const OPTIONS: [&str; 3] = ["--fmad=false", "--std=c++17", "--disable-warnings"];

type Program = *mut c_void;

/// The compiler of kernels.
#[derive(Debug)]
pub struct Compiler {
    library: Library,
    /// Loaded before it, so that it finds them.
    _builtins: Option<Library>,
}

impl Compiler {
    /// Opens the compiler that belongs to torch: that of the packages beside torch's own folder, or in it, or of the
    /// system.
    pub fn open(torch: &Path) -> Result<Compiler, Error> {
        let files = folders(torch).into_iter().filter_map(|folder| first_file(&folder, FILE));
        let mut opened: Result<Compiler, Error> = Err(Error::NoCompiler(torch.to_owned()));
        for file in files.chain(NAMES.iter().map(PathBuf::from)) {
            if opened.is_ok() {
                break;
            }
            opened = Compiler::open_file(&file)
                .map_err(|error| if file.is_absolute() { error } else { no(torch) });
        }
        opened
    }

    /// Opens the compiler in a file.
    pub fn open_file(file: &Path) -> Result<Compiler, Error> {
        let builtins = file.parent().and_then(|folder| first_file(folder, BUILTINS));
        let builtins = builtins.and_then(|file| open_for_all(file.as_os_str()).ok());
        let library = open_for_all(file.as_os_str()).map_err(|error| Error::of_loader(NAME, &error))?;
        Ok(Compiler { library, _builtins: builtins })
    }

    /// Its version: it is part of the name of what it compiled.
    pub fn version(&self) -> Result<String, Error> {
        type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
        let version: Symbol<'_, Version> = self.function(b"nvrtcVersion\0")?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the function has this type in nvrtc.h.
        #[expect(unsafe_code)]
        unsafe {
            version(&mut major, &mut minor)
        };
        Ok(format!("{major}.{minor}"))
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
                    let log = String::from_utf8_lossy(&log.unwrap_or_default()).into_owned();
                    Err(failed(code, log.trim_end_matches(['\0', '\n']).to_owned()))
                }
            };
            destroy(&mut program);
            match result {
                Ok(code) if code.is_empty() => Err(failed(0, "no code was made".to_owned())),
                result => result,
            }
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
        found.map_err(|error| Error::of_loader(NAME, &error))
    }
}

fn no(torch: &Path) -> Error {
    Error::NoCompiler(torch.to_owned())
}

/// Folders that may have the library: packages of NVIDIA beside torch, newest first, then torch's own, then the system's.
fn folders(torch: &Path) -> Vec<PathBuf> {
    let packages = torch.parent().map(|site| site.join("nvidia"));
    let mut found: Vec<PathBuf> = packages
        .and_then(|packages| fs::read_dir(packages).ok())
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("lib")))
        .collect();
    found.sort_by_key(|folder| std::cmp::Reverse(first_file(folder, FILE)));
    found.extend([torch.join("lib"), PathBuf::from(SYSTEM)]);
    found
}

/// The first file of a folder, by name, that begins like this.
fn first_file(folder: &Path, start: &str) -> Option<PathBuf> {
    let files = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    files.filter(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start))).min()
}

/// Opens a library so that others find it by its name.
fn open_for_all(file: &OsStr) -> Result<Library, libloading::Error> {
    // SAFETY: NVRTC and its tables have no code that runs when they are loaded and relies on its caller.
    #[cfg(unix)]
    #[expect(unsafe_code)]
    return unsafe {
        use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
        Library::open(Some(file), RTLD_NOW | RTLD_GLOBAL).map(Into::into)
    };
    // SAFETY: as above.
    #[cfg(not(unix))]
    #[expect(unsafe_code)]
    return unsafe { Library::new(file) };
}
