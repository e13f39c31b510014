"""The fused kernel on a GPU: numbers and digests of every dtype and layout, order, streams, graphs.

Skipped where there is no GPU: there `crates/gpu/tests` run the same kernel on the host.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("needs torch 2.10, whose tensors give their address and stream", allow_module_level=True)

import ulpscope  # noqa: E402

pytestmark = pytest.mark.gpu

# How far sums may be from those of the host: docs/capture.md states it.
BOUND = 1e-12

FLOATS = ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
NARROW = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
INTS = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"]


def calls(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "step0" / "rank" / "dump.json").read_text())["data"]


def ledger(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "step0" / "rank" / "ledger.json").read_text())


def assert_kernel_was_used(folder: Path) -> None:
    found = ledger(folder)
    assert (found["failed"], found["unread"], found["notes"]) == ({}, {}, [])


def test_the_kernel_passes_its_self_check(tmp_path):
    with ulpscope.capture(tmp_path, digest="mix64"):
        torch.sin(torch.ones(5, device="cuda"))
    assert_kernel_was_used(tmp_path)
    item = calls(tmp_path)["Torch.sin.0.forward"]["input_args"][0]
    assert (item["Max"], item["Min"], item["Mean"]) == (1, 1, 1)
    assert item["md5"] == ulpscope.digest(torch.ones(5), "mix64")


def bits(dtype: torch.dtype, count: int) -> torch.Tensor:
    """A tensor of random bits: all sizes of numbers, NaN and infinities among them."""
    generator = torch.Generator().manual_seed(7)
    if dtype is torch.bool:
        return torch.randint(0, 2, (count,), generator=generator).bool()
    size = torch.empty(0, dtype=dtype).element_size()
    random = torch.randint(0, 256, (count * size,), dtype=torch.uint8, generator=generator)
    return random.view(dtype)


def numbers(dtype: torch.dtype, count: int) -> torch.Tensor:
    """Ordinary numbers, whose sums can be compared."""
    generator = torch.Generator().manual_seed(8)
    if dtype.is_floating_point or dtype.is_complex:
        wide = torch.complex128 if dtype.is_complex else torch.float64
        values = torch.randn(count, dtype=wide, generator=generator)
        return (values.abs() if dtype.itemsize == 1 else values).to(dtype)
    return torch.randint(0, 2 if dtype is torch.bool else 100, (count,), generator=generator).to(dtype)


LAYOUTS = {
    "packed": lambda x: x,
    "not aligned": lambda x: x[1:],
    "transposed": lambda x: x[: 300 * 210].view(300, 210).t(),
    "rows": lambda x: x[: 300 * 256].view(300, 256)[:, 64:192],
    "heads": lambda x: x[: 4 * 64 * 4 * 64].view(4, 64, 4, 64).transpose(1, 2),
    "gaps": lambda x: x[: 300 * 210].view(300, 210)[::3, 1::2],
    "expanded": lambda x: x[:300].view(300, 1).expand(300, 65),
    "scalar": lambda x: x[3].reshape(()),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", FLOATS + NARROW + INTS)
def test_every_dtype_and_layout_is_measured_as_on_the_host(tmp_path, dtype, layout):
    if not hasattr(torch, dtype):
        pytest.skip(f"this release of torch has no {dtype}")
    kind = getattr(torch, dtype)
    for name, made in (("bits", bits), ("numbers", numbers)):
        host = LAYOUTS[layout](made(kind, 100_003))
        device = LAYOUTS[layout](made(kind, 100_003).cuda())
        assert (host.stride(), host.shape) == (device.stride(), device.shape)
        for where, tensor in (("host", host), ("device", device)):
            with ulpscope.capture(tmp_path / name / where, digest="mix64"):
                torch.atleast_1d(tensor)
        assert_kernel_was_used(tmp_path / name / "device")
        expected, found = (
            next(iter(calls(tmp_path / name / where).values()))["input_args"][0]
            for where in ("host", "device")
        )
        assert list(found) == list(expected)
        for key, value in expected.items():
            if key in ("Mean", "Norm") and isinstance(value, float) and value == value and name == "numbers":
                assert found[key] == pytest.approx(value, rel=BOUND, abs=BOUND * expected["Norm"]), key
            elif key not in ("Mean", "Norm"):
                assert str(found[key]) == str(value), key
        if name == "bits" and expected["Norm"] is not None:
            # Not finite on both, or close.
            assert str(found["Norm"]) == str(expected["Norm"]) or found["Norm"] == pytest.approx(
                expected["Norm"], rel=BOUND
            )


def test_large_tensors_and_endless_ones(tmp_path):
    x = torch.randn(1 << 27, device="cuda")
    endless = torch.randn(5, 1, device="cuda").expand(5, 1 << 40)
    with ulpscope.capture(tmp_path):
        torch.atleast_1d(x)
        torch.atleast_1d(endless)
    assert_kernel_was_used(tmp_path)
    large, expanded = (call["input_args"][0] for call in calls(tmp_path).values())
    assert large["Max"] == x.max().item()
    assert large["Norm"] == pytest.approx(torch.linalg.vector_norm(x, dtype=torch.float64).item(), rel=1e-12)
    assert expanded["Max"] == endless[:, 0].max().item()
    assert expanded["Mean"] == pytest.approx(endless[:, 0].double().mean().item(), rel=1e-12)


def keep_busy(x: torch.Tensor) -> torch.Tensor:
    """Has the device work for a while: what is asked of it next waits."""
    for _ in range(50):
        x = x @ x / 64
    return x


def test_changes_in_place_and_memory_that_is_used_again_are_seen_in_order(tmp_path):
    with ulpscope.capture(tmp_path):
        keep_busy(torch.ones(4096, 4096, device="cuda") / 64)
        for number in range(200):
            y = torch.full((1 << 18,), float(number), device="cuda")
            torch.atleast_1d(y)
            y.fill_(-1)
            # Its memory is that of the next.
            del y
    assert_kernel_was_used(tmp_path)
    found = [call["input_args"][0]["Max"] for name, call in calls(tmp_path).items() if "atleast_1d" in name]
    assert found == list(range(200))


def test_side_streams_have_their_own_order(tmp_path):
    streams = [torch.cuda.Stream() for _ in range(6)]
    x = torch.ones(1 << 22, device="cuda")
    torch.cuda.synchronize()
    with ulpscope.capture(tmp_path):
        for round_ in range(20):
            for number, stream in enumerate(streams):
                with torch.cuda.stream(stream):
                    torch.atleast_1d(torch.mul(x, float(number * 20 + round_)))
        for stream in streams:
            torch.cuda.current_stream().wait_stream(stream)
    assert_kernel_was_used(tmp_path)
    found = [call["input_args"][0] for name, call in calls(tmp_path).items() if "atleast_1d" in name]
    expected = [float(number * 20 + round_) for round_ in range(20) for number in range(6)]
    assert [item["Max"] for item in found] == expected
    assert [item["Norm"] for item in found] == pytest.approx([value * 2**11 for value in expected], rel=1e-12)


def test_a_graph_can_be_captured_replayed_and_is_counted(tmp_path):
    weight, static = torch.randn(32, 32, device="cuda"), torch.randn(8, 32, device="cuda")
    for _ in range(2):
        torch.relu(static @ weight)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with ulpscope.capture(tmp_path):
        # The kernel is ready before the graph is captured, and its memory allocated.
        torch.sin(static)
        with torch.cuda.graph(graph):
            out = torch.relu(static @ weight)
        static.copy_(torch.ones_like(static))
        graph.replay()
        torch.cos(out)
    assert torch.equal(out, torch.relu(static @ weight))
    assert ledger(tmp_path)["unread"]["inside a captured graph"] >= 3
    found = calls(tmp_path)
    assert found["Torch.cos.0.forward"]["input_args"][0]["Max"] == out.max().item()
    assert found["Torch.sin.0.forward"]["input_args"][0]["Max"] is not None


def test_a_graph_may_be_the_first_thing_that_is_captured(tmp_path):
    static = torch.randn(8, 32, device="cuda")
    torch.sin(static)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with ulpscope.capture(tmp_path), torch.cuda.graph(graph):
        out = torch.sin(static)
    graph.replay()
    assert torch.equal(out, torch.sin(static))


def test_first_bad_call_is_recorded(tmp_path):
    x = torch.full((1000,), 6e4, device="cuda", dtype=torch.float16)
    with ulpscope.capture(tmp_path):
        y = x * 2
        y - y
    assert_kernel_was_used(tmp_path)
    product, difference = (call["output"][0] for call in calls(tmp_path).values())
    assert (product["nan"], product["inf"]) == (0, 1000)
    assert (difference["nan"], difference["inf"]) == (1000, 0)


@pytest.mark.parametrize("where", ["auto", "torch"])
def test_overflow_check_on_the_gpu(tmp_path, where):
    """Found on the device, on two streams, without a synchronisation within the step."""
    x = torch.full((1000,), 6e4, device="cuda", dtype=torch.float16)
    mask = torch.ones(1000, device="cuda", dtype=torch.bool)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    settings = {"task": "overflow_check", "overflow_nums": -1, "device_statistics": where}
    with ulpscope.capture(tmp_path, strict=True, **settings) as run:
        torch.cuda.set_sync_debug_mode("error")
        try:
            masked = torch.zeros_like(x).masked_fill(mask, float("-inf"))
            masked + 1
            y = x * 2
            y.zero_()
            with torch.cuda.stream(side):
                side.wait_stream(torch.cuda.default_stream())
                torch.exp(x)
            torch.empty(1000, device="cuda")
        finally:
            torch.cuda.set_sync_debug_mode("default")
        run.step()
        found = [one.call for one in run.overflows]
    assert found == ["Tensor.__mul__.0.forward", "Torch.exp.0.forward"]


def test_without_nvrtc_torch_measures_and_the_ledger_says_so(tmp_path):
    # In a process of its own: an empty cache, and a torch without its libraries beside it.
    program = """
        import sys, pathlib, torch
        import ulpscope
        sys.modules["torch"].__file__ = "/nonexistent/torch/__init__.py"
        with ulpscope.capture(sys.argv[1]):
            torch.sin(torch.ones(5, device="cuda"))
    """
    import textwrap

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "dump")],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    item = calls(tmp_path / "dump")["Torch.sin.0.forward"]["input_args"][0]
    assert item["Max"] == 1
    notes = ledger(tmp_path / "dump")["notes"]
    # Where the loader finds a toolkit of the system, that is used.
    assert notes == [] or any("operations of torch" in note for note in notes)


def test_memory_of_the_device_is_bounded(tmp_path):
    x = torch.randn(1 << 24, device="cuda")
    torch.cuda.synchronize()
    before = torch.cuda.mem_get_info()[0]
    with ulpscope.capture(tmp_path) as run:
        for _ in range(500):
            torch.atleast_1d(x)
        run.step()
        used = before - torch.cuda.mem_get_info()[0]
    assert used <= 256 << 20, used
