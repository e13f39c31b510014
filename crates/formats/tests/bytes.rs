//! Mapping files: only a regular file has a reliable size.
#![allow(clippy::unwrap_used)]

use std::sync::mpsc;
use std::time::Duration;

use ulpscope_formats::{Access, Bytes};

#[test]
fn a_file_is_mapped_and_an_empty_one_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    for content in [&b"some bytes"[..], b""] {
        let path = folder.path().join("file");
        std::fs::write(&path, content).unwrap();
        assert_eq!(*Bytes::map(&path, Access::ReadOnly).unwrap(), *content);
        assert_eq!(*Bytes::map(&path, Access::CopyOnWrite).unwrap(), *content);
    }
}

#[test]
fn only_regular_files_are_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let said = |path| Bytes::map(path, Access::ReadOnly).unwrap_err().fault.to_string();
    assert_eq!(said(folder.path()), "expected a regular file, found a folder");
    #[cfg(unix)]
    assert_eq!(said("/dev/null".as_ref()), "expected a regular file, found a device or pipe");
}

#[cfg(unix)]
#[test]
fn a_pipe_without_a_writer_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(Bytes::map(&path, Access::ReadOnly)).unwrap());
    let mapped =
        receiver.recv_timeout(Duration::from_secs(10)).expect("an answer without waiting for a writer");
    let fault = mapped.unwrap_err().fault.to_string();
    assert_eq!(fault, "expected a regular file, found a device or pipe");
}

#[cfg(unix)]
mod shrinking {
    use std::fs::OpenOptions;
    use std::path::{Path, PathBuf};

    use ulpscope_formats::{Error, Fault, Watch, file};

    use super::*;

    const PAGE: usize = 4096;

