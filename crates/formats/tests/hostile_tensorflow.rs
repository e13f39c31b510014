//! Hostile events (tests/hostile/make_tensorflow.py).
#![allow(clippy::unwrap_used)]

mod hostile;

use ulpscope_formats::tensorflow::{graph_range, read_debug_tensor};

const REFUSED: [(&str, &str); 20] = [
    ("content_long", "byte 44: expected 8 bytes of 2 float32 elements, found 9"),
    ("content_short", "byte 44: expected 8 bytes of 2 float32 elements, found 7"),
    ("cut", "byte 11: truncated: expected a field of 39 bytes, found 36 to the end of its message"),
    ("dimension_unknown", "expected a shape that fits the address space, found [-1]"),
    ("dimensions_65", "byte 300: number of dimensions of 65 exceeds the limit of 64"),
    ("elements_overflow", "expected a shape that fits the address space, found [4611686018427387904, 4]"),
    ("empty", "expected an event with a tensor, found an event without a summary"),
    ("group", "byte 0: expected wire type 0, 1, 2 or 5, found 3"),
    ("half_as_bytes_of_a_number", "byte 44: expected numbers for elements, found a fixed-width number"),
    ("integers_more_than_the_shape", "byte 44: expected at most 2 elements, found more"),
    ("number_for_the_summary", "byte 0: expected bytes for summary, found a number"),
    ("number_for_the_tensor", "byte 4: expected bytes for tensor, found a number"),
    ("part_of_an_element", "expected whole elements of 4 bytes, found 6 bytes"),
    (
        "repeated_element",
        "the elements of a tensor need 4398046511104 bytes of memory; the limit for a file of 55 bytes is 67109744 (16 × its size + 64 MiB): store numbers as tensors, or split the file",
    ),
    (
        "repeated_zero",
        "the elements of a tensor need 4398046511104 bytes of memory; the limit for a file of 49 bytes is 67109648 (16 × its size + 64 MiB): store numbers as tensors, or split the file",
    ),
    ("text", "elements of type string are not read: they are no numbers"),
    ("unknown_type", "elements of type number 99 are not read: they are no numbers"),
    ("without_summary", "expected an event with a tensor, found an event without a summary"),
    ("without_tensor", "expected an event with a tensor, found a summary without one"),
    ("without_type", "elements of type invalid are not read: they are no numbers"),
];

#[test]
fn every_hostile_event_is_refused_with_its_reason() {
    let files = hostile::files("tensorflow", ".event", REFUSED.map(|(name, _)| name));
    let mut found = Vec::new();
    for ((name, _), file) in REFUSED.into_iter().zip(files) {
        found.push((name, read_debug_tensor(&file).expect_err(name).to_string()));
        // The same bytes are no graph either.
        assert!(!matches!(graph_range(&file), Ok(Some(_))), "{name}");
    }
    assert_eq!(found, REFUSED.map(|(name, message)| (name, message.to_owned())));
}
