//! The library of `driver.cpp`, compiled once: a driver and a compiler that need no GPU.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The file of the library; `None` without g++.
pub fn library() -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = own.join("tests/standin/driver.cpp");
    let mut hasher = DefaultHasher::new();
    for file in [&source, &own.join("src/host.h"), &own.join("src/statistics.cu")] {
        std::fs::read(file).unwrap().hash(&mut hasher);
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gpu-standin");
    let library = folder.join(format!("libcuda-{:016x}.so", hasher.finish()));
    if library.exists() {
        return Some(library);
    }
    std::fs::create_dir_all(&folder).unwrap();
    let unfinished = tempfile::NamedTempFile::new_in(&folder).unwrap().into_temp_path();
    let compiled = Command::new("g++")
        .args([
            "-O1",
            "-std=c++17",
            "-ffp-contract=off",
            "-fPIC",
            "-shared",
            "-pthread",
            "-Wno-unknown-pragmas",
        ])
        .arg("-I")
        .arg(own.join("src"))
        .args(["-x", "c++"])
        .arg(&source)
        .arg("-o")
        .arg(&unfinished)
        .arg("-ldl")
        .output()
        .ok()?;
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    unfinished.persist(&library).unwrap();
    Some(library)
}
