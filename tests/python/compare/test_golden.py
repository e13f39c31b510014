"""Every file in the golden archives: each reads, with the values that its own tool's reader gives."""

from __future__ import annotations

import csv
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import golden
import ulpscope
from places import TEST_ALL

Archive = Callable[[str], Path]

# Pickled handles of TensorFlow variables, which numpy itself does not read without running the pickle.
OBJECT_ARRAYS = {"acl": 8, "ptdbg": 0}

# What the parts of an ACL dump are called in msaicerr's listing, and here.
ACL_NAMES = {"input": "input", "output": "output", "buffer": "l1buffer", "space": "space"}
ACL_TENSORS = 120
# string, variant: no elements of numbers.
ACL_UNREAD = {"13", "26"}
# int4, uint1, float4_e2m1: unpacked, so that their bytes are not those of the file.
ACL_PACKED = {"28", "29", "39"}


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """The folder of an unpacked archive, by the archive's name."""
    unpacked: dict[str, Path] = {}

    def folder_of(name: str) -> Path:
        if name not in unpacked:
            unpacked[name] = golden.unpack(name, tmp_path_factory.mktemp("golden"))
        return unpacked[name]

    return folder_of


def files(folder: Path, pattern: str) -> list[Path]:
    found = sorted(path for path in folder.rglob(pattern) if path.is_file())
    assert found, f"no {pattern} in {folder}"
    return found


