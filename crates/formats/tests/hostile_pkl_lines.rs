//! JSON-lines dumps with one bad line (tests/hostile/make_pkl_lines.py): it is named, in these words, and the
//! other lines are read.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use ulpscope_formats::{Access, Bytes, pkl_lines};

/// File, tensors that are read all the same, name of the bad line, what is said of it.
const ROWS: [(&str, usize, &str, &str); 22] = [
    ("an_object", 2, "unreadable line", "line 2, byte 67: expected a list, found an object"),
    ("bare_text", 2, "unreadable line", "line 2, byte 66: expected a value, found 'T'"),
    ("deep_values", 2, "unreadable line", "line 2, byte 1120: nested deeper than 1024 levels"),
    ("dtype_is_null", 2, "line 2", "not a line of torch_npu.hooks"),
    (
        "huge_integer",
        2,
        "unreadable line",
        "line 2, byte 98: expected an integer that a double can hold, found an integer of 400 digits",
    ),
    (
        "lists_among_values",
        2,
        "1_Torch_bad_forward_output",
        "line 2: expected numbers, found a value that is none, or that no float holds exactly",
    ),
    ("many_elements", 2, "line 2", "not a line of torch_npu.hooks"),
    ("negative_shape", 2, "line 2", "not a line of torch_npu.hooks"),
    ("not_utf8", 2, "unreadable line", "line 2, byte 76: expected UTF-8 text, found byte 0xff"),
    ("nul_bytes", 2, "unreadable line", "line 2, byte 66: expected a value, found byte 0x00"),
    (
        "shape_of_absurd_size",
        2,
        "1_Torch_bad_forward_output",
        "line 2: expected 1000000000000 values for the shape [1000000000000], found 1",
    ),
    ("shape_of_floats", 2, "line 2", "not a line of torch_npu.hooks"),
    (
        "shape_overflows",
        2,
        "1_Torch_bad_forward_output",
        "line 2: expected a shape that fits an address, found [4611686018427387904, 4611686018427387904]",
    ),
    ("shape_with_a_zero", 2, "line 2", "not a line of torch_npu.hooks"),
    (
        "text_among_values",
        2,
        "1_Torch_bad_forward_output",
        "line 2: expected numbers, found a value that is none, or that no float holds exactly",
    ),
    (
        "too_few_values",
        2,
        "1_Torch_bad_forward_output",
        "line 2: expected 2 values for the shape [2], found 1",
    ),
    (
        "too_many_values",
        2,
        "1_Torch_bad_forward_output",
        "line 2: expected 4 values for the shape [2, 2], found 5",
    ),
    (
        "torn_in_a_number",
        1,
        "unreadable line",
        "line 2, byte 100: truncated: expected \",\" or \"]\", found the end",
    ),
    (
        "torn_in_the_middle",
        2,
        "unreadable line",
        "line 2, byte 106: truncated: expected a digit after the decimal point, found the end",
    ),
    (
        "torn_last_line",
        1,
        "unreadable line",
        "line 2, byte 106: truncated: expected a digit after the decimal point, found the end",
    ),
    (
        "two_lists_in_a_line",
        2,
        "unreadable line",
        "line 2, byte 132: expected nothing after the value, found '['",
    ),
    (
        "unknown_dtype",
        2,
        "1_Torch_bad_forward_output",
        "line 2: expected the name of a torch dtype, found \"torch.float31\"",
    ),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/hostile/pkl_lines")
}

/// The files of the folder, without their suffix, sorted.
fn files(suffix: &str) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|name| name.strip_suffix(suffix).unwrap().to_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn the_bad_line_is_named_and_the_others_are_read() {
    for (name, tensors, bad, expected) in ROWS {
        let bytes = Bytes::map(&folder().join(name).with_extension("pkl"), Access::ReadOnly).unwrap();
        let value = pkl_lines::to_value(&bytes).unwrap();
        assert_eq!(value.tensors().len(), tensors, "{name}");
        assert_eq!(value.unread(), [(bad.to_owned(), expected)], "{name}");
    }
}

#[test]
fn every_file_has_its_row() {
    assert_eq!(files(".pkl"), ROWS.map(|(name, ..)| name));
}
