//! Hostile `.npy` files (tests/hostile/make_npy.py): each is refused with this message.
#![allow(clippy::unwrap_used)]

mod hostile;

use ulpscope_formats::npy;

const REFUSED: [(&str, &str); 61] = [
    ("backslash_at_the_end", "byte 20: expected a closing quote, found the end of the header"),
    (
        "big_endian_data_cut",
        "byte 67: truncated: expected 48 bytes of float64 elements of shape [2, 3], found 24",
    ),
    ("byte_strings", "header key descr: an array of byte strings, descr '|S16'; expected numbers"),
    (
        "bytes_overflow",
        "byte 84: truncated: expected 147573952589676412912 bytes of complex128 elements of shape [9223372036854775807], found 24",
    ),
    ("call_in_the_header", "byte 25: expected ',' or '}' after a header value, found \".upper(), 'fortr\""),
    ("code_empty", "header key descr: expected a dtype such as '<f4', found ''"),
    (
        "code_in_the_header",
        "byte 20: expected a string, a number, True, False, a tuple or a list, found \"__import__('os')\"",
    ),
    ("code_not_ascii", "header key descr: expected a dtype such as '<f4', found '��'"),
    (
        "code_of_huge_size",
        "header key descr: expected a dtype such as '<f4', found '<f99999999999999999999999'",
    ),
    ("code_with_a_sign", "header key descr: expected a dtype such as '<f4', found '<f+4'"),
    ("code_without_size", "header key descr: expected a dtype such as '<f4', found '<'"),
    ("cut_in_header", "byte 10: truncated: expected 57 bytes of header, found 30"),
    ("cut_in_length", "byte 8: truncated: expected 2 bytes of header length, found 1"),
    ("cut_in_length_2", "byte 8: truncated: expected 4 bytes of header length, found 3"),
    ("cut_in_magic", "not a .npy file (\\x93NUMPY): it begins with \"\\x93NUM\""),
    ("cut_in_version", "byte 6: truncated: expected 2 bytes of version, found 1"),
    ("data_cut", "byte 67: truncated: expected 24 bytes of float32 elements of shape [2, 3], found 23"),
    ("data_missing", "byte 67: truncated: expected 24 bytes of float32 elements of shape [2, 3], found 0"),
    ("dates", "header key descr: an array of dates, descr '<M8[ns]'; expected numbers"),
    ("descr_is_a_number", "header key descr: expected a dtype such as '<f4' for descr, found 4"),
    ("descr_is_none", "header key descr: expected a dtype such as '<f4' for descr, found None"),
    ("dimension_a_float", "byte 62: expected ',' or ')' in a tuple, found \".0, 3)}\""),
    ("dimension_negative", "byte 60: expected dimensions from 0 to 2^64-1, found -3"),
    ("dimension_of_100_digits", "byte 61: expected an integer of 1 to 38 digits, found 100 digits"),
    ("dimension_of_2_to_64", "byte 60: expected dimensions from 0 to 2^64-1, found 18446744073709551616"),
    ("dimension_of_text", "byte 60: expected dimensions from 0 to 2^64-1, found '2'"),
    ("dimensions_65", "byte 60: number of dimensions of 65 exceeds the limit of 64"),
    ("empty", "not a .npy file (\\x93NUMPY): it begins with nothing (the file is empty)"),
    ("field_of_1000_letters", "byte 22: length of a text of 1000 exceeds the limit of 256"),
    (
        "field_of_a_known_type",
        "header key descr: a structured array with the field \"float32\" of type \"<u4\"; expected one number per element: save the field on its own",
    ),
    ("header_of_4_gib", "byte 8: header length of 4294967295 exceeds the limit of 65535"),
    ("key_twice", "byte 36: expected each header key once, found a second \"descr\""),
    (
        "long_double",
        "header key descr: extended precision, descr '<f16', differs from machine to machine; save it as float64 or complex128",
    ),
    (
        "lying_field",
        "header key descr: a structured array with the field \"float8_e4m3fn\" of type \"<f4\"; expected one number per element: save the field on its own",
    ),
    ("no_descr", "byte 10: expected a header with the key descr, found none"),
    ("no_order", "byte 10: expected a header with the key fortran_order, found none"),
    ("no_shape", "byte 10: expected a header with the key shape, found none"),
    ("no_such_code", "header key descr: expected a dtype such as '<f4', found '<f3'"),
    ("not_a_dict", "byte 10: expected '{' at the start of the header, found \"['descr', '<f4']\""),
    ("number_for_a_key", "byte 11: expected a quoted header key, found another kind of value"),
    (
        "object_array",
        "header key descr: an object array: its elements are a Python pickle, which is never unpickled here; save it again as an array of numbers",
    ),
    (
        "object_field",
        "header key descr: an object array: its elements are a Python pickle, which is never unpickled here; save it again as an array of numbers",
    ),
    (
        "only_an_object_field",
        "header key descr: an object array: its elements are a Python pickle, which is never unpickled here; save it again as an array of numbers",
    ),
    (
        "opaque_byte",
        "header key descr: one opaque byte per element, descr '|V1': NumPy writes every 8-bit float and 4-bit integer of ml_dtypes so, and the file does not say which it is; save the tensor as .safetensors or .pt",
    ),
    ("opaque_bytes", "header key descr: an array of opaque bytes, descr '|V7'; expected numbers"),
    ("order_is_a_number", "byte 44: expected True or False for fortran_order, found 1"),
    ("shape_is_a_list", "byte 60: expected a tuple of dimensions for shape, found [2, 3]"),
    ("shape_is_a_number", "byte 60: expected a tuple of dimensions for shape, found 6"),
    (
        "shape_overflows",
        "header key shape: shape [4294967296, 4294967296, 4294967296] with strides [9223372036854775807, 17179869184, 4] overflows the address space",
    ),
    (
        "structured",
        "header key descr: a structured array, descr [('x', '<f4', (2,))]; expected one number per element: save its fields one by one",
    ),
    (
        "structured_with_100_fields",
        "header key descr: a structured array, descr [('field', '<f4'), ('field', '<f4'), ('field', '<f4'), ('field', '<f4'), ('field', '<f4'), ('field', '<f4'), ('field', '…; expected one number per element: save its fields one by one",
    ),
    (
        "subarray",
        "header key descr: a structured array, descr ('<f4', (3,)); expected one number per element: save its fields one by one",
    ),
    ("text", "header key descr: an array of text, descr '<U4'; expected numbers"),
    ("time_spans", "header key descr: an array of time spans, descr '<m8[us]'; expected numbers"),
    ("unclosed_dict", "byte 66: expected ',' or '}' after a header value, found the end of the header"),
    ("unclosed_text", "byte 20: expected a closing quote, found the end of the header"),
    ("unclosed_tuple", "byte 25: expected ',' or ')' in a tuple, found the end of the header"),
    ("unknown_key", "byte 35: expected only the keys descr, fortran_order and shape, found key \"mode\""),
    ("version_9_1", "byte 6: npy version 9.1; expected 1.0, 2.0 or 3.0"),
    ("words_after_the_dict", "byte 68: expected only blanks after the header's '}', found \"or True\""),
    ("wrong_magic", "not a .npy file (\\x93NUMPY): it begins with \"PK\\x03\\x04 thi\""),
];

#[test]
fn every_hostile_file_is_refused_with_this_message() {
    let files = hostile::files("npy", ".npy", REFUSED.map(|(name, _)| name));
    for ((name, expected), bytes) in REFUSED.into_iter().zip(files) {
        let error = npy::read(&bytes).expect_err(name);
        assert_eq!(error.to_string(), expected, "{name}");
    }
}

#[test]
fn nesting_as_deep_as_a_header_allows() {
    let header = [b"{'descr': '<f4', 'shape': ", "(".repeat(65_000).as_bytes()].concat();
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header);
    let error = npy::read(&file.into()).unwrap_err();
    assert_eq!(error.to_string(), "byte 69: nested deeper than 32 levels");
}

#[test]
fn every_prefix_of_a_good_file_is_an_error_and_none_panics() {
    let mut file = Vec::new();
    let data: Vec<u8> = (0..24).collect();
    npy::write(
        &ulpscope_tensor::View::contiguous(ulpscope_tensor::DType::F32, vec![2, 3], &data).unwrap(),
        &mut file,
    )
    .unwrap();
    for length in 0..file.len() {
        npy::read(&file[..length].to_vec().into()).expect_err("a cut file");
    }
    npy::read(&file.into()).unwrap();
}
