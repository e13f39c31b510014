"""Pages of real runs: what the browser gets to see."""

from __future__ import annotations

import json
import pickle
import re
import signal
import subprocess
import urllib.request
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

import ulpscope
from dumps import PROGRAM
from pages import PageParts, html_of


class Net(nn.Module):
    def __init__(self, name: str = "fc") -> None:
        super().__init__()
        self.name = name
        self.add_module(name, nn.Linear(8, 8))
        self.out = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor, factor: float, extra: bool) -> torch.Tensor:
        x = F.relu(self.get_submodule(self.name)(x)) * factor
        if extra:
            x = torch.sin(torch.tanh(x))
        return self.out(x)


def train(
    folder: Path,
    *,
    factor: float = 1.0,
    extra: bool = False,
    steps: int = 1,
    name: str = "fc",
    scale: float = 1.0,
) -> Path:
    torch.manual_seed(0)
    model = Net(name)
    inputs = torch.randn(16, 8) * scale
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ulpscope.capture(folder, model=model, level="mix", task="tensor") as run:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = F.mse_loss(model(inputs, factor, extra), torch.zeros(16, 1))
            loss.backward()
            optimizer.step()
            run.step()
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    return {
        "golden": train(folder / "golden"),
        "target": train(folder / "target", factor=1.01),
        "other program": train(folder / "other", extra=True),
    }


def test_a_page_replaces_pages_alone(runs: dict[str, Path], tmp_path: Path) -> None:
    result = ulpscope.compare(runs["target"], runs["golden"])
    checkpoint = tmp_path / "weights.pt"
    torch.save({"weight": torch.ones(2)}, checkpoint)
    before = checkpoint.read_bytes()
    with pytest.raises(OSError, match="exists and is no page"):
        result.to_html(checkpoint)
    assert checkpoint.read_bytes() == before
    result.to_html(tmp_path)
    page = tmp_path / "report.html"
    written = page.read_bytes()
    result.to_html(page)
    assert page.read_bytes() == written


def test_a_page_has_flow_stacks_and_details(runs: dict[str, Path], tmp_path: Path) -> None:
    result = ulpscope.compare(runs["target"], runs["golden"])
    html = html_of(result)
    assert result.to_html(tmp_path / "page.html") is None
    assert (tmp_path / "page.html").read_text() == html
    page = PageParts(html)
    names, flow = page.calls("name"), page.json("flow/0")
    for side in ("target", "golden"):
        edges = {
            (names[source], names[to])
            for source, to in zip(flow[side]["from"], flow[side]["to"], strict=True)
        }
        assert ("Functional.linear.0.forward", "Functional.relu.0.forward") in edges
        assert ("Functional.relu.0.forward", "Tensor.__mul__.0.forward") in edges
        assert ("Functional.relu.0.backward", "Functional.linear.0.backward") in edges
        origins = {flow[side]["names"][name] for name in flow[side]["origins"]["name"]}
        assert "parameter:fc.weight" in origins
    call = page.call("Tensor.__mul__.0.forward")
    assert page.manifest["first"]["call"] == call
    assert "test_pages.py" in page.calls("stack")[call].splitlines()[0]
    assert "test_pages.py" in page.calls("golden_stack")[call]
    assert page.calls("path")[page.call("Functional.linear.0.forward")] == "fc"
    entries = {entry["entry"]: entry for entry in page.json(f"detail/0/{call}")["entries"]}
    assert (entries["input.1"]["target"]["value"], entries["input.1"]["golden"]["value"]) == ("1.01", "1.0")
    output = entries["output.0"]
    assert sum(output["histogram"]["target"]) == sum(output["histogram"]["golden"]) == 128
    assert output["errors"]["zero"] + sum(output["errors"]["counts"]) == 128
    assert output["target"]["stats"]["zeros"] == output["errors"]["zero"]
    assert output["worst"][0]["rel"] == pytest.approx(0.01, rel=1e-3)
    assert (
        output["row"] == page.manifest["first"]["row"]
        or entries["input.1"]["row"] == page.manifest["first"]["row"]
    )


def test_rows_of_a_page_are_those_of_the_result(runs: dict[str, Path]) -> None:
    result = ulpscope.compare(runs["target"], runs["golden"])
    page = PageParts(html_of(result, dumps=False))
    for column in ("call", "entry", "verdict", "class", "rel_l2", "max_abs", "target_norm", "why"):
        assert page.rows(column) == [row[column] for row in result.rows], column
    assert not any(name.startswith(("flow/", "detail/")) for name in page.parts)
    assert "were not read" in page.manifest["missing_details"]


