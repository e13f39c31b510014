//! Files by their path: detection, reading, writing, and what is left when writing fails.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use ulpscope_formats::file::{self, Format, Holds};
use ulpscope_formats::{Access, Error, Fault, Tensor, Value};
use ulpscope_tensor::DType;

fn tensor(dtype: DType, count: usize) -> Tensor {
    let bytes: Vec<u8> = (0..count * dtype.size()).map(|byte| (byte % 2) as u8).collect();
    Tensor::contiguous(dtype, vec![count], bytes.into()).unwrap()
}

fn dict(pairs: Vec<(&str, Tensor)>) -> Value {
    let pair = |(name, tensor): (&str, Tensor)| (Value::Str(name.to_owned()), Value::Tensor(tensor));
    Value::Dict(pairs.into_iter().map(pair).collect())
}

/// Name, dtype, shape and bytes of every tensor.
fn content(value: &Value) -> Vec<(String, DType, Vec<usize>, Vec<u8>)> {
    let row = |(name, tensor): (String, &Tensor)| {
        (name, tensor.dtype(), tensor.shape().to_vec(), tensor.view().to_packed().into_owned())
    };
    value.tensors().into_iter().map(row).collect()
}

#[test]
fn content_decides_and_the_name_breaks_ties() {
    let zip = |name: &str| {
        let mut bytes = b"PK\x03\x04".to_vec();
        bytes.resize(26, 0);
        bytes.extend([name.len() as u8, 0, 0, 0]);
        bytes.extend(name.as_bytes());
        bytes
    };
    let after_length = |length: u64, rest: &[u8]| [&length.to_le_bytes(), rest].concat();
    for (name, bytes, expected) in [
        ("x.pt", b"\x93NUMPY\x01\x00".to_vec(), Format::Npy),
        ("x", zip("weights.npy"), Format::Npz),
        ("x.npz", zip("readme"), Format::Npz),
        ("x.pt", zip("model/version"), Format::Pt),
        ("x.npy", zip("archive/data.pkl"), Format::Pt),
        ("empty.npz", b"PK\x05\x06".to_vec(), Format::Npz),
        ("x.pkl", b"\x80\x02\x8a\x0a".to_vec(), Format::Pt),
        ("x.bin", after_length(2, b"{}"), Format::Safetensors),
        ("x", after_length(2, b"\x0a\x00"), Format::Acl),
        ("x", after_length(4, b"\x5a\x5a\x5a\x5a"), Format::Acl),
        ("x.npy", b"\n [\"a\", 1]".to_vec(), Format::PklLines),
        ("dump.json", b"{\"data\": {}}".to_vec(), Format::Msprobe),
        ("construct.json", b"{}".to_vec(), Format::Msprobe),
        ("renamed", b"{\n \"task\": \"statistics\",\n \"dump_data_dir\": null".to_vec(), Format::Msprobe),
        // If the content is not conclusive, the name decides.
        ("x.safetensors", after_length(99, b"{}"), Format::Safetensors),
        ("Add.add.1.2.1767261601226215", b"\x0a\x032.0".to_vec(), Format::Acl),
        ("x.NPY", b"junk".to_vec(), Format::Npy),
        ("x.pt", Vec::new(), Format::Pt),
    ] {
        assert_eq!(Format::detect(Path::new(name), &bytes).unwrap(), expected, "{name}: {bytes:?}");
    }
}

