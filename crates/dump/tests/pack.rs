//! Tensors in a few large files: every file is one that readers of the format accept, and each tensor is where the run
//! says.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::path::Path;

use ulpscope_dump::writer::{Fingerprint, PackSize, SavedTensor, TensorFormat, TensorStore, is_shard_name};
use ulpscope_formats::{Tensor, Value, file};
use ulpscope_tensor::DType;

fn tensor(dtype: DType, shape: &[usize], seed: u8) -> Tensor {
    let count = shape.iter().product::<usize>() * dtype.size();
    let bytes: Vec<u8> = (0..count).map(|place| (place * 31 % 251) as u8 ^ seed).collect();
    Tensor::contiguous(dtype, shape.to_vec(), bytes.into()).unwrap()
}

fn save(store: &mut TensorStore, stem: &str, tensor: &Tensor) -> SavedTensor {
    store.save(stem, Fingerprint::of(&tensor.view()), tensor).unwrap()
}

fn files(folder: &Path) -> Vec<(String, Vec<(String, Value)>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder.join("dump_tensor_data")).unwrap() {
        let path = entry.unwrap().path();
        let read = file::read(&path, ulpscope_formats::Access::ReadOnly).unwrap().value;
        let leaves = read.leaves().into_iter().map(|(name, value)| (name, value.clone())).collect();
        found.push((path.file_name().unwrap().to_str().unwrap().to_owned(), leaves));
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

#[test]
fn every_tensor_is_where_it_was_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = TensorStore::new(folder.path(), TensorFormat::Pack);
    let mut size = PackSize::default();
    let mut saved = Vec::new();
    for number in 0..1500usize {
        let dtype = DType::ALL[number % DType::ALL.len()];
        let one = tensor(dtype, &[number % 7, 3 + number], number as u8);
        let name = format!("Call.{number}.output.0");
        let most = store.written() + store.most_added(&one);
        saved.push((name.clone(), save(&mut store, &name, &one), one));
        assert!(store.written() <= most);
        if number % 400 == 0 {
            // A step may pause, and go on.
            store.finish().unwrap();
            files(folder.path());
        }
    }
    store.finish().unwrap();
    let files = files(folder.path());
    assert!(files.len() > 1 && files.iter().all(|(name, _)| is_shard_name(name)));
    let mut known = std::collections::HashSet::new();
    for (name, saved, tensor) in &saved {
        let part = saved.part.as_ref().unwrap();
        let bytes = fs::read(folder.path().join("dump_tensor_data").join(&saved.file)).unwrap();
        let range = part.offset as usize..(part.offset + part.length) as usize;
        assert_eq!(part.offset % 64, 0);
        assert!(bytes[range] == tensor.view().as_packed().unwrap()[..]);
        let (_, leaves) = files.iter().find(|(file, _)| *file == saved.file).unwrap();
        let (_, value) = leaves.iter().find(|(leaf, _)| leaf == name).unwrap();
        let Value::Tensor(read) = value else { panic!("{name}") };
        assert_eq!((read.dtype(), read.shape()), (tensor.dtype(), tensor.shape()));
        if known.insert(name) {
            size.add(name, tensor.dtype(), tensor.shape());
        }
    }
    let on_disk = |(name, _): &(String, _)| {
        fs::metadata(folder.path().join("dump_tensor_data").join(name)).unwrap().len()
    };
    let bytes: u64 = files.iter().map(on_disk).sum();
    assert_eq!(store.written(), bytes);
    assert_eq!(size.total(), (files.len() as u64, bytes));
}

#[test]
fn equal_tensors_have_one_place() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = TensorStore::new(folder.path(), TensorFormat::Pack);
    let one = tensor(DType::F32, &[5], 1);
    let fingerprint = Fingerprint::of(&one.view());
    assert_eq!(store.link("a", &fingerprint), None);
    let first = save(&mut store, "a", &one);
    assert_eq!(first.part.as_ref().unwrap().name, None);
    let written = store.written();
    let second = store.link("b", &fingerprint).unwrap();
    assert_eq!(store.written(), written);
    let (first, second) = (first.part.unwrap(), second.part.unwrap());
    assert_eq!((first.offset, first.length), (second.offset, second.length));
    assert_eq!(second.name.as_deref(), Some("a"));
    // Another tensor of the same name gets another one in the file.
    let twin = save(&mut store, "a", &tensor(DType::F32, &[5], 2));
    assert_eq!(twin.part.unwrap().name.as_deref(), Some("a~2"));
}

#[test]
fn an_unfinished_file_says_where_its_tensors_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = TensorStore::new(folder.path(), TensorFormat::Pack);
    let saved = save(&mut store, "a", &tensor(DType::F32, &[5], 1));
    let path = folder.path().join("dump_tensor_data").join(saved.file);
    let error = file::read(&path, ulpscope_formats::Access::ReadOnly).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("its header was never filled in") && error.contains("journal.jsonl"), "{error}");
}
