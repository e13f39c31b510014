//! Compiled kernels on disk: compiling takes seconds.
//!
//! A file is named after everything that its content depends on, and begins with a digest of the rest. A damaged file
//! counts as absent. Files of other users are not read: what is in them would run on the GPU.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ulpscope_kernels::{DigestKind, digest};
use ulpscope_tensor::{DType, View};

use crate::SOURCE;
use crate::compiler::{OPTIONS, VIRTUAL};

const MAGIC: &[u8; 16] = b"ulpscope kernel\n";

/// Hex digits of the digest.
const DIGITS: usize = 32;

/// Files larger than this are not ours.
const MAX_SIZE: u64 = 64 << 20;

/// A folder with compiled kernels.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: Option<PathBuf>,
}

impl Cache {
    /// The user's cache: `XDG_CACHE_HOME`, or `~/.cache`. Without either nothing is kept.
    pub fn of_user() -> Cache {
        let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")));
        Cache { folder: base.map(|base| base.join("ulpscope").join("kernels")) }
    }

    /// A cache in this folder.
    pub fn at(folder: &Path) -> Cache {
        Cache { folder: Some(folder.to_owned()) }
    }

    /// The code for an architecture: from the cache, or else compiled, and then in the cache. A cache that cannot be
    /// read or written costs time, and nothing else.
    pub fn get<E>(
        &self,
        architecture: &str,
        compiler: &str,
        compile: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, E> {
        let file = self.folder.as_ref().map(|folder| folder.join(file_name(architecture, compiler)));
        if let Some(code) = file.as_deref().and_then(read) {
            return Ok(code);
        }
        let code = compile()?;
        if let Some(file) = &file {
            let _ = write(file, &code);
        }
        Ok(code)
    }
}

fn file_name(architecture: &str, compiler: &str) -> String {
    let options = OPTIONS.join(" ");
    let key = digest_of([SOURCE, &options].join("\n").as_bytes());
    let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || "._".contains(*letter);
    let plain = |text: &str| text.chars().filter(is_plain).collect::<String>();
    let kind = if architecture.starts_with(VIRTUAL) { "ptx" } else { "cubin" };
    format!("statistics-{key}-{}-nvrtc{}.{kind}", plain(architecture), plain(compiler))
}

fn digest_of(bytes: &[u8]) -> String {
    match View::contiguous(DType::U8, vec![bytes.len()], bytes) {
        Ok(view) => digest(&view, DigestKind::Xxh3).to_string(),
        Err(_) => String::new(),
    }
}

/// The code in a file; `None` if it is not there, damaged, or not the user's own.
fn read(path: &Path) -> Option<Vec<u8>> {
    let about = fs::symlink_metadata(path).ok()?;
    let folder = fs::metadata(path.parent()?).ok()?;
    if !about.is_file() || about.len() > MAX_SIZE || !is_own(&about) || !is_own(&folder) {
        return None;
    }
    let content = fs::read(path).ok()?;
    let rest = content.strip_prefix(MAGIC)?;
    let (expected, code) = rest.split_at_checked(DIGITS)?;
    (!code.is_empty() && digest_of(code).as_bytes() == expected).then(|| code.to_vec())
}

/// Writes a file under a different name, and renames it when it is complete.
fn write(path: &Path, code: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
    make_folder(folder)?;
    let unfinished = path.with_extension(format!("{}.unfinished", std::process::id()));
    let written = create(&unfinished).and_then(|mut file| {
        file.write_all(MAGIC)?;
        file.write_all(digest_of(code).as_bytes())?;
        file.write_all(code)
    });
    let renamed = written.and_then(|()| fs::rename(&unfinished, path));
    if renamed.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    renamed
}

#[cfg(unix)]
fn make_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(unix)]
fn create(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options().write(true).create(true).truncate(true).mode(0o600).open(path)
}

#[cfg(not(unix))]
fn make_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

#[cfg(not(unix))]
fn create(path: &Path) -> io::Result<File> {
    File::create(path)
}

/// Whether no one else can write to it.
#[cfg(unix)]
fn is_own(about: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    // Our own files have the owner that this process creates files with.
    let own = fs::metadata("/proc/self").map(|process| process.uid());
    own.is_ok_and(|own| about.uid() == own) && about.mode() & 0o022 == 0
}

#[cfg(not(unix))]
fn is_own(_: &fs::Metadata) -> bool {
    true
}
