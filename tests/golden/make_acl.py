"""Writes tests/golden/acl: dump files in every form, encoded by hand with nothing but the standard library.

Running it again gives identical files. The encoding follows the published protobuf wire format, so the Rust reader is
checked against bytes that no code of its own has made.
"""

import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from protobuf_wire import chunk, number, varint

HERE = pathlib.Path(__file__).parent / "acl"


def shape(*dims):
    return chunk(1, b"".join(varint(dim) for dim in dims))


def header_first(header, *data):
    return struct.pack("<Q", len(header)) + header + b"".join(data)


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def make_full():
    """Every field of the header that has a meaning today."""
    x = floats(0, 1, 2, 3, 4, 5)
    y = struct.pack("<i", -7)
    out = struct.pack("<4e", 0.5, 1.5, 2.5, 3.5)
    original = chunk(1, b"scope/add") + number(2, 3) + number(3, 1) + number(4, 1)
    dims = number(1, 2) + number(2, 9)
    output = (
        number(1, 2) + number(2, 3) + chunk(3, shape(1, 1, 2, 1, 2)) + chunk(4, original) + number(6, len(out))
        + chunk(7, shape(1, 2, 1, 2)) + number(8, 2) + number(9, 4096) + chunk(10, dims) + chunk(10, b"") + number(11, 64)
    )
    input_0 = number(1, 1) + number(2, 2) + chunk(3, shape(2, 3)) + number(5, len(x)) + chunk(6, shape(6)) + number(7, -1) + number(8, 1 << 40) + number(9, 5)
    input_1 = number(1, 7) + number(2, 2) + chunk(3, b"") + number(5, len(y))
    buffer, space = bytes(range(10)), b"workspace log"
    header = (
        chunk(1, b"2.0") + number(2, 1767261601000000) + chunk(3, output) + chunk(4, input_0) + chunk(4, input_1)
        + chunk(5, number(3, len(buffer))) + chunk(6, "作用域/Add".encode()) + chunk(7, chunk(1, b"slice") + chunk(2, b'{"threadMode":1}'))
        + chunk(8, number(1, 1) + number(3, len(space)))
    )
    return header_first(header, x, y, out, buffer, space)


def make_every_type():
    """One output of two elements for each number from 0 to 41, over the same thirty-two bytes."""
    # Zero is what an absent number means, and is never written.
    kinds = [b""] + [number(1, kind) for kind in range(1, 42)]
    outputs = [kind + number(2, 2) + chunk(3, shape(2)) + number(6, 32) for kind in kinds]
    header = chunk(1, b"2.0") + b"".join(chunk(3, output) for output in outputs)
    return header_first(header, bytes(range(32)) * 42)


def make_lenient():
    """Unpacked dimensions, unknown fields of every wire type, a zero in a shape, no shape at all, padding, and trailing bytes."""
    unknown = number(100, 5) + varint(101 << 3 | 1) + bytes(8) + chunk(102, b"later") + varint(103 << 3 | 5) + bytes(4)
    padded = number(1, 1) + unknown + chunk(3, number(1, 1) + number(1, 2)) + number(6, 64)
    empty = number(1, 1) + chunk(3, shape(0, 1 << 62, 1 << 62))
    scalar = number(1, 1) + number(6, 4)
    header = unknown + chunk(3, padded) + chunk(3, empty) + chunk(3, scalar)
    return header_first(header, floats(1, 2), b"\xee" * 56, floats(3), b"trailing")


def make_bare():
    """Version 1: the message is the file, and the elements are in it."""
    data = floats(1, 2, 3)
    output = number(1, 1) + number(2, 2) + chunk(3, shape(3)) + chunk(5, data) + number(6, len(data))
    tensor_in = number(1, 11) + number(2, 2) + chunk(3, shape(2)) + chunk(4, b"\x01\x00")
    return (
        chunk(1, b"1.0") + number(2, 99) + chunk(3, output) + chunk(4, tensor_in) + chunk(5, chunk(2, b"L1"))
        + chunk(6, b"old/op") + chunk(8, chunk(2, b"log"))
    )


def record(tag, value):
    return struct.pack("<II", tag, len(value)) + value


def dims_record(tag, dims):
    return record(tag, struct.pack(f"<{len(dims)}Q", *dims))


def nano_input(kind, layout, address_type, address, offset, size, dims, original):
    records = dims_record(0, dims) + dims_record(1, original)
    return struct.pack("<iiiQQQI", kind, layout, address_type, address, offset, size, len(records)) + records


def nano_output(kind, layout, address_type, source, address, offset, size, dims, original, name):
    records = dims_record(0, dims) + dims_record(1, original) + record(2, name)
    head = struct.pack("<iiiiii", kind, layout, address_type, *source)
    return head + struct.pack("<QQQI", address, offset, size, len(records)) + records


def nano(inputs, outputs, *data):
    header = struct.pack("<II", 0x5A5A5A5A, 1)
    header += record(4, struct.pack("<I", len(inputs)) + b"".join(inputs))
    header += record(5, struct.pack("<I", len(outputs)) + b"".join(outputs))
    return header_first(header, *data)


def make_nano():
    x, out = floats(0, 1, 2, 3, 4, 5), struct.pack("<4e", 0.5, 1.5, 2.5, 3.5)
    inputs = [nano_input(0, 2, 1, 4096, 8, len(x), [2, 3], [6])]
    outputs = [nano_output(1, 3, 0, (2, 0, 1), 8192, 0, len(out), [1, 1, 2, 1, 2], [1, 2, 1, 2], b"orig_op")]
    return nano(inputs, outputs, x, out)


def make_nano_every_type():
    outputs = [nano_output(kind, 2, 0, (0, kind, 2), 0, 0, 32, [2], [2], b"") for kind in range(43)]
    return nano([], outputs, bytes(range(32)) * 43)


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    for name in ["full", "every_type", "lenient", "bare", "nano", "nano_every_type"]:
        (HERE / f"{name}.dump").write_bytes(globals()[f"make_{name}"]())
