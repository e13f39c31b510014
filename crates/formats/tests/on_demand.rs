//! Remote files, mapped: read by whoever looks at them, in parts, within a limit of memory.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, Once};

use ulpscope_formats::storage::{self, About, Item, Kind, Object, Opened, Storage};
use ulpscope_formats::{Access, Bytes, Fault, Watch, file};

const MIB: usize = 1 << 20;

/// What came with the answer when a file was opened.
const BEGINNING: usize = 256 << 10;

/// Files whose bytes follow from their names: `fake://BYTES/…`; of those below `broken/`, nothing beyond a MiB is read.
struct Fake;

struct FakeObject {
    name: String,
    size: usize,
}

static READ: Mutex<Vec<(String, Range<u64>)>> = Mutex::new(Vec::new());

fn content(range: Range<u64>) -> Vec<u8> {
    range.map(|at| (at.wrapping_mul(2_654_435_761) >> 7) as u8).collect()
}

impl Storage for Fake {
    fn schemes(&self) -> &'static [&'static str] {
        &["fake://"]
    }

    fn list(&self, _: &Path) -> io::Result<Vec<Item>> {
        Ok(Vec::new())
    }

    fn about(&self, path: &Path) -> io::Result<About> {
        Ok(About { kind: Kind::File, size: self.open(path)?.object.size(), version: 0 })
    }

    fn open(&self, path: &Path) -> io::Result<Opened> {
        let name = path.to_str().unwrap().to_owned();
        let size = name.split('/').nth(2).and_then(|size| size.parse::<usize>().ok());
        let size = size.ok_or(io::ErrorKind::NotFound)?;
        let beginning = content(0..size.min(BEGINNING) as u64);
        Ok(Opened { object: Arc::new(FakeObject { name, size }), beginning })
    }

    fn forget(&self, _: &Path) {}
}

impl Object for FakeObject {
    fn size(&self) -> u64 {
        self.size as u64
    }

    fn read(&self, ranges: &[Range<u64>]) -> io::Result<Vec<Vec<u8>>> {
        READ.lock().unwrap().extend(ranges.iter().map(|range| (self.name.clone(), range.clone())));
        if self.name.contains("broken") && ranges.iter().any(|range| range.end > MIB as u64) {
            return Err(io::Error::other("the connection was lost"));
        }
        Ok(ranges.iter().cloned().map(content).collect())
    }
}

fn map(name: &str) -> Bytes {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: before any other thread of this test reads a variable.
        #[expect(unsafe_code)]
        unsafe {
            std::env::set_var("ULPSCOPE_BUCKET_CACHE_MB", "64");
        }
        storage::register(Arc::new(Fake));
    });
    Bytes::map(Path::new(name), Access::ReadOnly).unwrap()
}

/// How many bytes were read of a file since it was opened.
fn read_of(name: &str) -> u64 {
    let read = READ.lock().unwrap();
    read.iter().filter(|(of, _)| of == name).map(|(_, range)| range.end - range.start).sum()
}

/// Memory of this process, in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn only_what_is_looked_at_is_read() {
    let name = "fake://1073741824/sparse";
    let bytes = map(name);
    assert_eq!(bytes.len(), 1 << 30);
    assert_eq!(read_of(name), 0);
    let at = 700 * MIB + 12345;
    assert_eq!(bytes[at], content(at as u64..at as u64 + 1)[0]);
    assert_eq!(read_of(name), 256 << 10);
    bytes.check().unwrap();
}

#[test]
fn a_part_that_is_fetched_is_read_once_and_no_further() {
    let name = "fake://1073741824/fetched";
    let bytes = map(name);
    let part = bytes.slice(300 * MIB + 7..303 * MIB + 9);
    part.fetch().unwrap();
    assert_eq!(read_of(name), 3 * MIB as u64 + (256 << 10));
    assert_eq!(*part, content(300 * MIB as u64 + 7..303 * MIB as u64 + 9)[..]);
    assert_eq!(read_of(name), 3 * MIB as u64 + (256 << 10));
}

#[test]
fn more_than_the_limit_is_read_within_it() {
    let name = "fake://536870912/large";
    let bytes = map(name);
    let before = resident();
    for (number, piece) in bytes.chunks(16 * MIB).enumerate() {
        let start = number as u64 * 16 * MIB as u64;
        assert_eq!(piece, &content(start..start + piece.len() as u64)[..], "from {start}");
    }
    // The limit of 64 MiB, what eight threads that read have had at a time, and a piece for comparison.
    assert!(resident() < before + 300 * MIB, "{} after {before}", resident());
    // Its beginning was given up, and comes back. What came with the answer had not been read.
    let once = read_of(name);
    assert!(once >= (512 * MIB - BEGINNING) as u64, "{once}");
    assert_eq!(bytes[300_000], content(300_000..300_001)[0]);
    assert!(read_of(name) > once, "{once}");
}

#[test]
fn many_threads_see_the_same_bytes() {
    let bytes = map("fake://134217728/shared");
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let bytes = bytes.clone();
            scope.spawn(move || {
                for step in 0..200u64 {
                    let at = (thread * 7919 + step * 655_360 * 3) % bytes.len() as u64;
                    assert_eq!(bytes[at as usize], content(at..at + 1)[0]);
                }
            });
        }
    });
    bytes.check().unwrap();
}

#[test]
fn what_cannot_be_read_is_an_error_with_its_reason() {
    let watch = Watch::start();
    let name = "fake://8388608/broken";
    let bytes = map(name);
    assert_eq!(bytes[1000], content(1000..1001)[0]);
    assert!(bytes.slice(0..4 * MIB).fetch().unwrap_err().to_string().ends_with("the connection was lost"));
    // A reader that did not ask before reads zeros, and is told.
    assert_eq!(bytes[6 * MIB], 0);
    let error = bytes.check_faults().unwrap_err();
    assert!(matches!(error.fault, Fault::Io(_)));
    assert_eq!(error.to_string(), format!("{name}: the connection was lost"));
    // Who read it knows; nobody else has to.
    let others = watch.check().err().map(|error| error.to_string()).unwrap_or_default();
    assert!(!others.starts_with(&format!("{name}: ")), "{others}");
}

#[test]
fn a_failure_that_no_reader_asked_about_is_found() {
    let watch = Watch::start();
    let name = "fake://8388608/broken/unasked";
    let bytes = map(name);
    assert_eq!(bytes[6 * MIB], 0);
    drop(bytes);
    assert!(watch.unreported().iter().any(|error| error.to_string().contains("unasked")));
}

#[test]
fn absent_parts_are_written_to_files() {
    let bytes = map("fake://4194304/copied");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("copy");
    let write = |out: &mut dyn io::Write| out.write_all(&bytes).map_err(ulpscope_formats::Error::whole);
    file::write_with(&path, write).unwrap();
    assert!(std::fs::read(path).unwrap() == content(0..4 * MIB as u64));
}

#[test]
fn nothing_is_written_elsewhere() {
    drop(map("fake://1/small"));
    let error = file::write_with(Path::new("fake://1/out"), |_| Ok(())).unwrap_err();
    assert!(
        error.to_string().starts_with("fake://1/out: results are written on this machine only"),
        "{error}"
    );
}
