//! A rank that gets its number while it is being recorded: its folder moves.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::path::Path;

use ulpscope_dump::writer::{Fingerprint, Journal, TensorFormat, TensorStore};
use ulpscope_formats::Tensor;
use ulpscope_formats::file::Format;
use ulpscope_tensor::DType;

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Records a line and a tensor, moves, and records a second line and tensor.
fn moved(from: &Path, to: &Path) {
    let mut journal = Journal::create(from).unwrap();
    let mut files = TensorStore::new(from, TensorFormat::Files(Format::Npy));
    let save = |files: &mut TensorStore, stem: &str, value: u8| {
        let tensor = Tensor::contiguous(DType::U8, vec![1], vec![value].into()).unwrap();
        files.save(stem, Fingerprint::of(&tensor.view()), &tensor).unwrap();
    };
    journal.append(&[b"first\n"]).unwrap();
    save(&mut files, "first", 1);
    journal.move_to(to).unwrap();
    files.moved_to(to);
    journal.append(&[b"second\n"]).unwrap();
    save(&mut files, "second", 2);
    journal.trim().unwrap();
    assert_eq!(journal.folder(), to);
}

#[test]
fn to_a_free_path() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("proc1"), folder.path().join("rank0"));
    moved(&from, &to);
    assert!(!from.exists());
    assert_eq!(fs::read(to.join("journal.jsonl")).unwrap(), b"first\nsecond\n");
    assert_eq!(names_in(&to.join("dump_tensor_data")), ["first.npy", "second.npy"]);
}

#[test]
fn to_a_folder_with_an_earlier_dump_and_foreign_files() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("proc1"), folder.path().join("rank0"));
    fs::create_dir_all(to.join("dump_tensor_data")).unwrap();
    for name in ["dump.json", "ledger.json", "dump_tensor_data/old.npy", "result.csv"] {
        fs::write(to.join(name), name).unwrap();
    }
    moved(&from, &to);
    assert!(!from.exists());
    assert_eq!(names_in(&to), ["dump_tensor_data", "journal.jsonl", "result.csv"]);
    assert_eq!(fs::read(to.join("journal.jsonl")).unwrap(), b"first\nsecond\n");
    assert_eq!(names_in(&to.join("dump_tensor_data")), ["first.npy", "second.npy"]);
}