    fn scratch(bytes: usize) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.bin");
        std::fs::write(&path, vec![7; bytes]).unwrap();
        (folder, path)
    }

    fn truncate(path: &Path, size: usize) {
        OpenOptions::new().write(true).open(path).unwrap().set_len(size as u64).unwrap();
    }

    fn sum(bytes: &[u8]) -> u64 {
        bytes.iter().map(|&byte| u64::from(byte)).sum()
    }

    #[track_caller]
    fn assert_shrank(result: Result<(), Error>, path: &Path, sizes: (usize, usize)) {
        let error = result.unwrap_err();
        assert_eq!(error.file.as_deref(), Some(path));
        assert!(
            matches!(error.fault, Fault::Shrank { from, to } if (from as usize, to as usize) == sizes),
            "{error}"
        );
        assert!(error.to_string().contains("shrank"), "{error}");
    }

    #[test]
    fn truncated_data_reads_as_zeros_and_is_an_error() {
        for access in [Access::ReadOnly, Access::CopyOnWrite] {
            let (_folder, path) = scratch(100 * PAGE);
            let bytes = Bytes::map(&path, access).unwrap();
            bytes.check().unwrap();
            truncate(&path, 10 * PAGE + 5);
            // From the end to the start, and by several threads: each read faults separately.
            assert_eq!(bytes[99 * PAGE], 0);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| assert_eq!(sum(&bytes), 7 * (10 * PAGE as u64 + 5)));
                }
            });
            assert_shrank(bytes.check(), &path, (100 * PAGE, 10 * PAGE + 5));
            assert_shrank(bytes.check_faults(), &path, (100 * PAGE, 10 * PAGE + 5));
            assert_shrank(bytes.slice(0..5).check(), &path, (100 * PAGE, 10 * PAGE + 5));
        }
    }

    #[test]
    fn a_cut_within_the_last_page_is_an_error_though_nothing_faults() {
        let (_folder, path) = scratch(100);
        let bytes = Bytes::map(&path, Access::ReadOnly).unwrap();
        truncate(&path, 50);
        assert_eq!(sum(&bytes), 350);
        assert_shrank(bytes.check(), &path, (100, 50));
    }

    #[test]
    fn a_replaced_removed_or_growing_file_is_no_error() {
        let (folder, path) = scratch(3 * PAGE);
        let bytes = Bytes::map(&path, Access::ReadOnly).unwrap();
        std::fs::write(folder.path().join("new"), b"short").unwrap();
        std::fs::rename(folder.path().join("new"), &path).unwrap();
        bytes.check().unwrap();
        std::fs::remove_file(&path).unwrap();
        bytes.check().unwrap();
        let (_folder, path) = scratch(PAGE);
        let bytes = Bytes::map(&path, Access::ReadOnly).unwrap();
        truncate(&path, 9 * PAGE);
        bytes.check().unwrap();
        assert_eq!(sum(&bytes), 7 * PAGE as u64);
    }

    #[test]
    fn data_that_was_missing_for_a_moment_is_an_error() {
        let (_folder, path) = scratch(3 * PAGE);
        let bytes = Bytes::map(&path, Access::ReadOnly).unwrap();
        truncate(&path, 0);
        assert_eq!(bytes[PAGE], 0);
        truncate(&path, 3 * PAGE);
        let error = bytes.check().unwrap_err();
        assert!(matches!(error.fault, Fault::LostPages), "{error}");
        assert_eq!(error.file.as_deref(), Some(path.as_path()));
    }

    #[test]
    fn a_truncated_mapping_cannot_be_written_or_copied() {
        let (_folder, path) = scratch(4 * PAGE);
        let bytes = Bytes::map(&path, Access::CopyOnWrite).unwrap();
        let whole = bytes.copied(&|| Ok(())).unwrap();
        assert!(!whole.is_mapped() && whole.is_writable() && *whole == *bytes);
        truncate(&path, 0);
        assert_shrank(bytes.copied(&|| Ok(())).map(drop), &path, (4 * PAGE, 0));
        // A copy is independent of the file.
        whole.check().unwrap();
        assert_eq!(sum(&whole), 7 * 4 * PAGE as u64);
    }

    #[test]
    fn decoders_fail_on_truncated_data() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        let mut header =
            b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2048,), }".to_vec();
        header.resize(127, b' ');
        header.push(b'\n');
        header.resize(128 + 8192, 1);
        std::fs::write(&path, header).unwrap();
        let tensor = file::read(&path, Access::ReadOnly).unwrap().value.tensors()[0].1.clone();
        truncate(&path, 128);
        assert_shrank(tensor.check(), &path, (128 + 8192, 128));
    }

    #[test]
    fn more_mappings_than_one_chunk_holds() {
        let (_folder, path) = scratch(PAGE);
        let all: Vec<Bytes> = (0..1000).map(|_| Bytes::map(&path, Access::ReadOnly).unwrap()).collect();
        truncate(&path, 0);
        for bytes in &all {
            assert_eq!(sum(bytes), 0);
            bytes.check_faults().unwrap_err();
        }
    }

    /// A single test, because other tests of this process shrink files too.
    #[test]
    fn a_watch_reports_files_that_no_check_reported() {
        let (_folder, path) = scratch(2 * PAGE);
        let watch = Watch::start();
        let bytes = Bytes::map(&path, Access::ReadOnly).unwrap();
        truncate(&path, 1);
        assert_eq!(sum(&bytes), 7);
        drop(bytes);
        assert!(watch.found_any());
        let names_path =
            |errors: &[Error], path: &Path| errors.iter().any(|error| error.file.as_deref() == Some(path));
        watch.check().unwrap_err();
        assert!(!names_path(&watch.unreported(), &path), "check has reported it");
        let (_folder, path) = scratch(2 * PAGE);
        let bytes = Bytes::map(&path, Access::ReadOnly).unwrap();
        truncate(&path, 1);
        drop(bytes);
        assert!(names_path(&watch.unreported(), &path));
        // The reader of a mapping that was handed out checks it; dropping it is not an error.
        let (_folder, path) = scratch(2 * PAGE);
        let bytes = Bytes::map(&path, Access::CopyOnWrite).unwrap();
        truncate(&path, 1);
        drop(bytes);
        assert!(!names_path(&watch.unreported(), &path));
    }
}
