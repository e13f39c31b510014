"""Writes tests/hostile/tensorflow: events of TensorFlow's debugger that no reader should trust. Running it again gives
identical files."""

import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from protobuf_wire import chunk, number

HERE = pathlib.Path(__file__).parent / "tensorflow"

FLOAT, INT32, STRING, HALF = 1, 3, 7, 19


def shape(*dims):
    return chunk(2, b"".join(chunk(2, number(1, dim)) for dim in dims))


def event(tensor):
    value = chunk(7, b"a/b:0:DebugIdentity") + chunk(8, tensor)
    return b"\x09" + struct.pack("<d", 1.0) + chunk(5, chunk(1, value))


def floats(*values):
    return chunk(5, struct.pack(f"<{len(values)}f", *values))


FILES = {
    "empty": b"",
    "without_summary": b"\x09" + struct.pack("<d", 1.0) + number(2, 3),
    "without_tensor": chunk(5, chunk(1, chunk(7, b"a:0:DebugIdentity"))),
    "content_short": event(number(1, FLOAT) + shape(2) + chunk(4, b"\0" * 7)),
    "content_long": event(number(1, FLOAT) + shape(2) + chunk(4, b"\0" * 9)),
    "dimension_unknown": event(number(1, FLOAT) + shape(-1) + floats(1)),
    "dimensions_65": event(number(1, FLOAT) + shape(*[1] * 65) + floats(1)),
    "elements_overflow": event(number(1, FLOAT) + shape(2**62, 4) + floats(1)),
    "repeated_element": event(number(1, FLOAT) + shape(2**40) + floats(1)),
    "repeated_zero": event(number(1, FLOAT) + shape(2**40)),
    "integers_more_than_the_shape": event(number(1, INT32) + shape(2) + chunk(7, b"\1\2\3")),
    "part_of_an_element": event(number(1, FLOAT) + shape(2) + chunk(5, b"\0" * 6)),
    "text": event(number(1, STRING) + shape(1) + chunk(8, b"word")),
    "unknown_type": event(number(1, 99) + shape(1)),
    "without_type": event(shape(1) + floats(1)),
    "half_as_bytes_of_a_number": event(number(1, HALF) + shape(1) + b"\x6d\0\0\0\0"),
    "cut": event(number(1, FLOAT) + shape(1) + floats(1))[:-3],
    "group": b"\x0b\x0c",
    "number_for_the_summary": number(5, 1),
    "number_for_the_tensor": chunk(5, chunk(1, number(8, 1))),
}


def main():
    HERE.mkdir(exist_ok=True)
    for name, data in FILES.items():
        (HERE / f"{name}.event").write_bytes(data)


if __name__ == "__main__":
    main()
