//! Documents that are not JSON (tests/hostile/make_json.py): each is refused with this message.
#![allow(clippy::unwrap_used)]

mod hostile;

use ulpscope_formats::json;

const REFUSED: [(&str, &str); 51] = [
    ("byte_order_mark", "line 1, byte 0: expected a value, found byte 0xef"),
    ("closed_twice", "line 1, byte 3: expected nothing after the value, found ']'"),
    ("comment", "line 1, byte 0: expected a value, found '/'"),
    ("cut_after_brace", "line 1, byte 1: truncated: expected a key in double quotes or \"}\", found the end"),
    ("cut_after_bracket", "line 1, byte 1: truncated: expected a value or \"]\", found the end"),
    ("cut_after_colon", "line 1, byte 5: truncated: expected a value, found the end"),
    ("cut_after_comma", "line 1, byte 3: truncated: expected a value, found the end"),
    ("cut_after_exponent", "line 1, byte 4: truncated: expected a digit in the exponent, found the end"),
    ("cut_after_key", "line 1, byte 4: truncated: expected \":\" after a key, found the end"),
    ("cut_after_minus", "line 1, byte 2: truncated: expected a digit, found the end"),
    ("cut_after_object_comma", "line 1, byte 8: truncated: expected a key in double quotes, found the end"),
    ("cut_after_point", "line 1, byte 3: truncated: expected a digit after the decimal point, found the end"),
    ("cut_after_value", "line 1, byte 2: truncated: expected \",\" or \"]\", found the end"),
    ("cut_in_escape", "line 1, byte 6: truncated: expected the closing quote of a string, found the end"),
    ("cut_in_infinity", "line 1, byte 7: truncated: expected Infinity, found the end"),
    ("cut_in_key", "line 1, byte 3: truncated: expected the closing quote of a string, found the end"),
    ("cut_in_string", "line 1, byte 5: truncated: expected the closing quote of a string, found the end"),
    ("cut_in_true", "line 1, byte 3: truncated: expected true, found the end"),
    (
        "cut_in_unicode_escape",
        "line 1, byte 9: truncated: expected the closing quote of a string, found the end",
    ),
    ("empty", "line 1, byte 0: truncated: expected a value, found the end"),
    ("hexadecimal", "line 1, byte 2: expected \",\" or \"]\", found 'x'"),
    ("key_is_a_number", "line 1, byte 1: expected a key in double quotes or \"}\", found '1'"),
    ("leading_point", "line 1, byte 1: expected a value or \"]\", found '.'"),
    ("leading_zero", "line 1, byte 2: expected no digit after a leading zero, found '1'"),
    ("letter_in_number", "line 1, byte 2: expected \",\" or \"]\", found 'a'"),
    ("list_closed_as_object", "line 1, byte 2: expected \",\" or \"]\", found '}'"),
    ("missing_colon", "line 1, byte 5: expected \":\" after a key, found '1'"),
    ("missing_comma", "line 1, byte 3: expected \",\" or \"]\", found '2'"),
    ("missing_value", "line 1, byte 6: expected a value, found '}'"),
    ("nan_in_lower_case", "line 1, byte 1: expected a value, found the word nan"),
    ("newline_in_string", "line 1, byte 3: expected control characters escaped in a string, found byte 0x0a"),
    ("not_utf8", "line 1, byte 3: expected UTF-8 text, found byte 0xff"),
    ("nul_in_string", "line 1, byte 3: expected control characters escaped in a string, found byte 0x00"),
    ("object_closed_as_list", "line 1, byte 7: expected \",\" or \"}\", found ']'"),
    ("only_a_bracket_closed", "line 1, byte 0: expected a value, found ']'"),
    ("only_space", "line 2, byte 4: truncated: expected a value, found the end"),
    ("pickle", "line 1, byte 0: expected a value, found byte 0x80"),
    ("plus_infinity", "line 1, byte 1: expected a value or \"]\", found '+'"),
    ("python_none", "line 1, byte 1: expected a value, found the word None"),
    ("python_true", "line 1, byte 1: expected a value or \"]\", found 'T'"),
    (
        "short_unicode_escape",
        "line 1, byte 2: expected one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX, found \\u12",
    ),
    (
        "signed_unicode_escape",
        "line 1, byte 2: expected one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX, found \\u+123",
    ),
    ("single_quotes", "line 1, byte 1: expected a value or \"]\", found '''"),
    ("trailing_comma", "line 1, byte 4: expected a value, found ']'"),
    ("trailing_comma_in_object", "line 1, byte 9: expected a key in double quotes, found '}'"),
    ("trailing_point", "line 1, byte 3: expected a digit after the decimal point, found ']'"),
    ("two_points", "line 1, byte 4: expected \",\" or \"]\", found '.'"),
    ("two_values", "line 1, byte 4: expected nothing after the value, found '['"),
    (
        "unknown_escape",
        "line 1, byte 2: expected one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX, found \\x41",
    ),
    ("utf8_cut", "line 1, byte 3: expected UTF-8 text, found byte 0xe2"),
    ("utf8_surrogate", "line 1, byte 2: expected UTF-8 text, found byte 0xed"),
];

#[test]
fn every_file_is_refused_with_this_message() {
    let files = hostile::files("json", ".json", REFUSED.map(|(name, _)| name));
    for ((name, expected), bytes) in REFUSED.into_iter().zip(files) {
        assert_eq!(json::read(&bytes).unwrap_err().to_string(), expected, "{name}");
    }
}
