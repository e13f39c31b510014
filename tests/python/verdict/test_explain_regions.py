"""What is said of two different programs: where they part, in lines of both, or that they agree."""

import json
import math
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

import ulpscope


def run_command(arguments: list[str]) -> int:
    """The exit code of a command; what it prints is printed here."""
    return subprocess.run([sys.executable, "-m", *arguments], check=False).returncode


WIDTH, HEADS, LENGTH, BATCH, WORDS, LAYERS = 32, 4, 12, 3, 50, 3


@dataclass(frozen=True)
class Fault:
    """Constants of the hand-written program."""

    scale: float = 1 / math.sqrt(WIDTH // HEADS)
    eps: float = 1e-5


class Weights(nn.Module):
    """The weights of a layer, with separate projections."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.n1, self.n2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)


class ByHand(nn.Module):
    """Attention and norms by single operations."""

    def __init__(self, fault: Fault) -> None:
        super().__init__()
        self.fault = fault
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Weights() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, WORDS)

    def norm(self, norm: nn.LayerNorm, x: Tensor) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        variance = (x - mean).pow(2).mean(-1, keepdim=True)
        return (x - mean) * torch.rsqrt(variance + self.fault.eps) * norm.weight + norm.bias

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        batch, length = ids.shape
        for at, block in enumerate(self.blocks):
            assert isinstance(block, Weights)
            normed = self.norm(block.n1, x)
            projections = (block.q, block.k, block.v)
            query, key, value = (
                part(normed).view(batch, length, HEADS, -1).transpose(1, 2) for part in projections
            )
            scores = query @ key.transpose(-1, -2)
            scores = scores * (self.fault.scale if at == 1 else Fault.scale)
            mixed = torch.softmax(scores, -1) @ value
            x = x + block.o(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
            normed = self.norm(block.n2, x)
            x = x + block.down(F.gelu(block.up(normed)))
        head: Tensor = self.head(x)
        return head


class FusedLayer(nn.Module):
    """The same with a fused projection, fused attention and `layer_norm`."""

    def __init__(self) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        parts = self.qkv(self.ln1(x)).chunk(3, -1)
        query, key, value = (part.view(batch, length, HEADS, -1).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(query, key, value)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        result: Tensor = x + self.mlp(self.ln2(x))
        return result


class Fused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(FusedLayer() for _ in range(LAYERS))
        self.lm = nn.Linear(WIDTH, WORDS)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.emb(ids)
        for layer in self.layers:
            x = layer(x)
        result: Tensor = self.lm(x)
        return result


def by_hand(fault: Fault = Fault()) -> ByHand:  # noqa: B008
    torch.manual_seed(0)
    model = ByHand(fault)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, 0, 0.3)
    return model


def fused() -> Fused:
    """The port, with the weights of the other."""
    source, port = by_hand(), Fused()
    with torch.no_grad():
        port.emb.load_state_dict(source.words.state_dict())
        port.lm.load_state_dict(source.head.state_dict())
        for layer, block in zip(port.layers, source.blocks, strict=True):
            assert isinstance(layer, FusedLayer)
            assert isinstance(block, Weights)
            same = [(layer.ln1, block.n1), (layer.ln2, block.n2), (layer.out, block.o)]
            for own, other in [*same, (layer.mlp[0], block.up), (layer.mlp[2], block.down)]:
                own.load_state_dict(other.state_dict())
            parts = (block.q, block.k, block.v)
            layer.qkv.weight.copy_(torch.cat([part.weight for part in parts]))
            layer.qkv.bias.copy_(torch.cat([part.bias for part in parts]))
    return port


def captured(folder: Path, model: nn.Module, sizes: tuple[int, int] = (BATCH, LENGTH)) -> Path:
    torch.manual_seed(1)
    ids = torch.randint(0, WORDS, (BATCH, 2 * LENGTH))[: sizes[0], : sizes[1]]
    with torch.no_grad(), ulpscope.capture(folder, model=model, level="mix", task="tensor"):
        model(ids)
    return folder


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return captured(tmp_path_factory.mktemp("fused") / "dump", fused())


@pytest.fixture(scope="module")
def wrong_scale(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return captured(tmp_path_factory.mktemp("scale") / "dump", by_hand(Fault(scale=0.5)))


@pytest.fixture(scope="module")
def wrong_eps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return captured(tmp_path_factory.mktemp("eps") / "dump", by_hand(Fault(eps=1e-2)))


def section(text: str, heading: str) -> list[str]:
    """The lines of a section of an explanation."""
    _, _, rest = text.partition(f"{heading}\n")
    lines = []
    for line in rest.splitlines():
        if not line.startswith("  "):
            break
        lines.append(line)
    return lines


BETWEEN = "Between, in the {} (in execution order, * first to look at):"


def test_a_wrong_scale_is_between_two_lines_of_both_programs(wrong_scale: Path, golden: Path) -> None:
    compared = ulpscope.compare(wrong_scale, golden)
    assert compared.agreement == "differ"
    assert "the cause is among " in compared.reason
    text = compared.explain()
    where = section(text, "Where:")
    assert any(line.startswith("  after   ") and "(agrees" in line for line in where), text
    assert any(line.startswith("  before  ") and "(differs" in line for line in where), text
    # Lines of both programs, at both ends.
    assert sum(line.startswith("    target  ") for line in where) >= 2
    assert sum(line.startswith("    golden  ") for line in where) >= 2
    target = section(text, BETWEEN.format("target"))
    assert any("scores = scores * (self.fault.scale" in line for line in target), text
    assert sum(line.startswith("  * ") for line in target) == 1
    fused_call = section(text, BETWEEN.format("golden"))
    assert any("F.scaled_dot_product_attention(query, key, value)" in line for line in fused_call), text
    assert sum(line.startswith("  * ") for line in fused_call) == 1


def test_what_misleads_is_not_said_of_a_region(wrong_scale: Path, golden: Path) -> None:
    """Calls just before it, and inputs that nobody measured, are no evidence where programs differ."""
    text = ulpscope.compare(wrong_scale, golden).explain()
    for misleading in ("Just before it", "Its inputs show no difference", "Check why the two runs behave"):
        assert misleading not in text
    assert section(text, "What broke:")[0].startswith("  Most calls (")


def test_confidence_says_of_what(wrong_scale: Path, golden: Path) -> None:
    """That the difference arises between is measured; which call made it is not."""
    compared = ulpscope.compare(wrong_scale, golden)
    (line,) = (line for line in compared.explain().splitlines() if line.startswith("Confidence:"))
    assert line.startswith("Confidence: very high (1.00) that the difference arises between; ")
    first = compared.first_divergence
    assert first is not None
    assert f"({first.confidence:.2f}) that " in line


def test_the_listed_calls_are_in_execution_order_and_at_most_twelve(wrong_eps: Path, golden: Path) -> None:
    compared = ulpscope.compare(wrong_eps, golden)
    text = compared.explain()
    first = compared.first_divergence
    assert first is not None
    assert first.region is not None
    listed = section(text, BETWEEN.format("target"))
    names = [line[4:].split()[0] for line in listed if not line.startswith("  Not listed")]
    assert 0 < len(names) <= 12
    order = [call.name for call in first.region.target]
    assert [order.index(name) for name in names] == sorted(order.index(name) for name in names)
    assert any("torch.rsqrt(variance + self.fault.eps)" in line for line in listed), text


def test_next_names_both_calls_and_the_region(wrong_scale: Path, golden: Path, tmp_path: Path) -> None:
    first = ulpscope.compare(wrong_scale, golden).first_divergence
    assert first is not None
    text = ulpscope.compare(wrong_scale, golden).explain()
    commands = [line.strip() for line in section(text, "Next:") if line.strip().startswith("ulpscope ")]
    assert commands == [
        f"ulpscope show {wrong_scale} {first.call}",
        f"ulpscope show {golden} {first.golden_call}",
        "ulpscope explain RESULT --region 1",
    ]
    for command in commands[:2]:
        assert run_command(["ulpscope", *command.split()[1:]]) == 0


def test_a_region_is_typed_data_in_python(wrong_scale: Path, golden: Path) -> None:
    first = ulpscope.compare(wrong_scale, golden).first_divergence
    assert first is not None
    region = first.region
    assert isinstance(region, ulpscope.Region)
    (suspect,) = (call for call in region.target if call.role == "first")
    assert suspect.name == first.call
    assert [call.position for call in region.target] == sorted(call.position for call in region.target)
    scaled = [call for call in region.target if call.code and "self.fault.scale" in call.code]
    assert [call.results for call in scaled] == [[("torch.float32", [BATCH, HEADS, LENGTH, LENGTH])]]
    (attention,) = (call for call in region.golden if "scaled_dot_product_attention" in call.name)
    assert attention.module == "Module.layers.1.FusedLayer.forward.0"
    assert [call.role for call in region.before] == ["before", "before"]
    assert pickle.loads(pickle.dumps(first)) == first
    assert pickle.loads(pickle.dumps(region)) == region


def test_the_command_lists_a_region(
    wrong_scale: Path, golden: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    result = tmp_path / "result"
    run_command(["ulpscope", "compare", str(wrong_scale), str(golden), "-o", str(result)])
    capfd.readouterr()
    assert run_command(["ulpscope", "explain", str(result), "--region", "1"]) == 0
    listed = capfd.readouterr().out
    assert "float32 [3, 4, 12, 12]" in listed
    assert "Module.layers.1.FusedLayer.forward.0" in listed
    assert "- only moves elements, or is computed from no parameter" in listed
    assert run_command(["ulpscope", "explain", str(result), "--region", "1", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    first = ulpscope.compare(wrong_scale, golden).first_divergence
    assert first is not None
    assert first.region is not None
    for side in ("target", "golden"):
        expected = [(call.name, call.role) for call in getattr(first.region, side)]
        assert [(call["name"], call["role"]) for call in document[side]] == expected
    assert (document["region"], document["regions"]) == (1, 1)
    assert run_command(["ulpscope", "explain", str(result), "--region", "2"]) == 2
    assert "has 1 region: expected --region 1, found --region 2" in capfd.readouterr().err


def test_chinese_has_the_same_calls(wrong_scale: Path, golden: Path) -> None:
    compared = ulpscope.compare(wrong_scale, golden)
    english, chinese = compared.explain("en"), compared.explain("zh")
    own = section(chinese, "其间目标的调用（按执行顺序，* 为首先查看的调用）：")  # noqa: RUF001
    listed = [line for line in section(english, BETWEEN.format("target")) if "Not listed" not in line]
    assert own[: len(listed)] == listed


def test_a_healthy_port_says_how_it_differs(golden: Path, tmp_path: Path) -> None:
    """The calls differ, and so do the weights: one projection in place of three."""
    compared = ulpscope.compare(captured(tmp_path / "healthy", by_hand()), golden)
    assert compared.ok, compared.reason
    broke = section(compared.explain(), "What broke:")
    assert broke[0] == "  Nothing. The two runs agree."
    assert "The two programs make different calls (" in broke[1]
    assert "their final results agree: " in broke[1]
    parameters = f"{6 * LAYERS} parameters of the target and {2 * LAYERS} of the golden"
    assert broke[2].strip().startswith(parameters)
    assert "(the first: blocks.0.q.bias of the target)" in broke[2]
    assert "other weights, same function" in broke[2]


def test_the_same_program_is_not_called_different(tmp_path: Path) -> None:
    one, other = (captured(tmp_path / name, by_hand()) for name in ("one", "other"))
    text = ulpscope.compare(one, other).explain()
    assert "different calls" not in text
    assert "other weights" not in text


@pytest.mark.parametrize("sizes", [(BATCH, LENGTH + 4), (BATCH - 1, LENGTH)], ids=["length", "batch"])
def test_inputs_of_other_sizes_are_said_first(sizes: tuple[int, int], golden: Path, tmp_path: Path) -> None:
    cut = captured(tmp_path / "cut", by_hand(), sizes=sizes)
    compared = ulpscope.compare(cut, golden)
    dimension, own = (1, sizes[1]) if sizes[1] != LENGTH else (0, sizes[0])
    expected = f"dimension {dimension} is {own} against {(BATCH, LENGTH)[dimension]}"
    first = section(compared.explain(), "What broke:")[:2]
    assert any(expected in line for line in first), compared.explain()
    assert any(expected in note for note in compared.notes)
