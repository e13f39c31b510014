"""Capture on a GPU: the same promises as in ordinary memory. Skipped where there is none."""

import json
import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

import ulpscope  # noqa: E402

pytestmark = pytest.mark.gpu

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


class Block(torch.nn.Module):
    """Attention and a feed-forward layer, with an in-place activation."""

    def __init__(self, width=64, heads=4):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.mix = torch.nn.Linear(width, width)
        self.act = torch.nn.ReLU(inplace=True)
        self.out = torch.nn.Linear(width, width)
        self.heads = heads

    def forward(self, x):
        """One residual block."""
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        weights = torch.softmax(q @ k.transpose(-2, -1) / 4, dim=-1)
        y = (weights @ v).transpose(1, 2).reshape(batch, length, width)
        return x + self.out(self.act(self.mix(y)))


def train(device, steps=3, autocast=False, **capture):
    """Losses, gradients and parameters of a short training, and what was captured of it."""
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(Block() for _ in range(2))).to(device)
    # Left to itself, the optimizer takes another path on each device.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False, fused=False)
    data = [torch.randn(2, 16, 64).to(device) for _ in range(steps)]
    losses = []

    def loop(run):
        for x in data:
            optimizer.zero_grad()
            with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=autocast):
                loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach().cpu())
            if run is not None:
                run.step()

    if capture:
        with ulpscope.capture(model=model, **capture) as run:
            loop(run)
    else:
        loop(None)
    return [
        *losses,
        *(p.detach().cpu() for p in model.parameters()),
        *(p.grad.cpu() for p in model.parameters()),
    ]


def calls(folder: Path, step=0):
    """The calls of a step."""
    return json.loads((folder / f"step{step}" / "rank" / "dump.json").read_text())["data"]


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("level", ["L0", "L1", "mix", "L2"])
@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_every_bit_is_the_same(tmp_path, level, task, autocast):
    plain = train("cuda", autocast=autocast)
    captured = train("cuda", autocast=autocast, dump_path=tmp_path, level=level, task=task)
    assert all(torch.equal(one, other) for one, other in zip(plain, captured, strict=True))
    assert calls(tmp_path)
    ledger = json.loads((tmp_path / "step0" / "rank" / "ledger.json").read_text())
    assert (ledger["failed"], ledger["unread"], ledger["ended"]) == ({}, {}, None)


def test_statistics_are_those_of_the_elements(tmp_path):
    x = torch.randn(33, 65, device="cuda")
    x[0, 0], x[1, 1] = float("nan"), float("inf")
    with ulpscope.capture(tmp_path, task="tensor", file_format="pt", digest="xxh3"):
        torch.sin(x.t())
    item = calls(tmp_path)["Torch.sin.0.forward"]["input_args"][0]
    exact = x.t().cpu().double()
    finite = exact[exact.isfinite()]
    assert (item["nan"], item["inf"]) == (1, 1)
    assert (item["finite_max"], item["finite_min"]) == (finite.max().item(), finite.min().item())
    saved = torch.load(
        tmp_path / "step0" / "rank" / "dump_tensor_data" / item["data_name"], weights_only=True
    )
    assert torch.equal(saved.nan_to_num(7), x.t().cpu().nan_to_num(7))
    assert item["md5"] == ulpscope.digest(x.t().contiguous(), "xxh3")


def test_a_graph_can_be_captured_and_replayed(tmp_path):
    weight = torch.randn(32, 32, device="cuda")
    static = torch.randn(8, 32, device="cuda")
    for _ in range(2):
        torch.relu(static @ weight)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with ulpscope.capture(tmp_path):
        with torch.cuda.graph(graph):
            out = torch.relu(static @ weight)
        static.copy_(torch.ones_like(static))
        graph.replay()
        torch.cuda.synchronize()
    assert torch.equal(out, torch.relu(static @ weight))
    ledger = json.loads((tmp_path / "step0" / "rank" / "ledger.json").read_text())
    assert ledger["unread"]["inside a captured graph"] >= 3