def same_array(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> bool:
    """The same bits. What numpy has no name for it reads as opaque bytes of the same size."""
    same_dtype = found.dtype == expected.dtype or expected.dtype.kind == "V"
    return same_dtype and found.shape == expected.shape and found.tobytes() == expected.tobytes()


def same_tensor(found: torch.Tensor, expected: torch.Tensor) -> bool:
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return False
    raw = [x.detach().contiguous().flatten().view(torch.uint8) for x in (found, expected)]
    return torch.equal(*raw)


def same_value(found: Any, expected: Any) -> bool:
    """Trees of plain values with tensors at their leaves."""
    if isinstance(expected, torch.Tensor):
        return isinstance(found, torch.Tensor) and same_tensor(found, expected)
    if isinstance(expected, dict):
        return list(found) == list(expected) and all(
            same_value(found[key], expected[key]) for key in expected
        )
    if isinstance(expected, (list, tuple)):
        return len(found) == len(expected) and all(map(same_value, found, expected))
    return type(found) is type(expected) and repr(found) == repr(expected)


def as_text(value: Any) -> str:
    """Plain values so that NaN equals NaN, 1 is not 1.0, and the order of keys counts."""
    return json.dumps(value)


def read_lines(path: Path) -> list[Any]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


@pytest.mark.parametrize(("name", "count"), [("acl", 185), ("ptdbg", 3050)])
def test_every_npy(archive: Archive, name: str, count: int) -> None:
    objects, wrong = 0, []
    paths = files(archive(name), "*.npy")
    for path in paths:
        try:
            expected = np.load(path, allow_pickle=False)
        except ValueError:
            with pytest.raises(ulpscope.FormatError, match="an object array"):
                ulpscope.load(path)
            objects += 1
            continue
        if not same_array(ulpscope.load(path, framework="numpy"), expected):
            wrong.append(path)
    assert not wrong
    assert (len(paths), objects) == (count, OBJECT_ARRAYS[name])


def test_every_npz(archive: Archive) -> None:
    for path in files(archive("acl"), "*.npz"):
        found = ulpscope.load(path, framework="numpy")
        with np.load(path, allow_pickle=False) as expected:
            assert list(found) == list(expected)
            assert [name for name in expected if not same_array(found[name], expected[name])] == []


def test_every_pt(archive: Archive) -> None:
    paths = files(archive("msprobe"), "*.pt")
    wrong = [
        path for path in paths if not same_value(ulpscope.load(path), torch.load(path, weights_only=True))
    ]
    assert not wrong
    assert len(paths) == 2696


def test_a_digest_of_a_whole_tree_of_pt_files_is_that_of_the_bytes(archive: Archive) -> None:
    for path in files(archive("msprobe") / "dumps" / "edge_tensor_L1", "*.pt"):
        x = torch.load(path, weights_only=True)
        raw = bytes(x.contiguous().flatten().view(torch.uint8).tolist())
        assert ulpscope.digest(ulpscope.load(path), "md5") == hashlib.md5(raw).hexdigest(), path


@pytest.mark.parametrize("name", ["dump.json", "stack.json", "construct.json"])
def test_every_json_of_msprobe(archive: Archive, name: str) -> None:
    paths = files(archive("msprobe"), name)
    for path in paths:
        assert as_text(ulpscope.load(path)) == as_text(json.loads(path.read_text())), path
    assert len(paths) == 49


def entries(value: Any) -> Iterator[dict[str, Any]]:
    """Every object within a record of msprobe."""
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
        yield from entries(item)


def run_stats(*paths: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "ulpscope", "stats", "--json", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_the_command_counts_what_msprobe_recorded(archive: Archive) -> None:
    folder = archive("msprobe")
    paths = [path for name in ("dump", "stack", "construct") for path in files(folder, f"{name}.json")]
    records = {record["file"]: record for record in run_stats(*paths)["records"]}
    for path in paths:
        found, expected = records[str(path)], json.loads(path.read_text())
        assert "breaks_off" not in found, path
        match path.name:
            case "dump.json":
                kinds = [entry.get("type") for entry in entries(expected["data"])]
                assert found["tensors"] == sum(kind == "torch.Tensor" for kind in kinds), path
                assert found["calls"] == len(expected["data"]), path
                assert (found["task"], found["level"]) == (expected["task"], expected["level"]), path
            case "stack.json":
                assert found["stacks"] == len(expected), path
            case _:
                assert found["links"] == len(expected), path


def test_every_pkl_of_ptdbg(archive: Archive) -> None:
    paths = files(archive("ptdbg"), "*.pkl")
    for path in paths:
        assert as_text(ulpscope.load(path)) == as_text(read_lines(path)), path
    records = {record["file"]: record for record in run_stats(*paths)["records"]}
    for path in paths:
        found, lines = records[str(path)], read_lines(path)
        stacks = sum(line[0].endswith("stack_info") for line in lines)
        assert (found["stacks"], found["entries"]) == (stacks, len(lines) - stacks), path
        assert (found["other_lines"], found["unreadable_lines"]) == (0, 0), path
        expected = "ptdbg_ascend 6.0" if "v6.0" in path.parts else "ptdbg_ascend before 6.0"
        assert found["kind"] == expected, path
    assert len(paths) == 43


@pytest.mark.parametrize("name", ["base_full", "scale_full", "Overflow_info_20261115_061643"])
def test_whole_tensors_of_torch_npu_hooks(archive: Archive, name: str) -> None:
    path = archive("torch_npu_hooks") / f"{name}.pkl"
    found, lines = ulpscope.load(path), read_lines(path)
    assert list(found) == [line[0] for line in lines]
    tensors = 0
    for line in lines:
        if len(line) != 4:
            assert found[line[0]] == line[1]
            continue
        tensors += 1
        expected = torch.tensor(line[1], dtype=torch.float64).reshape(line[3])
        assert str(found[line[0]].dtype) == line[2]
        assert same_tensor(found[line[0]].double(), expected), line[0]
    assert tensors == {"base_full": 149, "scale_full": 149}.get(name, tensors) > 0


@pytest.mark.parametrize("name", ["base_sample", "scale_sample", "sched"])
def test_samples_of_torch_npu_hooks(archive: Archive, name: str) -> None:
    path = archive("torch_npu_hooks") / f"{name}.pkl"
    assert as_text(ulpscope.load(path)) == as_text(read_lines(path))


def test_every_tensor_of_every_acl_dump_has_the_bytes_that_msaicerr_found(archive: Archive) -> None:
    folder = archive("acl")
    with (folder / "expected" / "msaicerr_header_listing.csv").open() as listing:
        rows = [row for row in csv.DictReader(listing) if row["kind"] in ACL_NAMES]
    # The listing names a few files that the archive has not.
    rows = [row for row in rows if (folder / "inputs" / row["file"]).exists()]
    paths = sorted({folder / "inputs" / row["file"] for row in rows})
    command = [sys.executable, "-m", "ulpscope", "stats", "--json", "--digest", "md5", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True)
    read = json.loads(done.stdout)
    tensors = {f"{tensor['file']}:{tensor['name']}": tensor for tensor in read["tensors"]}
    reasons = dict(error.split(": ", 1) for error in read["errors"])
    checked = unread = packed = 0
    for row in rows:
        key = f"{folder / 'inputs' / row['file']}:{ACL_NAMES[row['kind']]}.{row['index']}"
        if key in reasons:
            assert row["data_type"] in ACL_UNREAD, row
            assert "raw bytes are kept" in reasons[key]
            unread += 1
            continue
        if row["data_type"] in ACL_PACKED:
            packed += 1
            continue
        expected = row["md5_of_raw_data"]
        if "padded" in row["file"]:
            expected = hashlib.md5(np.arange(6, dtype=np.float32).tobytes()).hexdigest()
        assert tensors[key]["md5"] == expected, row
        if row["shape"] or row["kind"] == "output":
            assert tensors[key]["shape"] == [int(size) for size in row["shape"].split("x") if size], row
        checked += 1
    assert (checked, unread, packed) == (ACL_TENSORS, len(ACL_UNREAD), len(ACL_PACKED))


def converted(archive: Archive, case: str) -> list[tuple[Path, str, np.ndarray[Any, Any]]]:
    """What msaccucmp made of dumps: the dump, the name of the tensor in it, and the peer's array."""
    folder = archive("acl")
    sources = {path.name: path for path in (folder / "inputs").rglob("*[0-9]")}
    found = []
    for path in files(folder / "expected" / case, "*.npy"):
        source, kind, index = path.name.removesuffix(".npy").rsplit(".", 2)
        found.append((sources[source], f"{kind}.{index}", np.load(path, allow_pickle=False)))
    return found


@pytest.mark.parametrize("case", ["convert_dtype", "convert_net", "convert_multi", "mapping", "overflow_cmd"])
def test_tensors_of_acl_dumps_are_those_of_msaccucmp(archive: Archive, case: str) -> None:
    checked = 0
    for path, name, expected in converted(archive, case):
        if "allbytes" in path.name:
            continue  # The peer is wrong here; see the tables below.
        found = ulpscope.load(path, framework="numpy")[name]
        # The peer widens bfloat16, and calls float64 what has no elements.
        if found.dtype.name == "bfloat16" or found.size == 0:
            found = found.astype(expected.dtype)
        # The peer makes a vector of a scalar.
        assert same_array(found.reshape(expected.shape), expected), path
        assert found.shape in (expected.shape, ()), path
        checked += 1
    assert checked == {"convert_dtype": 20, "convert_net": 59, "convert_multi": 5}.get(case, checked) > 0


def test_buffers_of_an_acl_dump(archive: Archive) -> None:
    folder = archive("acl")
    path = files(folder / "inputs" / "zoo" / "multi", "Multi.*")[0]
    found = ulpscope.load(path)
    for name in ("l1buffer.0", "space.0"):
        expected = files(folder / "expected" / "convert_multi", f"*.{name}.bin")[0].read_bytes()
        assert bytes(found[name].tolist()) == expected


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2", "hifloat8"])
def test_all_256_codes_against_a_neutral_table(archive: Archive, kind: str) -> None:
    folder = archive("acl")
    path = files(folder / "inputs" / "zoo" / "dtype", f"Zoo.dt_{kind}_allbytes.*")[0]
    table = np.load(folder / "reference" / f"{kind}_256.npy").astype(np.float64)
    assert table.size == 256
    stats = ulpscope.stats(path)
    assert (stats.dtype, stats.shape) == (kind, (16, 16))
    assert stats.nan == int(np.isnan(table).sum())
    assert stats.finite_max == table[np.isfinite(table)].max()
    # Element by element: a difference of zero everywhere, and non-finite ones in the same places.
    found = ulpscope.diff(path, table.reshape(16, 16), atol=0, rtol=0)
    assert (found.max_abs, found.over_tolerance, found.non_finite_mismatched) == (0, 0, 0)
    # The check fails for a table with a single wrong entry.
    wrong = table.copy()
    wrong[0x21] *= 1.5
    assert ulpscope.diff(path, wrong.reshape(16, 16), atol=0, rtol=0).worst_index == 0x21


def test_torch_and_numpy_say_that_they_have_no_hifloat8(archive: Archive) -> None:
    path = files(archive("acl") / "inputs" / "zoo" / "dtype", "Zoo.dt_hifloat8_allbytes.*")[0]
    with pytest.raises(TypeError, match="torch has no hifloat8"):
        ulpscope.load(path, framework="torch")
    with pytest.raises(TypeError, match="numpy has no hifloat8"):
        ulpscope.load(path, framework="numpy")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("eight_bytes", "byte 0: expected a header length of at least 1, found 0: the dump is empty"),
        ("empty", "byte 0: truncated: expected 8 bytes of header length, found 0"),
        ("garbage_header", "byte 8: expected a number of at most 64 bits, found a longer one"),
        ("header_too_long", "byte 8: truncated: expected a header of 1000000 bytes"),
        ("truncated_data", "output.0: truncated: expected 32 bytes from byte 52, found 27"),
    ],
)
def test_bad_acl_dumps(archive: Archive, name: str, message: str) -> None:
    path = files(archive("acl") / "inputs" / "zoo" / "bad", f"Bad.{name}.*")[0]
    for read in (ulpscope.load, ulpscope.stats):
        with pytest.raises(ulpscope.FormatError) as raised:
            read(path)
        assert str(raised.value).startswith(f"{path}: {message}")


