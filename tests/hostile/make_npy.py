"""Writes tests/hostile/npy: files that no reader should trust. Running it again gives identical files."""

import pathlib
import struct

HERE = pathlib.Path(__file__).parent / "npy"
SHAPE = "'fortran_order': False, 'shape': (2, 3)"
DATA = bytes(24)


def file(header, data=DATA, version=(1, 0)):
    if isinstance(header, str):
        header = header.encode("latin-1")
    length = struct.pack("<H" if version == (1, 0) else "<I", len(header))
    return b"\x93NUMPY" + bytes(version) + length + header + data


def descr(text):
    return file("{'descr': %s, %s}" % (text, SHAPE))


def shape(text, code="<f4"):
    return file("{'descr': '%s', 'fortran_order': False, 'shape': %s}" % (code, text))


GOOD = "{'descr': '<f4', %s}" % SHAPE
FILES = {
    "empty": b"",
    "wrong_magic": b"PK\x03\x04 this is a zip",
    "cut_in_magic": b"\x93NUM",
    "cut_in_version": b"\x93NUMPY\x01",
    "version_9_1": file(GOOD, version=(9, 1)),
    "cut_in_length": b"\x93NUMPY\x01\x00\x76",
    "cut_in_length_2": b"\x93NUMPY\x02\x00\x76\x00\x00",
    "cut_in_header": file(GOOD)[:40],
    "header_of_4_gib": b"\x93NUMPY\x03\x00\xff\xff\xff\xff{}",
    "not_a_dict": file("['descr', '<f4']"),
    "unclosed_dict": file(GOOD[:-1]),
    "unclosed_text": file("{'descr': '<f4"),
    "backslash_at_the_end": file("{'descr': '<f4\\"),
    "unclosed_tuple": file("{'shape': (2, 3"),
    "words_after_the_dict": file(GOOD + " or True"),
    "code_in_the_header": file("{'descr': __import__('os').system('id'), %s}" % SHAPE),
    "call_in_the_header": file("{'descr': '<f4'.upper(), %s}" % SHAPE),
    "number_for_a_key": file("{1: 2}"),
    "no_descr": file("{%s}" % SHAPE),
    "no_order": file("{'descr': '<f4', 'shape': (2, 3)}"),
    "no_shape": file("{'descr': '<f4', 'fortran_order': False}"),
    "unknown_key": file("{'descr': '<f4', 'mode': 'r', %s}" % SHAPE),
    "key_twice": file("{'descr': '<f4', 'descr': '<f8', %s}" % SHAPE),
    "order_is_a_number": file("{'descr': '<f4', 'fortran_order': 1, 'shape': (2, 3)}"),
    "shape_is_a_list": shape("[2, 3]"),
    "shape_is_a_number": shape("(6)"),
    "dimension_negative": shape("(2, -3)"),
    "dimension_of_text": shape("('2', 3)"),
    "dimension_a_float": shape("(2.0, 3)"),
    "dimension_of_2_to_64": shape("(18446744073709551616,)"),
    "dimension_of_100_digits": shape("(%s,)" % ("9" * 100)),
    "dimensions_65": shape("(%s)" % ("1, " * 65)),
    "shape_overflows": shape("(4294967296, 4294967296, 4294967296)"),
    "bytes_overflow": shape("(9223372036854775807,)", "<c16"),
    "data_cut": file(GOOD, DATA[:23]),
    "data_missing": file(GOOD, b""),
    "big_endian_data_cut": file("{'descr': '>f8', %s}" % SHAPE),
    "object_array": descr("'|O'"),
    "object_field": descr("[('a', '|O'), ('b', '<f4')]"),
    "only_an_object_field": descr("[('a', '|O')]"),
    "structured_with_100_fields": descr(str([("field", "<f4")] * 100)),
    "field_of_1000_letters": descr("[('%s', '<f4')]" % ("x" * 1000)),
    "structured": descr("[('x', '<f4', (2,))]"),
    "lying_field": descr("[('float8_e4m3fn', '<f4')]"),
    "field_of_a_known_type": descr("[('float32', '<u4')]"),
    "subarray": descr("('<f4', (3,))"),
    "byte_strings": descr("'|S16'"),
    "text": descr("'<U4'"),
    "dates": descr("'<M8[ns]'"),
    "time_spans": descr("'<m8[us]'"),
    "long_double": descr("'<f16'"),
    "opaque_byte": descr("'|V1'"),
    "opaque_bytes": descr("'|V7'"),
    "no_such_code": descr("'<f3'"),
    "code_without_size": descr("'<'"),
    "code_of_huge_size": descr("'<f99999999999999999999999'"),
    "code_with_a_sign": descr("'<f+4'"),
    "code_empty": descr("''"),
    "code_not_ascii": descr("'\xe9\xff'"),
    "descr_is_a_number": descr("4"),
    "descr_is_none": descr("None"),
}

if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    for name, content in FILES.items():
        (HERE / f"{name}.npy").write_bytes(content)
