//! Hostile dump files (tests/hostile/make_acl.py).
#![allow(clippy::unwrap_used)]

mod hostile;

use std::path::PathBuf;

use ulpscope_formats::acl;

const REFUSED: [(&str, &str); 47] = [
    (
        "bare_cut",
        "byte 8: truncated: expected a header of 3038269692850537226 bytes, or a protobuf message that holds the elements itself, found 17 bytes",
    ),
    (
        "bare_without_tensors",
        "byte 8: truncated: expected a header of 8000699920538469130 bytes, or a protobuf message that holds the elements itself, found 7 bytes",
    ),
    ("bytes_overflow", "output.0: expected a shape that fits the address space, found [4611686018427387904]"),
    ("cut_in_length", "byte 0: truncated: expected 8 bytes of header length, found 7"),
    ("dimensions_65", "byte 16: expected at most 64 dimensions, found more"),
    ("dimensions_of_fixed_width", "byte 12: expected numbers for dimensions, found a fixed-width number"),
    ("empty", "byte 0: truncated: expected 8 bytes of header length, found 0"),
    ("field_number_of_30_bits", "byte 8: expected a field number from 1 to 2^29-1, found 536870912"),
    ("field_number_zero", "byte 8: expected a field number from 1 to 2^29-1, found 0"),
    (
        "field_of_2_to_63",
        "byte 24: truncated: expected a field of 9223372036854775808 bytes, found 0 to the end of its message",
    ),
    (
        "field_past_the_header",
        "byte 15: truncated: expected a field of 127 bytes, found 0 to the end of its message",
    ),
    ("fixed_field_cut", "byte 10: truncated: expected a field of 8 bytes, found 7 to the end of its message"),
    ("garbage", "byte 8: expected a number of at most 64 bits, found a longer one"),
    ("group", "byte 13: expected wire type 0, 1, 2 or 5, found 3"),
    ("input_cut", "input.0: truncated: expected 8 bytes from byte 27, found 7"),
    (
        "length_of_2_to_64",
        "byte 8: truncated: expected a header of 18446744073709551615 bytes, or a protobuf message that holds the elements itself, found 3 bytes",
    ),
    ("length_of_zero", "byte 0: expected a header length of at least 1, found 0: the dump is empty"),
    (
        "length_of_zero_with_data",
        "byte 0: expected a header length of at least 1, found 0: the dump is empty",
    ),
    (
        "length_past_the_end",
        "byte 8: truncated: expected a header of 1000000 bytes, or a protobuf message that holds the elements itself, found 3 bytes",
    ),
    (
        "nano_bytes_after_the_last",
        "byte 76: expected the file to end with its last tensor, found 1 more bytes",
    ),
    ("nano_count_of_2_to_32", "byte 24: number of tensors of 4294967295 exceeds the limit of 16384"),
    ("nano_count_too_large", "byte 68: truncated: expected 4 bytes of data type, found 0"),
    ("nano_count_too_small", "byte 28: expected the record to end after 0 tensors, found 40 more bytes"),
    ("nano_cut_in_record_length", "byte 20: truncated: expected 4 bytes of a record's length, found 1"),
    ("nano_cut_in_tag", "byte 16: truncated: expected 4 bytes of a record's tag, found 2"),
    ("nano_cut_in_version", "byte 12: truncated: expected 4 bytes of the version, found 1"),
    ("nano_data_cut", "input.0: truncated: expected 8 bytes from byte 68, found 7"),
    ("nano_dimension_cut", "byte 84: truncated: expected 8 bytes of a dimension, found 1"),
    ("nano_dimensions_65", "byte 76: number of dimensions of 65 exceeds the limit of 64"),
    ("nano_record_past_the_header", "byte 24: truncated: expected 5 bytes of a record, found 4"),
    ("nano_records_past_the_tensor", "byte 68: truncated: expected 99 bytes of a tensor's records, found 0"),
    ("nano_without_count", "byte 24: truncated: expected 4 bytes of the number of tensors, found 2"),
    ("number_cut", "byte 14: truncated: expected the rest of a number, found the end of its message"),
    ("number_of_70_bits", "byte 14: expected a number of at most 64 bits, found a longer one"),
    ("output_cut", "output.0: truncated: expected 8 bytes from byte 35, found 7"),
    ("output_is_a_number", "byte 8: expected bytes for output, found a number"),
    ("ranges_65", "byte 139: number of dimensions of 65 exceeds the limit of 64"),
    (
        "shape_larger_than_its_data",
        "output.0: truncated: expected 12 bytes of float32 elements of shape [3], found 8",
    ),
    (
        "shape_overflows",
        "output.0: expected a shape that fits the address space, found [4294967296, 4294967296, 4294967296]",
    ),
    (
        "shape_past_its_tensor",
        "byte 12: truncated: expected a field of 32 bytes, found 0 to the end of its message",
    ),
    ("size_is_text", "byte 10: expected a number for size, found bytes"),
    ("size_of_2_to_64", "output.0: truncated: expected 18446744073709551615 bytes from byte 30, found 8"),
    ("sizes_wrap_around", "output.1: truncated: expected 18446744073709551608 bytes from byte 51, found 0"),
    (
        "text_file",
        "byte 8: truncated: expected a header of 8453027202830724681 bytes, or a protobuf message that holds the elements itself, found 38 bytes",
    ),
    ("version_is_a_number", "byte 8: expected bytes for version, found a number"),
    ("wire_type_7", "byte 13: expected wire type 0, 1, 2 or 5, found 7"),
    ("workspace_cut", "space.0: truncated: expected 4 bytes from byte 20, found 3"),
];

