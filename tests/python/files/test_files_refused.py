"""Invalid files and arguments: one clear error each, nothing runs, no files are left."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ulpscope
from judges import SUFFIXES

READERS = [ulpscope.load, ulpscope.stats, lambda path: ulpscope.diff(path, path)]


class Touch:
    """Unpickles by making a file."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return os.mkdir, (str(self.canary),)


def test_the_canary_sings_when_somebody_unpickles_it(tmp_path: Path) -> None:
    torch.save({"w": Touch(tmp_path / "canary")}, tmp_path / "x.pt")
    torch.load(tmp_path / "x.pt", weights_only=False)
    assert (tmp_path / "canary").exists()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("form", ["zip", "legacy", "bare"])
def test_a_pickle_that_would_run_code(form: str, protocol: int, tmp_path: Path) -> None:
    canary, path = tmp_path / "canary", tmp_path / "x.pt"
    value = {"w": torch.ones(2), "evil": [Touch(canary)]}
    if form == "bare":
        path.write_bytes(pickle.dumps(value["evil"], protocol))
    else:
        torch.save(value, path, pickle_protocol=protocol, _use_new_zipfile_serialization=form == "zip")
    for read in READERS:
        with pytest.raises(ulpscope.FormatError) as raised:
            read(path)
        assert str(raised.value).startswith(str(path))
        if form != "bare":
            assert "the file asks to run posix.mkdir, which is refused" in str(raised.value)
    assert not canary.exists()


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_object_arrays(suffix: str, tmp_path: Path) -> None:
    canary, path = tmp_path / "canary", tmp_path / f"x{suffix}"
    array = np.array([Touch(canary), None], dtype=object)
    if suffix == ".npy":
        np.save(path, array, allow_pickle=True)
        for read in READERS:
            with pytest.raises(
                ulpscope.FormatError, match="an object array: its elements are a Python pickle"
            ):
                read(path)
    else:
        # One array that cannot be read does not lose the others.
        np.savez(path, allow_pickle=True, good=np.ones(3), bad=array)
        found = ulpscope.load(path)
        assert found["good"].tolist() == [1, 1, 1]
        assert found["bad"].reason.startswith("an object array")
        assert repr(found["bad"]).startswith('Unread("an object array')
        with pytest.raises(ValueError, match="bad: was not read, and is not written: an object array"):
            ulpscope.save(tmp_path / "again.pt", found)
        with pytest.raises(ValueError, match=r"x\.npz: not every tensor can be read: bad: an object array"):
            ulpscope.diff(path, path)
        with pytest.warns(UserWarning, match="not every tensor can be read: bad: an object array"):
            assert ulpscope.stats(path).max == 1
    assert not canary.exists()


