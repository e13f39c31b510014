"""Files both ways: what Ulpscope writes others read, and what others write it reads, bit by bit."""

from __future__ import annotations

import io
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

import ulpscope
from judges import (
    DTYPES,
    FLOATS_8,
    SUFFIXES,
    assert_same,
    assert_same_tree,
    dtype_name,
    named,
    numpy_dtype,
    raw_bytes,
    save_theirs,
    tensor_of,
    theirs,
)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_name)
def test_what_is_saved_others_load(dtype: torch.dtype, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    whole = tensor_of(dtype, 6, 8)
    layouts = {
        "plain": whole,
        "transposed": whole.T,
        "strided": whole[1::2, ::3],
        "broadcast": whole[0].expand(5, 8),
        "scalar": whole[2, 3],
        "empty": whole[:0],
        "empty_3d": torch.empty(3, 0, 2, dtype=dtype),
    }
    for layout, x in layouts.items():
        ulpscope.save(path, x if suffix == ".npy" else {"x": x})
        assert_same(theirs(path, dtype), x)
        assert_same(named(path, ulpscope.load(path)), x)
        array = named(path, ulpscope.load(path, framework="numpy"))
        assert (array.dtype, array.shape) == (numpy_dtype(dtype), tuple(x.shape)), layout
        assert raw_bytes(array) == raw_bytes(x), layout
        assert ulpscope.diff(path, x).equal, layout
        assert ulpscope.stats(path).to_json() == ulpscope.stats(x).to_json(), layout


@pytest.mark.parametrize(
    ("dtype", "suffix"),
    # Safetensors itself has no complex128.
    [pair for pair in product(DTYPES, SUFFIXES) if pair != (torch.complex128, ".safetensors")],
    ids=str,
)
def test_what_others_save_is_loaded(dtype: torch.dtype, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    whole = tensor_of(dtype, 6, 8)
    # Numpy writes all but one of the 8-bit floats alike, as one opaque byte.
    if suffix in (".npy", ".npz") and dtype in FLOATS_8 and dtype != torch.float8_e5m2:
        save_theirs(path, whole)
        reason = "the file does not say which it is"
        if suffix == ".npy":
            with pytest.raises(ulpscope.FormatError, match=reason):
                ulpscope.load(path)
        else:
            assert reason in ulpscope.load(path)["x"].reason
        return
    for x in (whole, whole.T, whole[1::2, ::3], whole[2, 3], whole[:0]):
        save_theirs(path, x)
        assert_same(named(path, ulpscope.load(path)), x)
        assert raw_bytes(named(path, ulpscope.load(path, framework="numpy"))) == raw_bytes(x)
        assert ulpscope.diff(path, x).equal


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, *FLOATS_8], ids=dtype_name)
def test_arrays_of_ml_dtypes(dtype: torch.dtype, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    x = tensor_of(dtype, 4, 64)
    array = np.frombuffer(raw_bytes(x), dtype=numpy_dtype(dtype)).reshape(4, 64)
    ulpscope.save(path, array if suffix == ".npy" else {"x": array})
    assert_same(theirs(path, dtype), x)
    assert ulpscope.stats(array).to_json() == ulpscope.stats(x).to_json()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("code", ["f2", "f4", "f8", "i2", "i4", "i8", "u2", "u4", "u8", "c8", "c16", "?"])
def test_big_endian_and_fortran_order(code: str, order: Any, tmp_path: Path) -> None:
    array = np.asarray(
        np.arange(24).reshape(2, 3, 4) - 7, dtype=f">{code}" if code != "?" else "?", order=order
    )
    np.save(tmp_path / "x.npy", array)
    np.savez(tmp_path / "x.npz", x=array)
    np.savez_compressed(tmp_path / "y.npz", x=array)
    for name in ("x.npy", "x.npz", "y.npz"):
        found = named(tmp_path / name, ulpscope.load(tmp_path / name, framework="numpy"))
        assert found.dtype == array.dtype.newbyteorder("<")
        np.testing.assert_array_equal(found, array)
        found = named(tmp_path / name, ulpscope.load(tmp_path / name))
        np.testing.assert_array_equal(found.numpy(), array)
    # The way back: a big-endian, Fortran-ordered array becomes a file that torch reads.
    ulpscope.save(tmp_path / "x.pt", array)
    np.testing.assert_array_equal(torch.load(tmp_path / "x.pt", weights_only=True).numpy(), array)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_npy(version: tuple[int, int], tmp_path: Path) -> None:
    path, array = tmp_path / "x.npy", np.arange(10.0).reshape(5, 2)
    with path.open("wb") as out:
        np.lib.format.write_array(out, array, version=version)
    np.testing.assert_array_equal(ulpscope.load(path, framework="numpy"), array)


def place_of(path: Path, elements: Any) -> int:
    """Where in a file the elements are, which it must have once."""
    content, wanted = path.read_bytes(), raw_bytes(elements)
    assert content.count(wanted) == 1
    return content.index(wanted)


def test_entries_of_an_npz_at_odd_places(tmp_path: Path) -> None:
    # Entries begin where the one before ends: names of every length put the elements at every offset.
    path = tmp_path / "x.npz"
    arrays = {"n" * length: np.arange(length, length + 50.0) for length in range(1, 18)}
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.save(content, array)
            archive.writestr(f"{name}.npy", content.getvalue())
    places = {place_of(path, array) % array.itemsize == 0 for array in arrays.values()}
    assert places == {True, False}
    for name, tensor in [*ulpscope.load(path).items(), *ulpscope.load(path, mmap=True).items()]:
        assert tensor.data_ptr() % tensor.element_size() == 0
        assert tensor.tolist() == arrays[name].tolist()
    for name, array in ulpscope.load(path, framework="numpy").items():
        np.testing.assert_array_equal(array + 1, arrays[name] + 1)
    assert {name: stats.max for name, stats in ulpscope.stats(path).items()} == {
        name: array.max() for name, array in arrays.items()
    }


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_saved_elements_are_aligned(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    value = {
        "flag": tensor_of(torch.bool, 3),
        "x": tensor_of(torch.float64, 5),
        "y": tensor_of(torch.int16, 7) + 1,
    }
    ulpscope.save(path, value["x"] if suffix == ".npy" else value)
    for name in ["x"] if suffix == ".npy" else ["x", "y"]:
        assert place_of(path, value[name]) % value[name].element_size() == 0, name


def state_dict() -> dict[str, Any]:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    return {
        "model": model.state_dict(),
        # As optimizers have it: keys that are numbers, and tensors beside plain values.
        "optimizer": {"state": {0: {"step": torch.tensor(1.0), "exp_avg": torch.randn(4, 3)}}, "lr": 0.1},
        "epoch": 3,
        "nothing": None,
        "nested": [(torch.ones(2), "text ✓", b"bytes"), {7: True, 2.5: -(2**70)}],
    }


def test_nested_state_dicts_both_ways(tmp_path: Path) -> None:
    expected = state_dict()
    ulpscope.save(tmp_path / "ours.pt", expected)
    assert_same_tree(torch.load(tmp_path / "ours.pt", weights_only=True), expected)
    assert_same_tree(ulpscope.load(tmp_path / "ours.pt"), expected)
    torch.save(expected, tmp_path / "theirs.pt")
    assert_same_tree(ulpscope.load(tmp_path / "theirs.pt"), expected)
    # Names join with dots where a format has no nesting, as they do in results.
    ulpscope.save(tmp_path / "ours.safetensors", expected["model"])
    found = safetensors.torch.load_file(tmp_path / "ours.safetensors")
    assert_same_tree({name: found[name] for name in expected["model"]}, dict(expected["model"]))
    assert len(found) == len(expected["model"])
    assert "optimizer.state.0.exp_avg" in ulpscope.stats(tmp_path / "ours.pt")


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_every_protocol_and_the_older_form_of_pt(protocol: int, zipped: bool, tmp_path: Path) -> None:
    path, expected = tmp_path / "x.pt", state_dict()
    expected["parameter"] = torch.nn.Parameter(torch.randn(3))
    expected["ordered"] = OrderedDict(b=torch.zeros(2, dtype=torch.bfloat16), a=torch.Size([1, 2]))
    torch.save(expected, path, pickle_protocol=protocol, _use_new_zipfile_serialization=zipped)
    expected["ordered"]["a"] = (1, 2)
    assert_same_tree(ulpscope.load(path), expected)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_tensors_alone_and_what_wraps_them(zipped: bool, tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    x = torch.randn(4, 5, dtype=torch.float64)
    for value in (x, x.T, x[1:, ::2], torch.nn.Parameter(x), torch.nn.Buffer(x), x[2, 2], x[:0]):
        torch.save(value, path, _use_new_zipfile_serialization=zipped)
        assert_same(ulpscope.load(path), value.detach().as_subclass(torch.Tensor))
        ulpscope.save(path, value)
        assert_same(torch.load(path, weights_only=True), value.detach().as_subclass(torch.Tensor))


def test_a_pt_file_of_a_big_endian_machine(tmp_path: Path) -> None:
    x = torch.randn(3, 4, dtype=torch.float64)
    torch.save(x, tmp_path / "little.pt")
    with zipfile.ZipFile(tmp_path / "little.pt") as little, zipfile.ZipFile(tmp_path / "big.pt", "w") as big:
        for name in little.namelist():
            content = little.read(name)
            if name.endswith("/byteorder"):
                content = b"big"
            elif name.endswith("/data/0"):
                content = x.numpy().astype(">f8").tobytes()
            big.writestr(name, content)
    assert_same(torch.load(tmp_path / "big.pt", weights_only=True), x)
    assert_same(ulpscope.load(tmp_path / "big.pt"), x)


@pytest.mark.parametrize("as_path", [str, Path], ids=["str", "Path"])
def test_paths_of_either_kind(as_path: Callable[[Any], Any], tmp_path: Path) -> None:
    path = as_path(tmp_path / "größe 1.npy")
    ulpscope.save(path, torch.ones(3))
    assert ulpscope.load(path).tolist() == [1, 1, 1]
    assert ulpscope.diff(path, as_path(tmp_path / "größe 1.npy")).equal
    assert ulpscope.diff(path, torch.ones(3)).equal


def test_files_of_several_tensors_are_measured_by_name(tmp_path: Path) -> None:
    golden, target = tmp_path / "golden.safetensors", tmp_path / "target.pt"
    ulpscope.save(golden, {"a": torch.zeros(3), "b": torch.ones(2)})
    ulpscope.save(target, {"b": torch.ones(2), "a": torch.tensor([0.0, 0.0, 2.0])})
    stats = ulpscope.stats(golden)
    assert {name: one.max for name, one in stats.items()} == {"a": 0.0, "b": 1.0}
    found = ulpscope.diff(target, golden)
    assert {name: one.equal for name, one in found.items()} == {"a": False, "b": True}
    assert found["a"].worst_index == 2
    ulpscope.save(target, {"a": torch.zeros(3), "c": torch.ones(2)})
    with pytest.raises(ValueError, match=r'only in target \["c"\], only in golden \["b"\]'):
        ulpscope.diff(target, golden)
    with pytest.raises(ValueError, match="one side is one tensor, the other holds 2"):
        ulpscope.diff(torch.zeros(3), golden)
