"""Writes tests/hostile/acl: dump files that no reader should trust. Running it again gives identical files."""

import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from protobuf_wire import chunk, number, varint

HERE = pathlib.Path(__file__).parent / "acl"


def file(header, data=b""):
    return struct.pack("<Q", len(header)) + header + data


def output(dims, size):
    shape = chunk(1, b"".join(varint(dim) for dim in dims))
    return chunk(3, number(1, 1) + number(2, 2) + chunk(3, shape) + number(6, size))


def tensor_in(size):
    return chunk(4, number(1, 1) + number(5, size))


def record(tag, value, length=None):
    return struct.pack("<II", tag, len(value) if length is None else length) + value


def nano(*records):
    return file(struct.pack("<II", 0x5A5A5A5A, 1) + b"".join(records))


def nano_input(records, size=0):
    return struct.pack("<iiiQQQI", 0, 2, 0, 0, 0, size, len(records)) + records


def inputs(count, *tensors):
    return record(4, struct.pack("<I", count) + b"".join(tensors))


VERSION = chunk(1, b"2.0")
FILES = {
    "empty": b"",
    "cut_in_length": bytes(7),
    "length_of_zero": bytes(8),
    "length_of_zero_with_data": bytes(16),
    "length_past_the_end": struct.pack("<Q", 10**6) + b"abc",
    "length_of_2_to_64": b"\xff" * 8 + b"abc",
    "text_file": b"Input/Output,Index,Data Size,Data Type,Format\n",
    "bare_without_tensors": chunk(1, b"1.0") + chunk(6, b"operator"),
    "bare_cut": chunk(1, b"1.0") + chunk(3, chunk(5, bytes(40)))[:20],
    "garbage": file(b"\xff" * 16),
    "number_cut": file(VERSION + b"\x10\x80"),
    "number_of_70_bits": file(VERSION + b"\x10" + b"\x80" * 9 + b"\x02"),
    "field_number_zero": file(b"\x00\x00"),
    "field_number_of_30_bits": file(varint(1 << 32) + b"\x00"),
    "group": file(VERSION + b"\x1b\x1c"),
    "wire_type_7": file(VERSION + b"\x1f"),
    "field_past_the_header": file(VERSION + b"\x1a\x7f", bytes(127)),
    "field_of_2_to_63": file(VERSION + b"\x1a" + varint(1 << 63)),
    "shape_past_its_tensor": file(chunk(3, b"\x1a\x20") + bytes(32)),
    "fixed_field_cut": file(b"\x99\x06" + bytes(7)),
    "output_is_a_number": file(number(3, 5)),
    "version_is_a_number": file(number(1, 2)),
    "size_is_text": file(chunk(3, chunk(6, b"16"))),
    "dimensions_of_fixed_width": file(chunk(3, chunk(3, varint(1 << 3 | 1) + bytes(8)))),
    "dimensions_65": file(output([1] * 65, 4), bytes(4)),
    "ranges_65": file(chunk(3, chunk(10, b"") * 65)),
    "input_cut": file(tensor_in(8) + output([2], 8), bytes(7)),
    "output_cut": file(tensor_in(8) + output([2], 8), bytes(15)),
    "workspace_cut": file(chunk(5, number(3, 4)) + chunk(8, number(3, 4)), bytes(7)),
    "size_of_2_to_64": file(output([2], (1 << 64) - 1), bytes(8)),
    "sizes_wrap_around": file(output([2], 8) + output([2], (1 << 64) - 8), bytes(8)),
    "shape_larger_than_its_data": file(output([3], 8), bytes(8)),
    "shape_overflows": file(output([1 << 32, 1 << 32, 1 << 32], 8), bytes(8)),
    "bytes_overflow": file(output([1 << 62], 8), bytes(8)),
    "nano_cut_in_version": file(struct.pack("<I", 0x5A5A5A5A) + b"\x01"),
    "nano_cut_in_tag": nano(b"\x04\x00"),
    "nano_cut_in_record_length": nano(b"\x04\x00\x00\x00\x01"),
    "nano_record_past_the_header": nano(record(4, bytes(4), 5)),
    "nano_without_count": nano(record(4, b"\x01\x00")),
    "nano_count_of_2_to_32": nano(inputs(0xFFFFFFFF)),
    "nano_count_too_large": nano(inputs(2, nano_input(b""))),
    "nano_count_too_small": nano(inputs(0, nano_input(b""))),
    "nano_records_past_the_tensor": nano(inputs(1, nano_input(b"")[:-4] + struct.pack("<I", 99))),
    "nano_dimension_cut": nano(inputs(1, nano_input(record(0, bytes(9))))),
    "nano_dimensions_65": nano(inputs(1, nano_input(record(0, bytes(65 * 8))))),
    "nano_data_cut": nano(inputs(1, nano_input(b"", 8))) + bytes(7),
    "nano_bytes_after_the_last": nano(inputs(1, nano_input(b"", 8))) + bytes(9),
}

if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    for name, content in FILES.items():
        (HERE / f"{name}.dump").write_bytes(content)