def test_bytes_after_the_data_of_an_acl_dump_are_tolerated(archive: Archive) -> None:
    path = files(archive("acl") / "inputs" / "zoo" / "bad", "Bad.trailing_bytes.*")[0]
    expected = np.load(files(archive("acl") / "expected" / "bad", "Bad.trailing_bytes.*.npy")[0])
    assert same_array(ulpscope.load(path, framework="numpy")["output.0"], expected)


def test_the_command_walks_every_archive_without_losing_a_tensor(archive: Archive) -> None:
    folder = archive("ptdbg")
    found = run_stats(folder)
    assert {row["file"] for row in found["tensors"]} == set(map(str, files(folder, "*.npy")))
    assert {row["file"] for row in found["records"]} == set(map(str, files(folder, "*.pkl")))
    assert found["errors"] == []


def test_a_missing_archive_is_skipped_unless_all_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(golden, "ARCHIVES", tmp_path)
    monkeypatch.delenv(TEST_ALL, raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"no golden archive .*acl\.tar\.gz"):
        golden.unpack("acl", tmp_path)
    monkeypatch.setenv(TEST_ALL, "1")
    with pytest.raises(pytest.fail.Exception, match=r"acl\.tar\.gz is missing"):
        golden.unpack("acl", tmp_path)
