//! Hostile `.safetensors` files (tests/hostile/make_safetensors.py).
#![allow(clippy::unwrap_used)]

mod hostile;

use ulpscope_formats::safetensors;

const REFUSED: [(&str, &str); 37] = [
    (
        "array",
        "byte 8: expected a JSON header of names, each with dtype, shape and data_offsets, found invalid type: sequence, expected an object of tensors",
    ),
    (
        "bytes_after_the_last",
        "byte 69: expected the file to end with the last tensor, 8 bytes after the header, found 9 bytes after it",
    ),
    (
        "bytes_overflow",
        "tensor \"a\": expected a shape that fits the address space, found [4611686018427387904, 1]",
    ),
    ("cut_in_length", "byte 0: truncated: expected 8 bytes of header length, found 3"),
    (
        "data_cut",
        "tensor \"a\": truncated: expected elements in data_offsets [0, 8], found 7 bytes after the header",
    ),
    (
        "dimension_negative",
        "byte 42: expected a JSON header of names, each with dtype, shape and data_offsets, found invalid value: integer `-2`, expected u64",
    ),
    (
        "dimension_of_2_to_64",
        "byte 60: expected a JSON header of names, each with dtype, shape and data_offsets, found invalid type: floating point `1.8446744073709552e+19`, expected u64",
    ),
    ("dimensions_65", "tensor \"a\": number of dimensions of 65 exceeds the limit of 64"),
    (
        "dtype_is_a_number",
        "byte 24: expected a JSON header of names, each with dtype, shape and data_offsets, found invalid type: integer `4`, expected a string",
    ),
    ("empty", "byte 0: truncated: expected 8 bytes of header length, found 0"),
    (
        "field_twice",
        "byte 33: expected a JSON header of names, each with dtype, shape and data_offsets, found duplicate field `dtype`",
    ),
    ("header_cut", "byte 8: truncated: expected 64 bytes of header, found 19"),
    (
        "header_empty",
        "byte 8: expected a JSON header of names, each with dtype, shape and data_offsets, found broken JSON (EOF while parsing a value)",
    ),
    ("length_of_2_to_64", "byte 0: header length of 18446744073709551615 exceeds the limit of 100000000"),
    ("length_over_the_cap", "byte 0: header length of 100000001 exceeds the limit of 100000000"),
    (
        "mark_of_a_named_type",
        "tensor \"a\": expected hifloat8 or complex128 in its metadata entry ulpscope.dtype.…, found \"float16\"",
    ),
    (
        "mark_of_no_such_type",
        "tensor \"a\": expected hifloat8 or complex128 in its metadata entry ulpscope.dtype.…, found \"os.system\"",
    ),
    (
        "mark_on_a_scalar",
        "tensor \"a\": expected complex128 stored as F64 with a last dimension of 2, found float64 of shape []",
    ),
    ("mark_on_wrong_bytes", "tensor \"a\": expected hifloat8 stored as U8, found float32 of shape [2]"),
    (
        "mark_on_wrong_shape",
        "tensor \"a\": expected complex128 stored as F64 with a last dimension of 2, found float64 of shape [1]",
    ),
    (
        "metadata_a_list",
        "byte 24: expected a JSON header of names, each with dtype, shape and data_offsets, found invalid type: sequence, expected metadata of text to text",
    ),
    (
        "metadata_a_number",
        "byte 35: expected a JSON header of names, each with dtype, shape and data_offsets, found invalid type: integer `3`, expected a string",
    ),
    ("name_twice", "tensor \"a\": expected each name once, found a second tensor of this name"),
    (
        "no_dtype",
        "byte 50: expected a JSON header of names, each with dtype, shape and data_offsets, found missing field `dtype`",
    ),
    (
        "not_json",
        "byte 8: expected a JSON header of names, each with dtype, shape and data_offsets, found broken JSON (expected value)",
    ),
    (
        "not_utf_8",
        "byte 10: expected a JSON header of names, each with dtype, shape and data_offsets, found broken JSON (invalid unicode code point)",
    ),
    (
        "offset_a_float",
        "byte 67: expected a JSON header of names, each with dtype, shape and data_offsets, found invalid type: floating point `8.5`, expected u64",
    ),
    (
        "offsets_overlap",
        "tensor \"b\": expected data_offsets to begin where the tensor before ends, at 8, found 4",
    ),
    (
        "offsets_past_the_end",
        "tensor \"a\": truncated: expected elements in data_offsets [0, 9223372036854775808], found 8 bytes after the header",
    ),
    (
        "offsets_reversed",
        "tensor \"b\": expected data_offsets that do not end before they begin, found [8, 0]",
    ),
    (
        "offsets_three",
        "byte 68: expected a JSON header of names, each with dtype, shape and data_offsets, found broken JSON (trailing characters)",
    ),
    (
        "offsets_with_a_hole",
        "tensor \"b\": expected data_offsets to begin where the tensor before ends, at 8, found 16",
    ),
    (
        "second_line",
        "byte 25: expected a JSON header of names, each with dtype, shape and data_offsets, found invalid type: integer `1`, expected a string",
    ),
    (
        "shape_and_offsets_differ",
        "tensor \"a\": expected 12 bytes for F32 of shape [3], found data_offsets of 8 bytes",
    ),
    (
        "shape_overflows",
        "tensor \"a\": expected a shape that fits the address space, found [4294967296, 4294967296, 2]",
    ),
    (
        "tensor_is_a_number",
        "byte 14: expected a JSON header of names, each with dtype, shape and data_offsets, found invalid type: integer `1`, expected an object with dtype, shape and data_offsets",
    ),
    (
        "words_after_the_header",
        "byte 11: expected a JSON header of names, each with dtype, shape and data_offsets, found broken JSON (trailing characters)",
    ),
];

