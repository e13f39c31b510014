//! Tensor files as a run writes them: the bytes of their format for every size, and one file for equal tensors.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::path::Path;

use ulpscope_dump::writer::{Fingerprint, TensorFormat, TensorStore};
use ulpscope_formats::file::{Format, encode};
use ulpscope_formats::{Bytes, Tensor, Value};
use ulpscope_tensor::DType;

fn bytes(count: usize) -> Bytes {
    (0..count).map(|place| (place * 31 % 251) as u8).collect::<Vec<u8>>().into()
}

fn tensor(count: usize) -> Tensor {
    Tensor::contiguous(DType::U8, vec![count], bytes(count)).unwrap()
}

fn save(files: &mut TensorStore, stem: &str, tensor: &Tensor) -> String {
    files.save(stem, Fingerprint::of(&tensor.view()), tensor).unwrap().file
}

fn read(folder: &Path, name: &str) -> Vec<u8> {
    fs::read(folder.join("dump_tensor_data").join(name)).unwrap()
}

/// The file must equal the encoder's output, byte for byte and no longer.
fn is_as_encoded(format: Format, tensor: &Tensor) {
    let folder = tempfile::tempdir().unwrap();
    let mut files = TensorStore::new(folder.path(), TensorFormat::Files(format));
    let name = save(&mut files, "x", tensor);
    let mut encoded = Vec::new();
    encode(format, &Value::Tensor(tensor.clone()), "x", &mut encoded).unwrap();
    let written = read(folder.path(), &name);
    assert_eq!(written.len(), encoded.len(), "{format} of {:?}", tensor.shape());
    assert!(written == encoded, "{format} of {:?}", tensor.shape());
}

#[test]
fn files_of_every_size_have_the_bytes_of_their_format() {
    const KIB: usize = 1 << 10;
    let mut sizes = vec![0, 1, 100];
    for middle in [4 * KIB, 32 * KIB, 128 * KIB, 256 * KIB, 300 * KIB, 512 * KIB, 1024 * KIB, 2500 * KIB] {
        // Just below and above the end of a buffer, a page or a group of pages, with and without a head before it.
        sizes.extend([middle - 2000, middle - 704, middle - 1, middle, middle + 1, middle + 4000]);
    }
    for format in [Format::Pt, Format::Npy, Format::Safetensors] {
        for &size in &sizes {
            is_as_encoded(format, &tensor(size));
        }
    }
}

#[test]
fn a_file_contains_only_what_its_tensor_needs() {
    const ROWS: usize = 1 << 20;
    let expanded = Tensor::strided(DType::U8, vec![ROWS, 2], vec![0, 1], bytes(2), 0).unwrap();
    let sparse = Tensor::strided(DType::U8, vec![ROWS / 8], vec![64], bytes(ROWS * 8), 0).unwrap();
    let every_other = Tensor::strided(DType::U8, vec![ROWS], vec![2], bytes(ROWS * 2), 0).unwrap();
    let transposed = Tensor::strided(DType::U8, vec![1024, 1024], vec![1, 1024], bytes(ROWS), 0).unwrap();
    for format in [Format::Pt, Format::Npy, Format::Safetensors] {
        for tensor in [&expanded, &sparse, &every_other, &transposed] {
            is_as_encoded(format, tensor);
        }
    }
}

#[test]
fn equal_tensors_share_a_file_under_separate_names() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = TensorStore::new(folder.path(), TensorFormat::Files(Format::Pt));
    let first = tensor(600 << 10);
    let fingerprint = Fingerprint::of(&first.view());
    assert_eq!(files.link("a", &fingerprint), None);
    assert_eq!(save(&mut files, "a", &first), "a.pt");
    let written = files.written();

    let equal = Fingerprint::of(&tensor(600 << 10).view());
    assert_eq!(files.link("b", &equal).map(|saved| saved.file).as_deref(), Some("b.pt"));
    assert_eq!(files.link("b", &equal).map(|saved| saved.file).as_deref(), Some("b~2.pt"));
    assert_eq!(files.written(), written);
    assert_eq!(read(folder.path(), "b~2.pt"), read(folder.path(), "a.pt"));

    let shaped = Tensor::contiguous(DType::U8, vec![600, 1 << 10], bytes(600 << 10)).unwrap();
    let signed = Tensor::contiguous(DType::I8, vec![600 << 10], bytes(600 << 10)).unwrap();
    for other in [tensor((600 << 10) - 1), shaped, signed] {
        assert_eq!(files.link("c", &Fingerprint::of(&other.view())), None);
    }
}

#[test]
fn invalid_file_names_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = TensorStore::new(folder.path(), TensorFormat::Files(Format::Npy));
    let names: Vec<String> = ["a.b-c_0", "../a", "a:b", "..", "", "\u{e4}"]
        .iter()
        .enumerate()
        .map(|(place, stem)| save(&mut files, stem, &tensor(place)))
        .collect();
    assert_eq!(names, ["a.b-c_0.npy", ".._a.npy", "a_b.npy", "_...npy", "_.npy", "\u{e4}.npy"]);
    let long = save(&mut files, &"x".repeat(300), &tensor(9));
    assert!(long.len() <= 204 && long.contains('~'), "{long}");
}