@pytest.mark.parametrize("read", READERS, ids=["load", "stats", "diff"])
def test_a_file_that_is_not_there(read: Any, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        read(tmp_path / "nothing.npy")
    path = str(tmp_path / "nothing.npy")
    assert (raised.value.strerror, raised.value.filename) == ("No such file or directory", path)
    assert str(raised.value) == f"[Errno 2] No such file or directory: {path!r}"
    with pytest.raises(ulpscope.FormatError, match="expected a regular file, found a folder"):
        read(tmp_path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_cut_file(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    ulpscope.save(path, torch.ones(500) if suffix == ".npy" else {"x": torch.ones(500)})
    whole = path.read_bytes()
    for length in (0, 1, 7, 8, 9, 50, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        for read in READERS:
            with pytest.raises(ulpscope.FormatError) as raised:
                read(path)
            assert str(raised.value).startswith(f"{path}: ")


def test_a_file_of_no_known_format(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello, world")
    with pytest.raises(ulpscope.FormatError, match="of no known format: it begins with hello, w"):
        ulpscope.load(path)


def test_a_format_error_is_a_value_error() -> None:
    assert issubclass(ulpscope.FormatError, ValueError)
    assert ulpscope.FormatError.__module__ == "ulpscope"


@pytest.mark.parametrize("name", ["x", "x.txt", "x.npy.gz", ".npy"])
def test_a_suffix_that_names_no_format(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"the suffix names no format; expected \.npy, \.npz, \.pt or \.safetensors"
    ):
        ulpscope.save(tmp_path / name, torch.zeros(1))
    assert list(tmp_path.iterdir()) == []


def test_a_save_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    ulpscope.save(path, torch.ones(2))
    with pytest.raises(ulpscope.FormatError, match=r"x\.npy: a \.npy file holds one tensor, and there are 2"):
        ulpscope.save(path, [torch.zeros(1), torch.zeros(1)])
    with pytest.raises(TypeError):
        ulpscope.save(path, object())
    assert ulpscope.load(path).tolist() == [1, 1]
    with pytest.raises(FileNotFoundError):
        ulpscope.save(tmp_path / "missing" / "x.npy", torch.ones(2))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "value", [{"a": {"b": torch.ones(1)}}, {"a": 1}, [torch.ones(1)], {3: torch.ones(1)}]
)
def test_what_an_npz_has_no_place_for(value: Any, tmp_path: Path) -> None:
    with pytest.raises(ulpscope.FormatError, match=r"x\.npz: "):
        ulpscope.save(tmp_path / "x.npz", value)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors", ".acl", ".pkl"])
def test_nothing_is_left_out_in_silence(suffix: str, tmp_path: Path) -> None:
    value = {"a": torch.ones(1), "n": 5, "deep": {"text": "x"}}
    with pytest.raises(ulpscope.FormatError, match=r"has no place for what is no tensor: n, deep\.text$"):
        ulpscope.save(tmp_path / f"x{suffix}", value)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_saved_is_named(tmp_path: Path) -> None:
    message = r"^a\.1: expected a tensor, a plain value or a container of them, found object$"
    with pytest.raises(TypeError, match=message):
        ulpscope.save(tmp_path / "x.pt", {"a": [1, object()]})
    with pytest.raises(TypeError, match=r"^a\.b: a tensor of dtype str\d+ cannot be measured$"):
        ulpscope.save(tmp_path / "x.pt", {"a": {"b": np.array(["text"])}})


def test_a_document_as_deep_as_is_read(tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_text('{"a":' * 1000 + "1" + "}" * 1000)
    value, depth = ulpscope.load(path), 0
    while isinstance(value, dict):
        value, depth = value["a"], depth + 1
    assert (value, depth) == (1, 1000)
    path.write_text('{"a":' * 2000 + "1" + "}" * 2000)
    with pytest.raises(ulpscope.FormatError, match="nested deeper than 1024 levels"):
        ulpscope.load(path)


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x"])
def test_names_that_would_leave_the_archive(name: str, tmp_path: Path) -> None:
    with pytest.raises(ulpscope.FormatError, match="leads out of its folder"):
        ulpscope.save(tmp_path / "x.npz", {name: torch.ones(1)})


def test_containers_without_end(tmp_path: Path) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="containers are nested deeper than 100 levels"):
        ulpscope.save(tmp_path / "x.pt", endless)


@pytest.mark.parametrize("x", [None, 3, 2.5, [1.0], {"a": 1}, {1}, object(), b"bytes"], ids=type)
def test_what_is_no_tensor_is_not_measured(x: Any) -> None:
    for call in (ulpscope.stats, ulpscope.digest, lambda x: ulpscope.diff(x, torch.ones(1))):
        with pytest.raises(TypeError, match="expected a torch tensor, a numpy array or a path, found "):
            call(x)


@pytest.mark.parametrize(
    "array",
    [
        np.array([None]),
        np.array(["text"]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.zeros(2, dtype=[("a", "f4"), ("b", "f4")]),
        np.zeros(2, dtype=np.longdouble),
    ],
    ids=lambda array: array.dtype.name,
)
def test_arrays_without_numbers_are_not_measured(array: np.ndarray[Any, Any], tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"^a tensor of dtype .+ cannot be measured$"):
        ulpscope.stats(array)
    with pytest.raises(TypeError, match=r"^x: a tensor of dtype .+ cannot be measured$"):
        ulpscope.save(tmp_path / "x.pt", {"x": array})


class Wrapper(torch.Tensor):
    """A shape around other tensors, as a FakeTensor or a DTensor is."""

    @classmethod
    def __torch_dispatch__(cls, *_: Any) -> Any:
        return NotImplemented


def test_tensors_without_elements_in_memory() -> None:
    with pytest.raises(
        ValueError, match=r"expected a dense tensor, found torch\.sparse_coo: use \.to_dense\(\)"
    ):
        ulpscope.stats(torch.eye(3).to_sparse())
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        ulpscope.stats(torch.empty(3, device="meta"))
    wrapper = torch.Tensor._make_wrapper_subclass(Wrapper, (3,))
    for call in (ulpscope.stats, ulpscope.digest, lambda x: ulpscope.diff(x, torch.ones(3))):
        with pytest.raises(ValueError, match="the tensor has a shape but no memory"):
            call(wrapper)


def test_a_framework_that_is_not_known(tmp_path: Path) -> None:
    ulpscope.save(tmp_path / "x.npy", torch.ones(1))
    with pytest.raises(ValueError, match='framework is \'jax\'; expected "torch" or "numpy"'):
        ulpscope.load(tmp_path / "x.npy", framework="jax")  # type: ignore[arg-type]


def test_numpy_without_ml_dtypes(tmp_path: Path) -> None:
    ulpscope.save(tmp_path / "x.npy", torch.ones(1, dtype=torch.bfloat16))
    script = "import sys; sys.modules['ml_dtypes'] = None; import ulpscope; ulpscope.load('x.npy', 'numpy')"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    expected = "TypeError: numpy has no bfloat16: install ml_dtypes, or load with framework='torch'"
    assert done.stderr.splitlines()[-1] == expected


def test_an_archive_that_unfolds_a_thousandfold_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "zeros.npz"
    np.savez_compressed(path, x=np.zeros(75_000_000, np.float32))
    assert path.stat().st_size < 1_000_000
    # What is unfolded lies in a file without a name, whose pages the system can take back. Private memory is
    # limited.
    script = """
import resource, sys, ulpscope
resource.setrlimit(resource.RLIMIT_DATA, (200 << 20, 200 << 20))
assert ulpscope.stats(sys.argv[1]).zeros == 75_000_000
"""
    environment = os.environ | {"RAYON_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", script, path], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == [path]