#[test]
fn every_hostile_file_is_refused_with_this_message() {
    let files = hostile::files("safetensors", ".safetensors", REFUSED.map(|(name, _)| name));
    for ((name, expected), bytes) in REFUSED.into_iter().zip(files) {
        let error = safetensors::read(&bytes).expect_err(name);
        assert_eq!(error.to_string(), expected, "{name}");
    }
}

fn with_header(header: &[u8], data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header, data].concat()
}

#[test]
fn nesting_a_million_levels_deep() {
    let deep = "[".repeat(1_000_000);
    let unknown_field = format!("{{\"a\":{{\"later\":{deep}");
    let error = safetensors::read(&with_header(unknown_field.as_bytes(), &[]).into()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "byte 1000021: expected a JSON header of names, each with dtype, shape and data_offsets, \
         found broken JSON (EOF while parsing a list)"
    );
    let shape = format!("{{\"a\":{{\"shape\":{deep}");
    let error = safetensors::read(&with_header(shape.as_bytes(), &[]).into()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "byte 22: expected a JSON header of names, each with dtype, shape and data_offsets, \
         found invalid type: sequence, expected u64"
    );
}

#[test]
fn every_prefix_of_a_good_file_is_an_error_and_none_panics() {
    let header = br#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
    let file = with_header(header, &[0; 8]);
    for length in 0..file.len() {
        safetensors::read(&file[..length].to_vec().into()).expect_err("a cut file");
    }
    safetensors::read(&file.into()).unwrap();
}

#[test]
fn names_of_a_megabyte_are_cut_in_messages() {
    const LIMIT: usize = 1_000;
    let name = "n".repeat(1 << 20);
    let tensor = |dtype: &str, end: usize| {
        format!(r#"{{"{name}":{{"dtype":"{dtype}","shape":[2],"data_offsets":[0,{end}]}}}}"#)
    };
    let refused = [
        tensor("F32", 7),
        format!(r#"{{"a":{{"dtype":"F32","shape":"{name}"}}}}"#),
        format!(
            r#"{{"__metadata__":{{"ulpscope.dtype.a":"{name}"}},"a":{{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}}}"#
        ),
    ];
    for header in refused {
        let said =
            safetensors::read(&with_header(header.as_bytes(), &[0; 8]).into()).unwrap_err().to_string();
        assert!(said.len() < LIMIT, "{} bytes: {}…", said.len(), &said[..LIMIT]);
    }
    let value = safetensors::read(&with_header(tensor(&name, 8).as_bytes(), &[0; 8]).into()).unwrap();
    assert!(value.unread()[0].1.len() < LIMIT);
    assert!(safetensors::left_out(&value)[0].len() < LIMIT);
    let mut file = Vec::new();
    let said = ulpscope_formats::pt::write(&value, &mut file).unwrap_err().to_string();
    assert!(said.len() < LIMIT);
}
