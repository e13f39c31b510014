"""Writes tests/hostile/safetensors: files that no reader should trust. Running it again gives identical files."""

import json
import pathlib
import struct

HERE = pathlib.Path(__file__).parent / "safetensors"


def file(header, data=b""):
    if not isinstance(header, bytes):
        header = json.dumps(header).encode()
    return struct.pack("<Q", len(header)) + header + data


def tensor(begin, end, dtype="F32", shape=(2,)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def marked(mark, stored):
    return file({"__metadata__": {"ulpscope.dtype.a": mark}, "a": stored}, bytes(8))


FILES = {
    "empty": b"",
    "cut_in_length": b"\x02\x00\x00",
    "length_over_the_cap": struct.pack("<Q", 100_000_001) + b"{}",
    "length_of_2_to_64": b"\xff" * 8 + b"{}",
    "header_cut": struct.pack("<Q", 64) + b'{"a":{"dtype":"F32"',
    "header_empty": file(b""),
    "not_json": file(b"\x80\x04pickle."),
    "array": file(b"[]"),
    "words_after_the_header": file(b"{} {}"),
    "second_line": file(b'{\n"a": {"dtype": 1}}'),
    "not_utf_8": file(b'{"\xff\xfe": 1}'),
    "tensor_is_a_number": file({"a": 1}),
    "no_dtype": file({"a": {"shape": [], "data_offsets": [0, 0]}}),
    "dtype_is_a_number": file({"a": {"dtype": 4, "shape": [], "data_offsets": [0, 4]}}, bytes(4)),
    "dimension_negative": file({"a": tensor(0, 8, shape=[-2])}, bytes(8)),
    "dimension_of_2_to_64": file({"a": tensor(0, 8, shape=[1 << 64])}, bytes(8)),
    "offset_a_float": file({"a": tensor(0, 8.5)}, bytes(8)),
    "offsets_three": file({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8, 8]}}, bytes(8)),
    "offsets_reversed": file({"a": tensor(0, 8), "b": tensor(8, 0)}, bytes(8)),
    "offsets_with_a_hole": file({"a": tensor(0, 8), "b": tensor(16, 24)}, bytes(24)),
    "offsets_overlap": file({"a": tensor(0, 8), "b": tensor(4, 12)}, bytes(12)),
    "offsets_past_the_end": file({"a": tensor(0, 1 << 63)}, bytes(8)),
    "data_cut": file({"a": tensor(0, 8)}, bytes(7)),
    "bytes_after_the_last": file({"a": tensor(0, 8)}, bytes(9)),
    "shape_and_offsets_differ": file({"a": tensor(0, 8, shape=[3])}, bytes(8)),
    "shape_overflows": file({"a": tensor(0, 8, shape=[1 << 32, 1 << 32, 2])}, bytes(8)),
    "bytes_overflow": file({"a": tensor(0, 8, shape=[1 << 62, 1])}, bytes(8)),
    "dimensions_65": file({"a": tensor(0, 4, shape=[1] * 65)}, bytes(4)),
    "name_twice": file(b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'),
    "field_twice": file(b'{"a":{"dtype":"U8","dtype":"I8","shape":[0],"data_offsets":[0,0]}}'),
    "metadata_a_number": file({"__metadata__": {"epoch": 3}}),
    "metadata_a_list": file({"__metadata__": []}),
    "mark_of_no_such_type": marked("os.system", tensor(0, 8)),
    "mark_of_a_named_type": marked("float16", tensor(0, 8)),
    "mark_on_wrong_bytes": marked("hifloat8", tensor(0, 8)),
    "mark_on_wrong_shape": marked("complex128", tensor(0, 8, "F64", [1])),
    "mark_on_a_scalar": marked("complex128", tensor(0, 8, "F64", [])),
}

if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    for name, content in FILES.items():
        (HERE / f"{name}.safetensors").write_bytes(content)
