//! Files of tests/hostile/npz, by name, with the expected error of each.
#![allow(clippy::unwrap_used)]

mod hostile;

use ulpscope_formats::npz;

const CASES: &[(&str, &str)] = &[
    ("array_cut", "x.npy, byte 128: truncated: expected 16 bytes of float32 elements of shape [4], found 15"),
    (
        "array_huge",
        "x.npy, byte 128: truncated: expected 4000000000000 bytes of float32 elements of shape [1000000000000], found 16",
    ),
    ("array_of_nothing", r#"x.npy: not a .npy file (\x93NUMPY): it begins with nothing (the file is empty)"#),
    ("array_without_magic", r#"x.npy: not a .npy file (\x93NUMPY): it begins with "not an a""#),
    (
        "bomb_beyond_what_deflate_can_do",
        "x.npy: size of the inflated entry of 4294901760 exceeds the limit of 162024",
    ),
    (
        "bomb_larger_than_it_says",
        "x.npy: expected 1024 bytes of deflated data, found File is larger than its declared uncompressed size",
    ),
    (
        "cut_in_the_directory",
        "expected a complete zip archive, found a cut or damaged one (invalid Zip archive: Could not find EOCD)",
    ),
    ("empty", "not an .npz file (a zip archive): it begins with nothing (the file is empty)"),
    ("name_absolute", r#""/x.npy" leads out of its folder; expected a plain relative name"#),
    ("name_with_parent", r#""../x.npy" leads out of its folder; expected a plain relative name"#),
    ("symlink", r#""x.npy" leads out of its folder; expected a plain relative name"#),
    ("two_arrays_of_one_name", "expected one archive entry per name, found two entries of the same name"),
    ("wrong_magic", r#"not an .npz file (a zip archive): it begins with "\x93NUMPY\x01\x00""#),
];

#[test]
fn every_hostile_file_is_refused_for_its_reason() {
    let files = hostile::files("npz", ".npz", CASES.iter().map(|(name, _)| *name));
    for ((name, expected), bytes) in CASES.iter().zip(files) {
        let error = npz::read(&bytes).unwrap_err();
        assert_eq!(error.to_string(), *expected, "{name}");
    }
}
