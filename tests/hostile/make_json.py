"""Makes tests/hostile/json/: documents that are not JSON, each wrong in one way. Running it again gives the same files."""

from pathlib import Path

HERE = Path(__file__).resolve().parent / "json"

FILES = {
    # Cut at every kind of place.
    "empty": b"",
    "only_space": b" \n\t ",
    "cut_after_bracket": b"[",
    "cut_after_brace": b"{",
    "cut_after_comma": b"[1,",
    "cut_after_value": b"[1",
    "cut_after_key": b'{"a"',
    "cut_after_colon": b'{"a":',
    "cut_after_object_comma": b'{"a": 1,',
    "cut_in_key": b'{"a',
    "cut_in_string": b'["abc',
    "cut_in_escape": b'["abc\\',
    "cut_in_unicode_escape": b'["abc\\u00',
    "cut_in_true": b"[tr",
    "cut_in_infinity": b"[-Infin",
    "cut_after_minus": b"[-",
    "cut_after_point": b"[1.",
    "cut_after_exponent": b"[1e+",
    # Wrong words and marks.
    "python_none": b"[None]",
    "python_true": b"[True]",
    "nan_in_lower_case": b"[nan]",
    "plus_infinity": b"[+Infinity]",
    "single_quotes": b"['a']",
    "comment": b"// note\n[1]",
    "byte_order_mark": b"\xef\xbb\xbf[1]",
    "pickle": b"\x80\x02]q\x00(K\x01K\x02e.",
    "hexadecimal": b"[0x10]",
    "leading_zero": b"[01]",
    "leading_point": b"[.5]",
    "trailing_point": b"[1.]",
    "two_points": b"[1.2.3]",
    "letter_in_number": b"[1a]",
    # Wrong structure.
    "trailing_comma": b"[1, ]",
    "trailing_comma_in_object": b'{"a": 1, }',
    "missing_comma": b"[1 2]",
    "missing_colon": b'{"a" 1}',
    "missing_value": b'{"a": }',
    "key_is_a_number": b"{1: 2}",
    "list_closed_as_object": b"[1}",
    "object_closed_as_list": b'{"a": 1]',
    "closed_twice": b"[1]]",
    "two_values": b"[1] [2]",
    "only_a_bracket_closed": b"]",
    # Wrong text.
    "unknown_escape": b'["\\x41"]',
    "short_unicode_escape": b'["\\u12"]',
    "signed_unicode_escape": b'["\\u+123"]',
    "newline_in_string": b'["a\nb"]',
    "nul_in_string": b'["a\x00b"]',
    "not_utf8": b'["a\xffb"]',
    "utf8_cut": b'["a\xe2\x82"]',
    "utf8_surrogate": b'["\xed\xa0\x80"]',
}

HERE.mkdir(exist_ok=True)
for name, content in FILES.items():
    (HERE / f"{name}.json").write_bytes(content)
