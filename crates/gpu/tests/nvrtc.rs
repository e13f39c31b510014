//! The kernel compiles with NVRTC for every dtype. NVRTC needs no GPU and no driver, only its two libraries:
//! `ULPSCOPE_TEST_NVRTC` is their folder (that of the package nvidia-cuda-nvrtc, which comes with torch).
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::path::Path;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use ulpscope_gpu::{Compiler, function_name};
use ulpscope_tensor::DType;

#[test]
fn every_kernel_compiles_for_two_architectures() {
    let Some(folder) = std::env::var_os("ULPSCOPE_TEST_NVRTC") else { return };
    let find = |start: &str| {
        let files = fs::read_dir(Path::new(&folder)).unwrap().map(|entry| entry.unwrap().path());
        let is_it =
            |path: &std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(start);
        files.into_iter().find(is_it).unwrap()
    };
    // SAFETY: the library contains tables for the compiler, and no code that runs when it is loaded.
    #[expect(unsafe_code)]
    let _builtins =
        unsafe { Library::open(Some(find("libnvrtc-builtins.so")), RTLD_NOW | RTLD_GLOBAL) }.unwrap();
    let compiler = Compiler::open_file(find("libnvrtc.so")).unwrap();
    for architecture in ["sm_80", "sm_90"] {
        let code = compiler.compile(architecture).unwrap();
        assert!(code.starts_with(b"\x7fELF"));
        for name in DType::ALL.into_iter().filter_map(|dtype| function_name(dtype).ok()) {
            let name = format!(".text.{name}\0");
            assert!(code.windows(name.len()).any(|part| part == name.as_bytes()), "{architecture}: {name}");
        }
    }
    let error = compiler.compile("sm_1").unwrap_err().to_string();
    assert!(error.starts_with("the kernel does not compile for sm_1"), "{error}");
}