def test_a_run_on_the_gpu_pairs_with_one_on_the_cpu(tmp_path):
    train("cuda", dump_path=tmp_path / "gpu", level="mix", task="tensor")
    train("cpu", dump_path=tmp_path / "cpu", level="mix", task="tensor")
    gpu, cpu = calls(tmp_path / "gpu"), calls(tmp_path / "cpu")
    same = [name for name in cpu if name in gpu]
    assert len(same) >= 0.95 * len(cpu)
    result = ulpscope.compare(tmp_path / "gpu", tmp_path / "cpu")
    assert result.first_divergence is None


def keep_busy(x):
    """Has the device work for a while: what is asked of it next waits."""
    for _ in range(50):
        x = x @ x / 64
    return x


@pytest.mark.parametrize("level", ["L1", "L2"])
def test_copies_that_are_not_waited_for_are_read_when_they_are_there(tmp_path, level):
    def copied():
        x = keep_busy(torch.ones(4096, 4096, device="cuda") / 64)
        made = (x[:64] * 0 + 7).to("cpu", non_blocking=True)
        buffer = torch.zeros(64, 4096, pin_memory=True)
        x = keep_busy(x)
        buffer.copy_(x[:64] * 0 + 9, non_blocking=True)
        return made, buffer

    copied()
    with ulpscope.capture(tmp_path, level=level):
        copied()
    torch.cuda.synchronize()
    names = {"L1": ("Tensor.to.0.forward", "Tensor.copy_.0.forward")}
    first, second = names.get(level, ("Aten._to_copy.0.forward", "Aten.copy_.0.forward"))
    found = calls(tmp_path)
    assert [found[first]["output"][0][name] for name in ("Max", "Min")] == [7, 7]
    assert [found[second]["output"][0][name] for name in ("Max", "Min")] == [9, 9]


@pytest.fixture
def no_waiting():
    """From the call of it on, torch raises where the program waits for the device."""
    yield lambda: torch.cuda.set_sync_debug_mode("error")
    torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_nothing_waits_for_the_device_within_a_step(tmp_path, level, no_waiting):
    model = Block().to("cuda")
    x = torch.randn(2, 16, 64, device="cuda")
    with ulpscope.capture(tmp_path, model, level=level) as run:
        no_waiting()
        model(x).square().mean().backward()
        # The step is ended while the next one runs.
        run.step()
        model(x).square().mean().backward()
        torch.cuda.set_sync_debug_mode("default")
    ledger = json.loads((tmp_path / "step0" / "rank" / "ledger.json").read_text())
    assert (ledger["failed"], ledger["unread"], ledger["notes"]) == ({}, {}, [])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "int32", "bool"])
def test_statistics_on_the_device_are_those_of_the_host(tmp_path, dtype):
    x = (torch.randn(3000, 3001, device="cuda") * 3).to(getattr(torch, dtype))
    for where in ("auto", "host"):
        with ulpscope.capture(tmp_path / where, device_statistics=where):
            torch.atleast_1d(x)
            torch.atleast_1d(x.t()[1::2])
    found, expected = calls(tmp_path / "auto"), calls(tmp_path / "host")
    for name, call in expected.items():
        item, other = call["input_args"][0], found[name]["input_args"][0]
        assert list(item) == list(other)
        bound = 1e-12 if x.is_complex() else 0
        for key in ("Max", "Min"):
            assert other[key] == pytest.approx(item[key], rel=bound, abs=0), key
        scale = 1e-12 * x.to(torch.complex128).abs().mean().item()
        assert other["Mean"] == pytest.approx(item["Mean"], rel=1e-12, abs=scale)
        assert other["Norm"] == pytest.approx(item["Norm"], rel=1e-12)


def test_later_changes_in_place_are_not_seen(tmp_path):
    x = torch.full((4096, 4096), 0.5, device="cuda")
    with ulpscope.capture(tmp_path):
        keep_busy(x / 64)
        y = torch.sin(x)
        y.fill_(7)
    assert calls(tmp_path)["Torch.sin.0.forward"]["output"][0]["Max"] == pytest.approx(0.479425, rel=1e-5)
