//! Memory follows from the sizes of the files, whatever is in them: 16 × the size + 64 MiB each, and the command itself.
#![cfg(target_os = "linux")]

use std::path::PathBuf;

use ulpscope_formats::Value;

use crate::peak::{self, Peak};
use crate::workspace::{Workspace, dict, floats};

/// The command with its threads and buffers.
const COMMAND: u64 = 40 << 20;

/// Runs the command on a file of the workspace, which must stay within the file's budget.
fn within_budget(place: &Workspace, args: &[&str], file: &str) -> Peak {
    let size = std::fs::metadata(place.path(file)).unwrap().len();
    let ran = peak::run(place.command(args));
    let budget = 16 * size + (64 << 20) + COMMAND;
    assert!(ran.memory <= budget, "{args:?}: {} of {budget} bytes: {}", ran.memory, ran.err);
    ran
}

fn hostile(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/hostile").join(name)
}

/// A file of torch's older form with this object in it, and no storages.
fn put_legacy(place: &Workspace, name: &str, object: &[u8]) {
    let start = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}.";
    std::fs::write(place.path(name), [&start[..], b"\x80\x02](", object, b"e.", b"]."].concat()).unwrap();
}

#[test]
fn a_deflated_pickle_of_empty_lists() {
    let place = Workspace::new();
    std::fs::copy(hostile("pt/pickle_deflated_lists.pt"), place.path("x.pt")).unwrap();
    let ran = within_budget(&place, &["stats", "x.pt"], "x.pt");
    assert_eq!(ran.code, 2);
    let expected = "error: x.pt: archive/data.pkl, byte ";
    assert!(ran.err.starts_with(expected) && ran.err.contains("objects of a pickle need "), "{}", ran.err);
    assert!(
        ran.err.ends_with("(16 × its size + 64 MiB): store numbers as tensors, or split the file\n"),
        "{}",
        ran.err
    );
}

#[test]
fn pickles_of_many_small_objects() {
    let place = Workspace::new();
    // Numbers, memos, texts, lists of one item, references to the first item, marks.
    let objects: [&[u8]; 6] = [b"K\x01", b"N\x94", b"\x8c\x01a", b"]Na", b"2", b"(l"];
    for object in objects {
        let start = if object == b"2" { b"N".to_vec() } else { Vec::new() };
        put_legacy(&place, "x.pt", &[start, object.repeat((24 << 20) / object.len())].concat());
        let ran = within_budget(&place, &["stats", "x.pt"], "x.pt");
        assert_eq!(ran.code, 2, "{object:?}: {}", ran.err);
    }
}

#[test]
fn plain_values_in_honest_numbers_are_read() {
    let place = Workspace::new();
    // The state of a sampler: a million indices.
    put_legacy(
        &place,
        "x.pt",
        &(0..1_000_000_u32)
            .flat_map(|i| [vec![b'J'], i.to_le_bytes().to_vec()].concat())
            .collect::<Vec<u8>>(),
    );
    let ran = within_budget(&place, &["stats", "x.pt"], "x.pt");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn one_long_name_among_many() {
    let place = Workspace::new();
    let mut header =
        format!("{{\"{}\":{{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}", "x".repeat(100_000));
    for number in 0..20_000 {
        header += &format!(",\"{number}\":{{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}");
    }
    header += "}";
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
    std::fs::write(place.path("x.safetensors"), &bytes).unwrap();
    let ran = within_budget(&place, &["stats", "x.safetensors"], "x.safetensors");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out_bytes < 8 * bytes.len() as u64, "{} bytes of output", ran.out_bytes);
}

#[test]
fn a_header_of_many_tensors() {
    let place = Workspace::new();
    let entry =
        |number: u32| format!("\"{number}\":{{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}");
    let header = format!("{{{}}}", (0..200_000).map(entry).collect::<Vec<_>>().join(","));
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
    std::fs::write(place.path("x.safetensors"), bytes).unwrap();
    for args in [&["stats", "x.safetensors"][..], &["stats", "x.safetensors", "--json"]] {
        let ran = within_budget(&place, args, "x.safetensors");
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    }
}

#[test]
fn a_sheet_with_one_far_column() {
    let place = Workspace::new();
    std::fs::copy(hostile("sheet/far_column.xlsx"), place.path("x.xlsx")).unwrap();
    let ran = within_budget(&place, &["merge", "x.xlsx"], "x.xlsx");
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("bytes of memory (16 × the file's size + 64 MiB), found "), "{}", ran.err);
}

#[test]
fn a_result_of_nested_lists() {
    let place = Workspace::new();
    let lists = "[[[]]],".repeat(4 << 20);
    let text = format!("{{\"schema\":\"ulpscope.compare/1\",\"explanation\":\"x\",\"ranks\":[{lists}[]]}}");
    place.put_text("result.json", &text);
    let ran = within_budget(&place, &["explain", "result.json"], "result.json");
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("result.json: values of a JSON document need "), "{}", ran.err);
}

#[test]
fn one_call_of_more_than_64_mib() {
    let place = Workspace::new();
    let entry = format!(r#"{{"type": "str", "value": "{}"}}"#, "x".repeat(1000));
    let entries = vec![entry; 70_000].join(", ");
    let call = format!(
        r#""Functional.cat.0.forward": {{"input_args": [[{entries}]], "input_kwargs": {{}}, "output": []}}"#
    );
    place.put_text("dump.json", &format!(r#"{{"task": "statistics", "level": "L1", "data": {{{call}}}}}"#));
    let ran = within_budget(&place, &["ls", "dump.json"], "dump.json");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn statistics_of_many_tensors_are_streamed() {
    let place = Workspace::new();
    let names: Vec<String> = (0..50).map(|number| format!("tensor.{number}")).collect();
    let tensors: Vec<(&str, Value)> =
        names.iter().map(|name| (name.as_str(), Value::Tensor(floats(&[2], &[1.0, 2.0])))).collect();
    let tensors = dict(&tensors);
    for number in 0..600 {
        place.put(&format!("d/{number}.safetensors"), &tensors);
    }
    let ran = peak::run(place.command(&["stats", "d", "--json"]));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out_bytes > 5 << 20, "{} bytes of output", ran.out_bytes);
    assert!(ran.memory < COMMAND, "{} bytes of memory", ran.memory);
}

/// Graphs of hundreds of megabytes are usual: weights and sources of kernels in them are passed over, not kept.
#[test]
fn a_graph_takes_less_memory_than_its_file() {
    let place = Workspace::new();
    let weight = "\\000\\074".repeat(4000);
    let mut text = String::from("graph { name: \"g\"\n");
    for at in 0..4000 {
        text += &format!(
            "op {{ name: \"layer{at}/conv\" type: \"Conv2D\" input: \"layer{at}/w:0\" \
             attr {{ key: \"value\" value {{ t {{ data: \"{weight}\" }} }} }} output_desc {{ dtype: DT_FLOAT16 }} }}\n"
        );
    }
    text += "}\n";
    std::fs::write(place.path("ge_proto_00000001_Build.txt"), &text).unwrap();
    let ran = peak::run(place.command(&["graph", "ls", "ge_proto_00000001_Build.txt"]));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let size = text.len() as u64;
    assert!(size > 120_000_000, "{size}");
    assert!(ran.memory < size / 2 + COMMAND, "{} bytes for a graph of {size}", ran.memory);
}