#[test]
fn every_hostile_file_or_tensor_is_refused_with_this_message() {
    let files = hostile::files("acl", ".dump", REFUSED.map(|(name, _)| name));
    for ((name, expected), bytes) in REFUSED.into_iter().zip(files) {
        let said = match acl::read(&bytes) {
            Err(error) => error.to_string(),
            Ok(dump) => {
                let value = dump.to_value();
                let (path, reason) = value.unread().first().cloned().expect(name);
                format!("{path}: {reason}")
            }
        };
        assert_eq!(said, expected, "{name}");
    }
}

fn with_header(header: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header].concat()
}

#[test]
fn a_header_of_empty_entries_is_refused_early() {
    for (field, what) in
        [(0x1a, "outputs"), (0x22, "inputs"), (0x2a, "buffers"), (0x3a, "attributes"), (0x42, "workspaces")]
    {
        let header = [field, 0].repeat(1_000_000);
        let error = acl::read(&with_header(&header).into()).unwrap_err();
        assert_eq!(error.to_string(), format!("byte 32776: {what} of 16385 exceeds the limit of 16384"));
    }
}

#[test]
fn a_million_packed_dimensions_are_refused_early() {
    let length = [0xc0, 0x84, 0x3d];
    let dims = [&[0x0a][..], &length, &[1; 1_000_000]].concat();
    let wrapped = |field: u8, inner: &[u8]| {
        let mut size = Vec::new();
        let mut left = inner.len();
        while left >= 0x80 {
            size.push(left as u8 | 0x80);
            left >>= 7;
        }
        size.push(left as u8);
        [&[field][..], &size, inner].concat()
    };
    let header = wrapped(0x1a, &wrapped(0x1a, &dims));
    let error = acl::read(&with_header(&header).into()).unwrap_err();
    assert_eq!(error.to_string(), "byte 16: expected at most 64 dimensions, found more");
}

#[test]
fn every_prefix_of_a_good_file_says_what_is_missing_and_none_panics() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/acl");
    for name in ["full", "nano"] {
        let file = std::fs::read(folder.join(format!("{name}.dump"))).unwrap();
        let unread = acl::read(&file.clone().into()).unwrap().to_value().unread().len();
        for length in 0..file.len() {
            // Parts before the end are read; the part that is cut says so.
            if let Ok(dump) = acl::read(&file[..length].to_vec().into()) {
                let value = dump.to_value();
                assert!(value.unread().len() > unread, "{name}: {length} bytes");
                let last = value.unread().last().cloned().expect(name).1;
                assert!(last.starts_with("truncated: expected "), "{name}: {length} bytes: {last}");
            }
        }
    }
}
