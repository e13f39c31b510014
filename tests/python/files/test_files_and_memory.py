"""Tensors between memory and file: what is shared, what is mapped, what lives how long."""

from __future__ import annotations

import gc
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ulpscope
from judges import SUFFIXES, assert_same, named, theirs


def test_tensors_that_share_a_storage_share_it_in_the_file(tmp_path: Path) -> None:
    path, weight = tmp_path / "tied.pt", torch.randn(300, 40)
    ulpscope.save(
        path, {"embedding": weight, "head": weight, "turned": weight.T, "row": weight[7], "other": weight + 1}
    )
    assert path.stat().st_size < 2.2 * weight.nbytes
    found = torch.load(path, weights_only=True)
    found["embedding"][7, 3] = 99
    assert [found["head"][7, 3], found["turned"][3, 7], found["row"][3]] == [99, 99, 99]
    assert_same(found["other"], weight + 1)

    torch.save({"embedding": weight, "row": weight[7], "turned": weight.T}, path)
    loaded = ulpscope.load(path)
    loaded["row"][3] = 98
    assert [loaded["embedding"][7, 3], loaded["turned"][3, 7]] == [98, 98]


def test_one_storage_seen_as_two_dtypes(tmp_path: Path) -> None:
    x = torch.randn(10)
    ulpscope.save(tmp_path / "x.pt", {"x": x, "bits": x.view(torch.int32), "bytes": x.view(torch.uint8)[3:9]})
    found = torch.load(tmp_path / "x.pt", weights_only=True)
    assert_same(found["x"], x)
    assert_same(found["bits"], x.view(torch.int32))
    assert_same(found["bytes"], x.view(torch.uint8)[3:9])


def test_a_view_is_saved_without_the_rest_of_its_storage(tmp_path: Path) -> None:
    ulpscope.save(tmp_path / "x.pt", torch.zeros(1_000_000)[::1000])
    assert (tmp_path / "x.pt").stat().st_size < 10_000


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_pending_conjugations_and_negations(suffix: str, tmp_path: Path) -> None:
    z = torch.randn(5, 3, dtype=torch.complex64)
    for x in (z.conj(), z.conj().imag, z.conj().T, torch._neg_view(torch.arange(4.0))):
        assert x.is_conj() or x.is_neg()
        plain = x.resolve_conj().resolve_neg().clone()
        assert ulpscope.diff(x, plain).equal
        assert ulpscope.stats(x).to_json() == ulpscope.stats(plain).to_json()
        assert ulpscope.digest(x) == ulpscope.digest(plain)
        path = tmp_path / f"x{suffix}"
        ulpscope.save(path, x if suffix == ".npy" else {"x": x})
        assert_same(theirs(path, x.dtype), plain)
        if suffix == ".pt":
            torch.save({"x": x}, path)
            assert_same(ulpscope.load(path)["x"], plain)


def test_tensors_that_require_grad(tmp_path: Path) -> None:
    leaf = torch.randn(3, 3, requires_grad=True)
    for x in (leaf, leaf * 2, leaf.T):
        ulpscope.save(tmp_path / "x.pt", x)
        assert_same(torch.load(tmp_path / "x.pt", weights_only=True), x.detach())
        assert ulpscope.stats(x).norm == pytest.approx(x.double().norm().item(), rel=1e-12)
    torch.save(leaf, tmp_path / "x.pt")
    assert_same(ulpscope.load(tmp_path / "x.pt"), leaf.detach())


def test_arrays_that_are_neither_whole_nor_aligned(tmp_path: Path) -> None:
    packed = np.zeros((4, 5), dtype=[("flag", "u1"), ("x", "<f4")])
    packed["x"] = np.arange(20).reshape(4, 5)
    flipped = np.arange(20, dtype=np.float32).reshape(4, 5)[::-1, ::-2]
    for array in (packed["x"], packed["x"].T, flipped):
        for suffix in SUFFIXES:
            path = tmp_path / f"x{suffix}"
            ulpscope.save(path, array if suffix == ".npy" else {"x": array})
            np.testing.assert_array_equal(theirs(path, torch.float32).numpy(), array)
        assert ulpscope.stats(array).norm == pytest.approx(np.linalg.norm(array), rel=1e-12)


def test_a_scalar_of_numpy() -> None:
    assert [ulpscope.stats(np.float32(value)).max for value in range(2000)] == list(range(2000))
    assert ulpscope.stats(np.array(2.5)).shape == ()