#[test]
fn files_of_unknown_format_are_refused() {
    for (name, bytes, message) in [
        ("x.csv", b"a,b,c\n1,2,3\n".as_slice(), "of no known format: it begins with a,b,c\\n1,"),
        ("x", b"", "of no known format: it begins with nothing: it is empty"),
        ("config.json", b"{\"task\": 1}", "of no known format: it begins with {\\\"task\\\":"),
        ("list.json", b"[1]", "of no known format: it begins with [1]"),
        ("book.xlsx", b"PK\x03\x04", "of no known format: it begins with PK\\x03\\x04"),
    ] {
        let error = Format::detect(Path::new(name), bytes).unwrap_err();
        assert!(matches!(error.fault, Fault::UnknownFormat { .. }));
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn every_tensor_format_returns_its_tensors() {
    let folder = tempfile::tempdir().unwrap();
    let value = dict(vec![("input.0", tensor(DType::F32, 6)), ("output.0", tensor(DType::I64, 4))]);
    for format in [Format::Npz, Format::Pt, Format::Safetensors, Format::Acl, Format::PklLines] {
        let path = folder.path().join(format!("x.{}", format.extension()));
        file::write(&path, format, &value).unwrap();
        let opened = file::read(&path, Access::ReadOnly).unwrap();
        assert_eq!(opened.format, format);
        let mut found = content(&opened.value);
        // Safetensors puts wider elements first.
        found.sort();
        assert_eq!(found, content(&value), "{format}");
    }
    let path = folder.path().join("lone.npz");
    file::write(&path, Format::Npz, &Value::Tensor(tensor(DType::F32, 6))).unwrap();
    let opened = file::read(&path, Access::ReadOnly).unwrap();
    assert_eq!(content(&opened.value), content(&dict(vec![("arr_0", tensor(DType::F32, 6))])));

    let path = folder.path().join("x.npy");
    let lone = Value::Tensor(tensor(DType::F32, 6));
    file::write(&path, Format::Npy, &lone).unwrap();
    assert_eq!(content(&file::read(&path, Access::ReadOnly).unwrap().value), content(&lone));
}

#[test]
fn records_read_as_plain_values_and_write_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("stack.json", "{\n \"0\": [\n  [\n   \"a\"\n  ],\n  [\n   \"File x, line 1\"\n  ]\n ]\n}"),
        ("dump.pkl", "[\"Tensor_add_0_forward_input.0\", 0, [], \"torch.float32\", [2], [1.0, 0.5, NaN]]\n"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let opened = file::read(&path, Access::ReadOnly).unwrap();
        file::write(&path, opened.format, &opened.value).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn a_truncated_line_does_not_lose_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.pkl");
    std::fs::write(&path, "[\"a\", 0, [], \"torch.float32\", [2], [1, 0, 1]]\n\n[\"b\"").unwrap();
    let Value::List(lines) = file::read(&path, Access::ReadOnly).unwrap().value else { panic!("a list") };
    assert_eq!(lines.len(), 2);
    assert!(matches!(&lines[1], Value::Unread(reason) if reason.contains("line 3")), "{:?}", lines[1]);
}

#[test]
fn a_failed_write_leaves_what_was_there_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npy");
    std::fs::write(&path, "before").unwrap();
    let two = dict(vec![("a", tensor(DType::F32, 1)), ("b", tensor(DType::F32, 1))]);
    let error = file::write(&path, Format::Npy, &two).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{}: a .npy file holds one tensor, and there are 2", path.display())
    );

    let error = file::write_with(&path, |out| {
        out.write_all(b"half of it").unwrap();
        Err(Error::whole(Fault::Unsupported("stopped".to_owned())))
    });
    assert!(error.is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "before");
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["x.npy"]);
}

#[test]
fn errors_name_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npy");
    std::fs::write(&path, "junk").unwrap();
    let message = file::read(&path, Access::ReadOnly).unwrap_err().to_string();
    assert!(message.starts_with(&format!("{}: ", path.display())), "{message}");

    let message = file::read(folder.path(), Access::ReadOnly).unwrap_err().to_string();
    assert_eq!(message, format!("{}: expected a regular file, found a folder", folder.path().display()));
}

#[test]
fn a_nameless_file_is_read_and_then_gone() {
    use std::io::Write;

    let folder = tempfile::tempdir().unwrap();
    let mut file = file::nameless(folder.path()).unwrap();
    file.write_all(b"text").unwrap();
    let bytes = ulpscope_formats::Bytes::map_file(&file, Access::ReadOnly).unwrap();
    drop(file);
    assert_eq!(*bytes, *b"text");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    assert!(file::nameless(&folder.path().join("none")).is_err());
}

/// What users read of the formats: changing a row changes these, and a new format appears in them.
#[test]
fn lists_of_formats_come_from_their_rows() {
    let names: Vec<&str> = Format::ALL.into_iter().map(Format::extension).collect();
    assert_eq!(names, ["npy", "npz", "pt", "safetensors", "acl", "tfdbg", "pkl", "json"]);
    assert_eq!(Format::general_extensions(" or "), ".npy, .npz, .pt or .safetensors");
    let recorded: Vec<&str> = Format::recorded().map(Format::extension).collect();
    assert_eq!(recorded, ["pt", "npy", "safetensors"]);
    for name in ["npy", "npz", "pt", "pth", "ckpt", "safetensors", "bin", "acl", "pkl", "pickle", "NPY"] {
        assert!(Format::may_hold_tensors(name), "{name}");
    }
    for name in ["json", "txt", "csv", ""] {
        assert!(!Format::may_hold_tensors(name), "{name}");
    }
}

/// No format is accepted and then not written, read or found by its name.
#[test]
fn every_format_of_tensors_is_written_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    for format in Format::ALL.into_iter().filter(|format| format.holds() != Holds::NoTensors) {
        let path = folder.path().join("one").with_extension(format.extension());
        assert_eq!(Format::of_extension(&path), Some(format));
        let written = tensor(DType::F32, 5);
        file::write(&path, format, &Value::Tensor(written.clone())).unwrap();
        let opened = file::read(&path, Access::ReadOnly).unwrap();
        assert_eq!(opened.format, format);
        let [(_, dtype, shape, bytes)] = &content(&opened.value)[..] else { panic!("{format:?}") };
        let expected = (DType::F32, vec![5], written.view().to_packed().into_owned());
        assert_eq!((*dtype, shape.clone(), bytes.clone()), expected, "{format:?}");
    }
}

/// The path of a single tensor needs no container around it.
#[test]
fn a_recorded_format_holds_a_tensor_alone() {
    for format in Format::recorded() {
        let alone = Value::Tensor(tensor(DType::F32, 1));
        assert!(file::left_out(format, &alone).is_empty(), "{format:?}");
        assert_ne!(format.holds(), Holds::NoTensors, "{format:?}");
        assert!(format.records().is_none(), "{format:?}");
    }
}
