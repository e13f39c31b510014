//! The kernel compiles with NVRTC for every dtype. NVRTC needs no GPU and no driver, only its two libraries, which come
//! with torch for CUDA: the test looks for them in the repository's `.venv`, or around `ULPSCOPE_TEST_TORCH`, the folder
//! of a torch package, and is skipped without them.
#![allow(clippy::print_stderr, clippy::unwrap_used, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};

use ulpscope_gpu::{Compiler, Error, function_name};
use ulpscope_tensor::DType;

/// The folder of torch.
fn torch() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("ULPSCOPE_TEST_TORCH") {
        return Some(folder.into());
    }
    let lib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/lib");
    let torch = |entry: fs::DirEntry| entry.path().join("site-packages/torch");
    fs::read_dir(lib).ok()?.map(|entry| torch(entry.unwrap())).find(|folder| folder.exists())
}

#[test]
fn every_kernel_compiles_for_two_architectures() {
    let Some(torch) = torch() else {
        eprintln!("skipped: no torch in .venv");
        return;
    };
    let compiler = match Compiler::open(&torch) {
        Err(Error::NoCompiler(_)) => {
            eprintln!("skipped: this torch has no NVRTC");
            return;
        }
        compiler => compiler.unwrap(),
    };
    let (major, minor) =
        compiler.version().unwrap().split_once('.').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    assert!(major.parse::<u32>().unwrap() >= 11 && minor.parse::<u32>().is_ok());
    for architecture in ["sm_80", "sm_90"] {
        let code = compiler.compile(architecture).unwrap();
        assert!(code.starts_with(b"\x7fELF"));
        for name in DType::ALL.into_iter().filter_map(|dtype| function_name(dtype).ok()) {
            let name = format!(".text.{name}\0");
            assert!(code.windows(name.len()).any(|part| part == name.as_bytes()), "{architecture}: {name}");
        }
    }
    // A GPU that is newer than the compiler.
    assert_eq!(compiler.target("sm_90").unwrap(), "sm_90");
    let target = compiler.target("sm_999").unwrap();
    assert!(target.starts_with("compute_1"), "{target}");
    let text = compiler.compile(&target).unwrap();
    let (last, text) = text.split_last().unwrap();
    let text = std::str::from_utf8(text).unwrap();
    assert!(*last == 0 && text.contains(".entry statistics_float32"));
    // The driver joins no multiplication and addition: both say how they round.
    assert!(text.contains("mul.rn.f64") && text.contains("add.rn.f64") && !text.contains("mul.f64"));
    let error = compiler.compile("sm_1").unwrap_err().to_string();
    assert!(error.starts_with("the kernel does not compile for sm_1"), "{error}");
}
