"""Writes the .pt files of tests/golden/pt with torch itself.

    python tests/golden/make_pt.py

Needs torch 2.11 and numpy. The content is fixed; the bytes are not quite, because the form before torch 1.6 uses
memory addresses as storage keys. Byte `i` of every tensor's storage is `(37 * i + 11) % 256`, modulo 2 for bool.
"""

import argparse
import collections
import math
import pathlib
import pickle
import struct
import sys
import types
import zipfile

import numpy
import torch

FOLDER = pathlib.Path(__file__).parent / "pt"

DTYPES = """float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu
int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64 complex128""".split()


def filled(shape, dtype=torch.float32):
    size = math.prod(shape) * torch.empty(0, dtype=dtype).element_size()
    data = bytearray((37 * i + 11) % 256 for i in range(size))
    if dtype == torch.bool:
        data = bytearray(byte % 2 for byte in data)
    return torch.frombuffer(data, dtype=dtype).reshape(shape) if size else torch.empty(shape, dtype=dtype)


def save(name, value, protocol=2, legacy=False):
    torch.save(value, FOLDER / name, pickle_protocol=protocol, _use_new_zipfile_serialization=not legacy)


def strides():
    base = filled((4, 6))
    return collections.OrderedDict(
        contiguous=base,
        transposed=base.t(),
        rows=base[1:3],
        scattered=filled((8, 9))[2:7:2, 1:8:3],
        expanded=filled((1, 3, 1)).expand(2, 3, 4),
        scalar=filled(()),
        empty=torch.empty((3, 0, 2)),
    )


def rezip(source, target, compression=zipfile.ZIP_STORED, change=lambda name, data: data):
    with zipfile.ZipFile(FOLDER / source) as old, zipfile.ZipFile(FOLDER / target, "w", compression) as new:
        for name in old.namelist():
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type = compression
            new.writestr(info, change(name, old.read(name)))


def as_big_endian(name, data):
    if name.endswith("/byteorder"):
        return b"big"
    if "/data/" in name:
        dtype = getattr(torch, DTYPES[int(name.rsplit("/", 1)[1])])
        size = torch.empty(0, dtype=dtype).element_size() // (2 if dtype.is_complex else 1)
        return b"".join(data[i : i + size][::-1] for i in range(0, len(data), size))
    return data


class Stored:
    """Stands for a storage of 8 floats, or for 4 of them from the third on."""

    def __init__(self, part=None):
        self.id = ("storage", torch.FloatStorage, "0", "npu:0", 8, part)


class Rebuilt:
    """Pickles as a call of a constructor that this torch no longer writes, or never had."""

    def __init__(self, function, *args):
        self.call = (function, args)

    def __reduce__(self):
        return self.call


class Pickler(pickle.Pickler):
    def persistent_id(self, value):
        return value.id if isinstance(value, Stored) else None


def save_by_hand(name, value):
    """The form before torch 1.6, with one storage."""
    with open(FOLDER / name, "wb") as out:
        for part in (torch.serialization.MAGIC_NUMBER, torch.serialization.PROTOCOL_VERSION, {"little_endian": True}):
            pickle.dump(part, out, 2)
        Pickler(out, 2).dump(value)
        pickle.dump(["0"], out, 2)
        out.write(struct.pack("<q", 8) + filled((8,)).numpy().tobytes())


def old_and_foreign():
    hooks = collections.OrderedDict()
    part = Stored(("1", 2, 4))
    npu = types.ModuleType("torch_npu.utils.storage")
    exec("def _rebuild_npu_tensor(*args): pass", npu.__dict__)
    npu._rebuild_npu_tensor.__module__ = npu.__name__
    sys.modules.update({"torch_npu": npu, "torch_npu.utils": npu, npu.__name__: npu})
    return {
        "whole": Rebuilt(torch._utils._rebuild_tensor, Stored(), 0, (2, 4), (4, 1)),
        "part": Rebuilt(torch._utils._rebuild_tensor_v2, part, 1, (3,), (1,), False, hooks),
        "npu": Rebuilt(npu._rebuild_npu_tensor, Stored(), 0, (4, 2), (1, 4), False, hooks, 29),
    }


def main():
    FOLDER.mkdir(exist_ok=True)
    for protocol in (2, 3, 4, 5):
        save(f"strides_protocol_{protocol}.pt", strides(), protocol)
        save(f"strides_protocol_{protocol}_legacy.pt", strides(), protocol, legacy=True)
    every = {name: filled((2, 3), getattr(torch, name)) for name in DTYPES}
    save("every_dtype.pt", every)
    save("every_dtype_legacy.pt", every, legacy=True)
    rezip("every_dtype.pt", "every_dtype_deflated.pt", zipfile.ZIP_DEFLATED)
    rezip("every_dtype.pt", "every_dtype_big_endian.pt", change=as_big_endian)

    save("bare.pt", filled((2, 3)))
    torch.manual_seed(0)
    save("state_dict.pt", torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).state_dict())
    weight = filled((4, 6))
    save("parameters.pt", [torch.nn.Parameter(weight), torch.nn.Parameter(weight[1:]), torch.nn.Buffer(weight)])
    save("flags.pt", {"conj": filled((2, 3), torch.complex64).conj(), "neg": torch._neg_view(filled((2, 3)))})
    plain = {
        "ints": [0, 255, 256, -1, 2**31, -(2**31), 2**63, -(2**100), 2**127 - 1],
        "floats": [0.5, float("inf"), -0.0],
        "words": ("", "é", "漢字", b"\x00\xff", bytearray(b"raw")),
        "others": [None, True, False, {1: "one", (2, "b"): "two"}],
        "torch": [torch.Size([2, 3]), torch.bfloat16, torch.device("cuda", 1)],
    }
    numpy_arrays = {
        "f4": numpy.arange(6, dtype="f4").reshape(2, 3),
        "big_endian": numpy.arange(6, dtype=">i2").reshape(2, 3),
        "fortran": numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3)),
        "scalar": numpy.float32(1.5),
        "objects": numpy.array([{}], dtype=object),
    }
    around = {
        "tensor": filled((2, 3)),
        "namespace": argparse.Namespace(lr=0.1),
        "function": torch.nn.functional.relu,
        "sparse": torch.eye(2).to_sparse(),
        "quantized": torch.quantize_per_tensor(torch.ones(2), 0.5, 0, torch.qint8),
        "set": {7},
        "complex": 1 + 2j,
        "slice": slice(1, None, 2),
    }
    for protocol in (2, 5):
        save(f"plain_protocol_{protocol}.pt", plain, protocol)
        save(f"numpy_protocol_{protocol}.pt", numpy_arrays, protocol)
        save(f"around_protocol_{protocol}.pt", around, protocol)
    save("around_legacy.pt", around, legacy=True)
    save_by_hand("by_hand_legacy.pt", old_and_foreign())
    torch.jit.script(torch.nn.ReLU()).save(str(FOLDER / "torchscript.pt"))


main()