def test_calls_of_one_side_are_a_region(runs: dict[str, Path]) -> None:
    page = PageParts(html_of(ulpscope.compare(runs["other program"], runs["golden"])))
    names = page.calls("name")
    regions = page.json("regions/0")
    (region,) = [one for one in regions if page.call("Torch.sin.0.forward") in one["target"]]
    assert page.call("Torch.tanh.0.forward") in region["target"]
    assert region["golden"] == []
    assert "Tensor.__mul__.0.forward" in {names[call] for call in region["inputs"]}
    assert "Functional.linear.1.forward" in {names[call] for call in region["outputs"]}
    assert page.calls("side")[page.call("Torch.sin.0.forward")] == "target"
    assert page.calls("region")[page.call("Torch.sin.0.forward")] == regions.index(region)
    # No row has numbers of a call that one side alone makes: what is computed from it differs by so much.
    first = page.manifest["first"]
    assert first["name"] in ("Torch.tanh.0.forward", "Torch.sin.0.forward")
    assert page.calls("error")[first["call"]] == pytest.approx(first["error"])
    assert page.calls("expected")[first["call"]] == pytest.approx(first["expected"])


def test_the_page_of_a_pickled_comparison_without_its_dumps(tmp_path: Path) -> None:
    target, golden = train(tmp_path / "a", factor=1.5), train(tmp_path / "b")
    stored = pickle.dumps(ulpscope.compare(target, golden))
    target.rename(tmp_path / "moved")
    page = PageParts(html_of(pickle.loads(stored)))
    assert page.manifest["first"]["name"] == "Tensor.__mul__.0.forward"
    assert "the target cannot be read" in page.manifest["missing_details"]


def test_a_notebook_shows_the_first_screen(runs: dict[str, Path]) -> None:
    result = ulpscope.compare(runs["target"], runs["golden"])
    html = result._repr_html_()
    document = ElementTree.fromstring(f"<div>{html}</div>")
    text = "".join(document.itertext())
    page = PageParts(html_of(result))
    first = page.manifest["first"]
    for shown in (
        "DIFFER",
        page.manifest["headline"]["sentence"],
        "First divergence",
        "Tensor.__mul__.0.forward (forward pass)",
        first["code"],
        first["entry"],
        first["why"],
        f"{first['error']:.3g}",
        "what rounding and the inputs allow",
        f"Confidence: very high ({first['confidence']:.2f})",
        "Next",
        "By class",
    ):
        assert shown in text, shown
    # The page has the same html for readers that run no script.
    assert html.split("<svg")[0] in page.around
    assert document.findall(".//svg")
    assert not document.findall(".//script")


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", "</script><img src=x>", "\u202eabc", "🔥", "a\nb", "x" * 3000]
)
def test_names_of_modules_are_text(name: str, tmp_path: Path) -> None:
    target, golden = train(tmp_path / "t", name=name, factor=1.01), train(tmp_path / "g", name=name)
    result = ulpscope.compare(target, golden)
    page = PageParts(html_of(result))
    plain = PageParts(html_of(ulpscope.compare(golden, golden)))
    assert page.around.count("<script") == plain.around.count("<script")
    assert page.around.count("<img") == plain.around.count("<img")
    assert "\u202e" not in page.around
    shown = name.replace("\u202e", "\\u{202e}").replace("\n", "\\n")
    assert any(path == shown for path in page.calls("path"))


def test_the_page_of_a_run_over_steps(tmp_path: Path) -> None:
    dump = train(tmp_path / "run", steps=4, scale=1e4)
    page = reported(dump, tmp_path)
    assert page.manifest["kind"] == "run"
    assert [rank["step"] for rank in page.manifest["ranks"]] == [0, 1, 2, 3]
    charts = {chart["key"] for chart in page.manifest["trends"]}
    assert {"loss", "gradients", "all_gradients", "outputs"} <= charts
    (loss,) = page.json("trends/loss")["series"]
    means = [page.rows("mean", rank)[row] for rank, row in enumerate(loss_rows(page))]
    assert [float(value) for value in loss["values"][:3]] == means[:3]
    gradients = {one["name"] for one in page.json("trends/gradients")["series"]}
    assert {"fc.weight", "out.weight"} <= gradients
    found = {finding["kind"] for finding in page.manifest["findings"]}
    assert "not finite" in found, "a learning rate far too large ends in infinity"
    assert page.manifest["headline"]["sentence"].split("; ")[0].endswith(" calls in 4 steps")
    # What comes after is not ordinary either, and is not listed again.
    for rank in range(4):
        listed = {one["call"] for one in page.manifest["findings"] if one["rank"] == rank}
        findings = page.calls("finding", rank)
        for call, (nan, finding) in enumerate(zip(page.calls("nan", rank), findings, strict=True)):
            assert finding is not None or nan == 0
            assert finding != "non-finite inherited" or call not in listed
    assert "non-finite inherited" in page.calls("finding", 3)


def loss_rows(page: PageParts) -> list[int]:
    """The row of the loss, in each step."""
    rows = []
    for rank in range(len(page.manifest["ranks"])):
        calls, entries = page.rows("call", rank), page.rows("entry", rank)
        rows.append(
            list(zip(calls, entries, strict=True)).index(("Functional.mse_loss.0.forward", "output.0"))
        )
    return rows


def reported(source: Path, folder: Path) -> PageParts:
    """The page that the command writes."""
    ran = subprocess.run(
        [*PROGRAM, "report", source, "-o", folder / "page.html"], capture_output=True, text=True
    )
    if "make web" in ran.stderr:
        pytest.skip(ran.stderr)
    assert ran.returncode == 0, ran.stderr
    return PageParts((folder / "page.html").read_text())


