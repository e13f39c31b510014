//! Mapping files: only a regular file has a size to trust.
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
fn what_is_not_a_regular_file_is_refused() {
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
