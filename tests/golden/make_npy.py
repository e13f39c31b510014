"""Writes tests/golden/npy and tests/golden/safetensors with the packages that own these formats.

Run it with numpy, ml_dtypes and safetensors installed; running it again gives identical files.
Element number i (row-major) of every array is i - 2, cut to what the type can hold (see `values`).
"""

import pathlib
import struct

import ml_dtypes
import numpy as np
import safetensors
from numpy.lib import format as npy_format
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).parent
NUMPY_CODES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1", "c8", "c16"]


def values(shape, dtype):
    """i - 2; unsigned types wrap, bool is (i - 2 != 0), complex has the imaginary part 10 * i."""
    count = int(np.prod(shape))
    numbers = np.arange(count, dtype=np.int64) - 2
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        numbers = numbers + 10j * np.arange(count)
    return numbers.astype(dtype).reshape(shape)


def write_npy(name, array, version=None):
    with open(HERE / "npy" / f"{name}.npy", "wb") as file:
        npy_format.write_array(file, array, version=version, allow_pickle=False)


def write_raw(name, version, header, data):
    """A header given as text, so that older or odd writers can be imitated to the letter."""
    length = struct.pack("<H" if version == (1, 0) else "<I", len(header))
    (HERE / "npy" / f"{name}.npy").write_bytes(b"\x93NUMPY" + bytes(version) + length + header + data)


def make_npy():
    (HERE / "npy").mkdir(exist_ok=True)
    for code in NUMPY_CODES:
        array = values((2, 3), code)
        write_npy(code, array)
        write_npy(f"{code}_fortran", np.asfortranarray(array))
        if array.itemsize > 1:
            write_npy(f"{code}_big", array.astype(array.dtype.newbyteorder(">")))
            big = np.asfortranarray(array).astype(array.dtype.newbyteorder(">"), order="F")
            write_npy(f"{code}_big_fortran", big)

    for version in [(1, 0), (2, 0), (3, 0)]:
        write_npy(f"version_{version[0]}", values((2, 3), "f4"), version)
    write_npy("scalar", values((), "f4"))
    write_npy("empty", values((0, 3), "f4"))
    write_npy("one_dimension", values((5,), "f4"))
    write_npy("fortran_3d", np.asfortranarray(values((2, 3, 4), "i2")))
    write_npy("packed_from_strides", values((4, 6), "f4")[::2, ::3])
    write_npy("rank_64", values((1,) * 64, "f4"))
    # Magic, length and text end exactly on a block of 64 bytes: numpy then adds another block of blanks.
    write_npy("header_exactly_full", values((0, 100) + (10,) * 9, "f4"))

    write_npy("bfloat16", values((2, 3), ml_dtypes.bfloat16))
    write_npy("float8_e5m2", values((2, 3), ml_dtypes.float8_e5m2))
    write_npy("float8_e4m3fn_unnamed", values((2, 3), ml_dtypes.float8_e4m3fn))
    codes = np.arange(256, dtype="u1")
    for name in ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "hifloat8"]:
        write_npy(f"{name}_named", codes.view([(name, "|u1")]))
    bits = values((2, 3), ml_dtypes.bfloat16).view("u2")
    write_npy("bfloat16_named", bits.view([("bfloat16", "<u2")]))
    write_npy("bfloat16_named_big", bits.astype(">u2").view([("bfloat16", ">u2")]))

    data = values((2, 3), "f4").tobytes()
    write_raw("python_2", (1, 0), b"{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }".ljust(69) + b"\n", data)
    write_raw("odd_spacing", (3, 0), b'\t{"shape":(2,3),\n"fortran_order":False , "descr" :"=f4"}', data)
    write_raw("nameless_field", (1, 0), b"{'descr': [('', '<f4')], 'fortran_order': False, 'shape': (2, 3)}\n", data)
    write_raw("full_name", (1, 0), b"{'descr': 'float32', 'fortran_order': False, 'shape': (2, 3)}\n", data)
    write_raw("trailing_bytes", (1, 0), b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}\n", data + b"more")
    write_raw("question_mark", (1, 0), b"{'descr': '?', 'fortran_order': False, 'shape': (2, )}\n", b"\x01\x00")


def make_safetensors():
    folder = HERE / "safetensors"
    folder.mkdir(exist_ok=True)
    names = [np.dtype(code).name for code in NUMPY_CODES if code != "c16"]
    tensors = {name: values((2, 3), name) for name in names}
    for name in [
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3fnuz",
        "float8_e5m2fnuz",
    ]:
        tensors[name] = values((2, 3), getattr(ml_dtypes, name))
    # Powers of two only: i - 2 cannot be held.
    tensors["float8_e8m0fnu"] = np.arange(126, 132, dtype="u1").reshape(2, 3).view(ml_dtypes.float8_e8m0fnu)
    tensors["scalar"] = values((), "f4")
    tensors["empty"] = values((0, 3), "f4")
    tensors['layer.0."weight"\n\u00e9'] = values((4,), "f4")
    save_file(tensors, folder / "every_dtype.safetensors", metadata={"format": 'numpy "quoted"'})
    save_file({}, folder / "no_tensors.safetensors")

    packed = np.arange(4, dtype="u1")
    spec = safetensors.TensorSpec(
        dtype="float4_e2m1fn_x2", shape=[4], data_ptr=packed.ctypes.data, data_len=packed.nbytes
    )
    whole = values((4,), "f4")
    beside = safetensors.TensorSpec(
        dtype="float32", shape=[4], data_ptr=whole.ctypes.data, data_len=whole.nbytes
    )
    content = bytes(safetensors.serialize({"packed": spec, "whole": beside}, None))
    (folder / "float4.safetensors").write_bytes(content)


if __name__ == "__main__":
    make_npy()
    make_safetensors()
