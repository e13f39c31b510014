//! NVRTC, opened at run time.

use std::cmp::Reverse;
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

/// How virtual architectures begin.
pub(crate) const VIRTUAL: &str = "compute_";

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
        let files = candidates(torch).into_iter();
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
        let builtins = file.parent().and_then(|folder| newest_file(folder, BUILTINS));
        let builtins = builtins.and_then(|file| open_library(file.as_os_str()).ok());
        let library = open_library(file.as_os_str()).map_err(|error| Error::of_loader(NAME, &error))?;
        Ok(Compiler { library, _builtins: builtins })
    }

    /// Its version: it is part of the name of what it compiled.
    pub fn version(&self) -> Result<String, Error> {
        type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
        let version: Symbol<'_, Version> = self.function(b"nvrtcVersion\0")?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the function has this type in nvrtc.h.
        #[expect(unsafe_code)]
        let code = unsafe { version(&mut major, &mut minor) };
        checked("nvrtcVersion", code)?;
        Ok(format!("{major}.{minor}"))
    }

    /// What to compile for a GPU of this architecture, such as `sm_90`. For one that is newer than the compiler this is
    /// a virtual architecture, such as `compute_90`: text from which the driver makes machine code.
    pub fn target(&self, architecture: &str) -> Result<String, Error> {
        let Some(wanted) = architecture.strip_prefix("sm_").and_then(|number| number.parse().ok()) else {
            return Ok(architecture.to_owned());
        };
        let known = self.architectures()?;
        if known.is_empty() || known.contains(&wanted) {
            return Ok(architecture.to_owned());
        }
        let older = known.into_iter().filter(|&known| known < wanted).max();
        // Without an older one the compiler says what is wrong.
        Ok(older.map_or_else(|| architecture.to_owned(), |older| format!("compute_{older}")))
    }

    /// The architectures that it knows, by their numbers; nothing if it does not say.
    fn architectures(&self) -> Result<Vec<c_int>, Error> {
        type Count = unsafe extern "C" fn(*mut c_int) -> c_int;
        type List = unsafe extern "C" fn(*mut c_int) -> c_int;
        let count: Result<Symbol<'_, Count>, Error> = self.function(b"nvrtcGetNumSupportedArchs\0");
        let list: Result<Symbol<'_, List>, Error> = self.function(b"nvrtcGetSupportedArchs\0");
        let (Ok(count), Ok(list)) = (count, list) else { return Ok(Vec::new()) };
        let mut length = 0;
        // SAFETY: the functions have these types in nvrtc.h, and the list has the length that the first one says.
        #[expect(unsafe_code)]
        unsafe {
            checked("nvrtcGetNumSupportedArchs", count(&mut length))?;
            let mut found = vec![0; usize::try_from(length).unwrap_or(0)];
            checked("nvrtcGetSupportedArchs", list(found.as_mut_ptr()))?;
            Ok(found)
        }
    }

    /// The kernels as machine code for an architecture, such as `sm_90`, or as text for a virtual one.
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
                0 if architecture.starts_with(VIRTUAL) => {
                    self.output(program, "nvrtcGetPTXSize", "nvrtcGetPTX")
                }
                0 => self.output(program, "nvrtcGetCUBINSize", "nvrtcGetCUBIN"),
                code => {
                    let log = self.output(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog");
                    let log = String::from_utf8_lossy(&log.unwrap_or_default()).into_owned();
                    Err(failed(code, log.trim_end_matches(['\0', '\n']).to_owned()))
                }
            };
            let destroyed = checked("nvrtcDestroyProgram", destroy(&mut program));
            match result {
                Ok(code) if code.is_empty() => Err(failed(0, "no code was made".to_owned())),
                result => result.and_then(|code| destroyed.map(|()| code)),
            }
        }
    }

    /// What two functions say of a program: its size, and its bytes.
    ///
    /// # Safety
    /// The functions must be of that kind, and the program alive.
    #[expect(unsafe_code)]
    unsafe fn output(
        &self,
        program: Program,
        size_name: &'static str,
        bytes_name: &'static str,
    ) -> Result<Vec<u8>, Error> {
        type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
        type Bytes = unsafe extern "C" fn(Program, *mut u8) -> c_int;
        let size: Symbol<'_, Size> = self.function(size_name.as_bytes())?;
        let bytes: Symbol<'_, Bytes> = self.function(bytes_name.as_bytes())?;
        let mut length = 0;
        // SAFETY: the caller's promise; the memory has the size that the library asks for.
        unsafe {
            checked(size_name, size(program, &mut length))?;
            let mut found = vec![0; length];
            checked(bytes_name, bytes(program, found.as_mut_ptr()))?;
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

fn checked(function: &'static str, code: c_int) -> Result<(), Error> {
    if code == 0 { Ok(()) } else { Err(Error::Compiler { function, code }) }
}

/// Files that may be the library: those of NVIDIA's packages beside torch, newest version first, then torch's own, then
/// the system's.
fn candidates(torch: &Path) -> Vec<PathBuf> {
    let packages = torch.parent().map(|site| site.join("nvidia"));
    let mut found: Vec<PathBuf> = packages
        .and_then(|packages| fs::read_dir(packages).ok())
        .into_iter()
        .flatten()
        .filter_map(|entry| newest_file(&entry.ok()?.path().join("lib"), FILE))
        .collect();
    found.sort_by_key(|file| Reverse(version_of(file)));
    let others = [torch.join("lib"), PathBuf::from(SYSTEM)];
    found.extend(others.iter().filter_map(|folder| newest_file(folder, FILE)));
    found
}

/// The file of a folder that begins like this and has the highest version.
fn newest_file(folder: &Path, start: &str) -> Option<PathBuf> {
    let files = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let named =
        |file: &PathBuf| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start));
    files.filter(named).max_by_key(|file| (version_of(file), Reverse(file.clone())))
}

/// The numbers after `.so` in the name of a library. A name without any is a link to one that has them.
fn version_of(file: &Path) -> Vec<u32> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let numbers = name.split_once(".so.").map_or("", |(_, numbers)| numbers);
    numbers.split('.').map_while(|number| number.parse().ok()).collect()
}

/// Opens a library. NVRTC finds the one with its tables by its name, once that is loaded.
fn open_library(file: &OsStr) -> Result<Library, libloading::Error> {
    // SAFETY: NVRTC and its tables have no code that runs when they are loaded and relies on its caller.
    #[expect(unsafe_code)]
    unsafe {
        Library::new(file)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_comes_first() {
        let site = tempfile::tempdir().unwrap();
        let torch = site.path().join("torch");
        let files = [
            "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
            "nvidia/cu13/lib/libnvrtc.so.13",
            "nvidia/cu13/lib/libnvrtc-builtins.so.13.0",
            "nvidia/old/lib/libnvrtc.so.9.2",
            "nvidia/old/lib/libnvrtc.so.11.2",
            "torch/lib/libnvrtc.so",
        ];
        for file in files.map(|file| site.path().join(file)) {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        let expected = [files[1], files[0], files[4], files[5]].map(|file| site.path().join(file));
        assert_eq!(candidates(&torch)[..4], expected);
    }
}