def test_saturated_and_dead_layers_are_found(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 32), nn.ReLU())
    with torch.no_grad():
        model[0].weight.mul_(1e3)
        model[2].bias.fill_(-1e3)
    with ulpscope.capture(tmp_path / "run", model=model, level="mix", task="statistics") as run:
        model(torch.randn(8, 4))
        torch.zeros_like(torch.randn(64))
        run.step()
    page = reported(tmp_path / "run", tmp_path)
    names = page.calls("name")
    found = {(finding["kind"], names[finding["call"]]) for finding in page.manifest["findings"]}
    assert ("saturated", "Module.1.Tanh.forward.0") in found
    assert ("dead", "Module.3.ReLU.forward.0") in found
    assert not any("zeros_like" in name for _, name in found)


def test_the_page_of_two_checkpoints(tmp_path: Path) -> None:
    state = Net().state_dict()
    torch.save(state, tmp_path / "golden.pt")
    state["out.weight"] = state["out.weight"] * 1.1
    torch.save(state, tmp_path / "target.pt")
    page = PageParts(html_of(ulpscope.compare(tmp_path / "target.pt", tmp_path / "golden.pt")))
    assert page.manifest["kind"] == "tensors"
    assert page.manifest["noun"] == "parameter"
    assert sorted(page.calls("name")) == ["fc.bias", "fc.weight", "out.bias", "out.weight"]
    shown = [column["name"] for column in page.manifest["columns"] if column["shown"]]
    assert "call" in shown
    assert "entry" not in shown, "each tensor is a row, and its entry has no name"
    at = page.call("out.weight")
    assert (page.calls("path")[at], page.calls("op")[at], page.calls("verdict")[at]) == (
        "out",
        "weight",
        "fail",
    )
    assert page.json(f"detail/0/{at}")["entries"][0]["worst"]


def test_the_page_of_two_files_of_one_tensor(tmp_path: Path) -> None:
    for side, factor in (("t", 1.01), ("g", 1.0)):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / "layer2.npy", np.linspace(-1, 1, 64) * factor)
    result = ulpscope.compare(tmp_path / "t" / "layer2.npy", tmp_path / "g" / "layer2.npy")
    first = PageParts(html_of(result)).manifest["first"]
    assert (first["name"], first["entry"], first["call"]) == ("layer2", "layer2", 0)


def test_a_checkpoint_with_nan_is_reported_first(tmp_path: Path) -> None:
    state = Net().state_dict()
    state["out.weight"][0, 3] = torch.nan
    state["fc.bias"][1:3] = torch.inf
    state["fc.weight"] *= 1e38 / state["fc.weight"].abs().max()
    torch.save(state, tmp_path / "checkpoint.pt")
    page = reported(tmp_path / "checkpoint.pt", tmp_path)
    names = page.calls("name")
    assert [(one["kind"], names[one["call"]], one["text"]) for one in page.manifest["findings"]] == [
        ("not finite", "fc.bias", "fc.bias holds 2 infinite of 8 elements"),
        ("not finite", "out.weight", "out.weight holds 1 NaN of 8 elements"),
        ("overflow near", "fc.weight", page.manifest["findings"][2]["text"]),
    ]
    sentence = page.manifest["headline"]["sentence"].replace("\u00d7", "x")
    assert sentence == "4 parameters; found: 2 x not finite, 1 x overflow near."
    assert page.manifest["ranks"][0]["first_call"] == min(page.call("fc.bias"), page.call("out.weight"))
    assert (page.manifest["noun"], page.manifest["words"]["nouns"]) == ("parameter", "parameters")
    text = page.around.split("<svg")[0]
    assert "out.weight holds 1 NaN" in text
    assert " call" not in re.sub(r"<[^>]*>", " ", text.split("ulpscope-first-screen")[1])


def test_what_cannot_be_measured_is_not_called_ordinary(tmp_path: Path) -> None:
    with ulpscope.capture(tmp_path / "run", level="L1", task="statistics") as run:
        torch.relu(torch.ones(4))
        run.step()
    (path,) = (tmp_path / "run").rglob("dump.json")
    text = re.sub(r'"(Max|Min|Mean|Norm)": *[^,}]*,?', "", path.read_text())
    path.write_text(re.sub(r",(\s*})", r"\1", text))
    page = reported(tmp_path / "run", tmp_path)
    sentence = page.manifest["headline"]["sentence"]
    assert sentence.endswith("nothing conspicuous was found in what could be measured."), sentence


def test_a_server_ends_with_ctrl_c(runs: dict[str, Path], tmp_path: Path) -> None:
    subprocess.run([*PROGRAM, "compare", runs["target"], runs["golden"], "-o", tmp_path], capture_output=True)
    command = [*PROGRAM, "view", tmp_path, "--dumps", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        printed = ""
        while "}" not in printed and (line := process.stdout.readline()):
            printed += line
        if not printed:
            pytest.skip(process.stderr.read())
        address = json.loads(printed)["address"]
        with urllib.request.urlopen(f"{address}parts/flow/0") as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
