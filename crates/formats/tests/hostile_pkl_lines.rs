//! JSON-lines dumps with one bad line (tests/hostile/make_pkl_lines.py): it is named with this message, and the
//! other lines are read.
#![allow(clippy::unwrap_used)]

mod hostile;

use ulpscope_formats::pkl_lines;

/// File, number of tensors that are still read, name of the bad line, its error.
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
        "line 2: expected numbers, found a value that is not a number or not exact in any float type",
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
        "line 2: expected numbers, found a value that is not a number or not exact in any float type",
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

#[test]
fn the_bad_line_is_named_and_the_others_are_read() {
    let files = hostile::files("pkl_lines", ".pkl", ROWS.map(|(name, ..)| name));
    for ((name, tensors, bad, expected), bytes) in ROWS.into_iter().zip(files) {
        let value = pkl_lines::to_value(&bytes).unwrap();
        assert_eq!(value.tensors().len(), tensors, "{name}");
        assert_eq!(value.unread(), [(bad.to_owned(), expected)], "{name}");
    }
}