def resident(kind: str) -> int:
    """Bytes of this process in memory: `VmRSS`, all of them, or `RssAnon`, those that are no file's."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{kind}:")[1].split()[0]) * 1024


LARGE = 256 << 20


def large_file(path: Path) -> None:
    """A quarter of a gigabyte of zeros, which a file system need not store."""
    header = io.BytesIO()
    fields = {"descr": "|u1", "fortran_order": False, "shape": (LARGE,)}
    if path.suffix == ".npy":
        np.lib.format.write_array_header_1_0(header, fields)
    else:
        safetensors_header = b'{"x":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (LARGE, LARGE)
        header.write(len(safetensors_header).to_bytes(8, "little") + safetensors_header)
    path.write_bytes(header.getvalue())
    os.truncate(path, len(header.getvalue()) + LARGE)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's account of memory")
@pytest.mark.parametrize("framework", ["torch", "numpy"])
@pytest.mark.parametrize("suffix", [".npy", ".safetensors"])
def test_loading_copies_once(suffix: str, framework: Any, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    large_file(path)
    gc.collect()
    before = resident("RssAnon")
    x = named(path, ulpscope.load(path, framework=framework))
    assert LARGE <= resident("RssAnon") - before < 1.1 * LARGE
    os.truncate(path, 0)
    assert ulpscope.stats(x).zeros == LARGE
    del x
    gc.collect()
    assert resident("RssAnon") - before < LARGE // 16


@pytest.mark.parametrize("framework", ["torch", "numpy"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_copy_shares_no_memory_with_its_neighbours(suffix: str, framework: Any, tmp_path: Path) -> None:
    path, tensors = tmp_path / f"x{suffix}", {"x": torch.arange(1000.0), "y": torch.ones(7, 11)}
    if suffix == ".npy":
        ulpscope.save(path, tensors["x"])
        assert_same(torch.as_tensor(ulpscope.load(path, framework=framework)), tensors["x"])
        return
    ulpscope.save(path, tensors)
    loaded = ulpscope.load(path, framework=framework)
    loaded["x"][:] = 5
    assert_same(torch.as_tensor(loaded["y"]), tensors["y"])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's account of memory")
@pytest.mark.parametrize("framework", ["torch", "numpy"])
@pytest.mark.parametrize("suffix", [".npy", ".safetensors"])
def test_on_request_loading_maps_instead_of_copying(suffix: str, framework: Any, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    large_file(path)
    gc.collect()
    before = resident("VmRSS")
    x = named(path, ulpscope.load(path, framework=framework, mmap=True))
    assert int(x[LARGE // 2]) == 0
    assert resident("VmRSS") - before < LARGE // 16
    before = resident("RssAnon")
    assert ulpscope.stats(path).zeros == LARGE
    assert ulpscope.stats(x).zeros == LARGE
    assert resident("RssAnon") - before < LARGE // 16


@pytest.mark.parametrize("mmap", [False, True], ids=["copied", "mapped"])
@pytest.mark.parametrize("framework", ["torch", "numpy"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_writing_to_a_loaded_tensor_does_not_reach_the_file(
    suffix: str, framework: Any, mmap: bool, tmp_path: Path
) -> None:
    path = tmp_path / f"x{suffix}"
    ulpscope.save(path, torch.zeros(5000) if suffix == ".npy" else {"x": torch.zeros(5000)})
    before = path.read_bytes()
    x = named(path, ulpscope.load(path, framework=framework, mmap=mmap))
    x[:] = 7
    assert float(x.sum()) == 35_000
    assert path.read_bytes() == before
    assert float(named(path, ulpscope.load(path)).sum()) == 0


@pytest.mark.parametrize("mmap", [False, True], ids=["copied", "mapped"])
@pytest.mark.parametrize("framework", ["torch", "numpy"])
def test_a_loaded_tensor_outlives_its_file_and_its_neighbours(
    framework: Any, mmap: bool, tmp_path: Path
) -> None:
    path = tmp_path / "x.safetensors"
    ulpscope.save(path, {"x": torch.arange(100_000.0), "y": torch.ones(3)})
    x = ulpscope.load(path, framework=framework, mmap=mmap)["x"][10:]
    path.unlink()
    gc.collect()
    assert float(x[-1]) == 99_999


@pytest.mark.parametrize("mmap", [False, True], ids=["copied", "mapped"])
def test_a_file_can_be_saved_over_what_was_loaded_from_it(mmap: bool, tmp_path: Path) -> None:
    for suffix in SUFFIXES:
        path = tmp_path / f"x{suffix}"
        x = torch.arange(50_000.0)
        ulpscope.save(path, x if suffix == ".npy" else {"x": x})
        loaded = ulpscope.load(path, mmap=mmap)
        ulpscope.save(path, loaded)
        assert_same(named(path, ulpscope.load(path)), x)
        assert_same(named(path, loaded), x)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == sorted(SUFFIXES)
