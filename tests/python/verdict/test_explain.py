"""What a comparison says in plain words."""

from __future__ import annotations

import json
import pickle
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

import ulpscope
from dumps import chain, run, write_rank
from explanations import sections

MODULE = "Module.layers.2.Linear.forward.0"


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A target whose third linear layer is 20 % too large, and its golden."""
    name = "Functional.linear.2.forward"
    stack = ["File /home/me/model.py, line 48, in forward, \n x = self.fc(x)"]
    for side, fault in (("target", {2: 1.2}), ("golden", None)):
        write_rank(tmp_path / side, chain(4, fault=fault), stacks={name: stack}, parents={name: MODULE})
    return tmp_path / "target", tmp_path / "golden"


def test_call_module_and_line_are_named(pair: tuple[Path, Path]) -> None:
    said = sections(ulpscope.compare(*pair).explain())
    assert said["What broke"] == ["Functional.linear.2 returns a different result from matching inputs."]
    assert said["Where"][:3] == [
        "call    Functional.linear.2.forward (forward pass)",
        f"module  {MODULE}",
        "code    /home/me/model.py:48 forward: x = self.fc(x)",
    ]
    assert "as if multiplied by 1.2" in said["How large"][0]


def test_every_face_says_the_same(pair: tuple[Path, Path], tmp_path: Path) -> None:
    result = ulpscope.compare(*pair)
    text = result.explain()
    assert json.loads(result.to_json())["explanation"] == text
    run("compare", *pair, "-o", tmp_path / "out")
    ran = run("explain", tmp_path / "out")
    # Only files have lines to name.
    without_lines = re.sub(r" \(line \d+ of compare_result_\d+\.csv\)", "", ran.stdout)
    assert (ran.returncode, ran.stderr, without_lines) == (0, "", text)
    classes = json.loads(run("explain", tmp_path / "out", "--json").stdout)["classes"]
    assert classes == result.summary["classes"]
    assert classes["diverged here"] == 1
    assert sum(classes.values()) == 9


def test_the_environment_names_the_language(pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULPSCOPE_LANG", "zh")
    result = ulpscope.compare(*pair)
    heading, sentence, *_ = result.explain().splitlines()
    assert heading.startswith("问题")
    assert "返回了不同的结果" in sentence
    # Everything else is the same in every language.
    assert result.reason == "Functional.linear.2.forward introduced an error"
    assert "relative distance 0.2" in result.divergences[0].why
    monkeypatch.setenv("ULPSCOPE_LANG", "fr")
    with pytest.raises(ValueError, match="ULPSCOPE_LANG: expected one of en, zh, found"):
        ulpscope.compare(*pair)


def test_the_next_command_shows_the_error(pair: tuple[Path, Path]) -> None:
    command = sections(ulpscope.compare(*pair).explain())["Next"][1]
    program, *arguments = shlex.split(command)
    assert (program, arguments[0]) == ("ulpscope", "diff")
    compared = json.loads(run(*arguments, "--json").stdout)
    assert "0.19999" in json.dumps(compared) or "0.2000" in json.dumps(compared)


def test_without_tensors_the_next_capture_is_of_the_module(pair: tuple[Path, Path]) -> None:
    for side, fault in zip(pair, ({2: 1.2}, None), strict=True):
        name = "Functional.linear.2.forward"
        for file in side.rglob("*.pt"):
            file.unlink()
        write_rank(side, chain(4, fault=fault), tensors=False, parents={name: MODULE})
    said = sections(ulpscope.compare(*pair).explain())
    assert "No elements were compared" in said["Limitations"][0]
    assert "--level mix --task tensor --list Module.layers.2.Linear. --" in said["Next"][1]
    assert said["Next"][3].strip().startswith('ulpscope.capture("NEW_DUMP", model=model')


def test_the_capture_it_asks_for_holds_the_module(tmp_path: Path) -> None:
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(3)))
    with ulpscope.capture(
        tmp_path, model=model, level="mix", task="tensor", step=0, list=["Module.1.Linear."]
    ):
        model(torch.ones(2, 4)).sum().backward()
    calls = json.loads((tmp_path / "step0" / "rank" / "dump.json").read_text())["data"]
    assert {"Functional.linear.1.forward", "Module.1.Linear.forward.0"} <= set(calls)
    assert not any(name.startswith(("Module.0.", "Functional.linear.0.")) for name in calls)


def test_a_healthy_pair_is_said_to_agree(tmp_path: Path) -> None:
    for side in ("target", "golden"):
        write_rank(tmp_path / side, chain(3))
    text = ulpscope.compare(tmp_path / "target", tmp_path / "golden").explain()
    assert text == (
        "What broke:\n  Nothing. The two runs agree.\nCompared:\n  7 calls, without any difference.\n"
    )


def test_a_checkpoint_that_differs_is_no_random_draw(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(8)}, tmp_path / "target.pt")
    torch.save({"w": torch.full((8,), 1.5)}, tmp_path / "golden.pt")
    text = ulpscope.compare(tmp_path / "target.pt", tmp_path / "golden.pt").explain()
    assert "random" not in text.split("Next:")[0]


def captured(folder: Path, program: Callable[[], object], **settings: Any) -> Path:
    """A dump of a program, with tensors unless another task is passed."""
    with ulpscope.capture(folder, **{"level": "mix", "task": "tensor", **settings}):
        program()
    return folder


def explained(
    folder: Path, target: Callable[[], object], golden: Callable[[], object], **settings: Any
) -> str:
    """What is said of a program and another one."""
    one = captured(folder / "target", target, **settings)
    return ulpscope.compare(one, captured(folder / "golden", golden, **settings)).explain()


def network(*, weights: float = 1.0, only: str = "") -> torch.nn.Module:
    """Two linear layers and a norm, always of the same weights; `only` one, or all, times a factor."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 16))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter += 0.1
            if name == only or not only:
                parameter *= weights
    return model.eval()


def numbers(text: str) -> list[str]:
    """The numbers in prose: no names, no places."""
    prose = [line for key, lines in sections(text).items() if key not in ("Where", "Next") for line in lines]
    return re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]\d+)?(?![\w.]*[a-z_])", " ".join(prose))


X = torch.linspace(-2, 3, 64).reshape(4, 16)


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (
            (lambda: functional.gelu(X, approximate="tanh"), lambda: functional.gelu(X)),
            'Functional.gelu.0 is called with approximate="tanh" in the target only.',
        ),
        (
            (lambda: torch.addcmul(X, X, X, value=1 - 0.95), lambda: torch.addcmul(X, X, X, value=1 - 0.999)),
            "Torch.addcmul.0 is called with value=0.05 against 0.001 in the golden.",
        ),
        (
            (lambda: X[:, 8:] * 2, lambda: X[:, :8] * 2),
            "Tensor.__getitem__.0 is called with input.1.1=8: against :8 in the golden.",
        ),
        (
            (lambda: functional.silu(X).sum(), lambda: functional.gelu(X).sum()),
            "Only the target calls Functional.silu.0; the golden calls Functional.gelu.0 at this place.",
        ),
    ],
)
def test_the_cause_comes_first(tmp_path: Path, program: tuple[Any, Any], told: str) -> None:
    text = explained(tmp_path, *program)
    assert sections(text)["What broke"][0] == told
    for number in numbers(text):
        digits = number.lstrip("-").split("e")[0].replace(".", "").lstrip("0").rstrip("0")
        assert len(digits) <= 3, (number, text)


def test_an_argument_from_another_call_is_named_on_both_sides(tmp_path: Path) -> None:
    def program(swapped: bool) -> torch.Tensor:
        one, other = X.sin(), X.cos()
        return (other if swapped else one).exp() + one + other

    text = explained(tmp_path, lambda: program(True), lambda: program(False))
    assert sections(text)["What broke"][0] == (
        "Tensor.exp.0 takes input.0 from Tensor.cos.0; in the golden, from Tensor.sin.0."
    )


def test_a_weight_without_a_name_is_called_as_torch_does(tmp_path: Path) -> None:
    for side, factor in (("target", 1.05), ("golden", 1.0)):
        calls = chain(3)
        name, (x, weight, _), _ = calls[0]
        calls[0] = (name, [x, weight * factor, None], [functional.linear(x, weight * factor)])
        write_rank(tmp_path / side, calls[:1])
    said = sections(ulpscope.compare(tmp_path / "target", tmp_path / "golden").explain())
    assert said["What broke"][0] == (
        "The weight of Functional.linear.0 (input.1) differs between the two runs."
    )


@pytest.mark.parametrize(
    ("only", "counted"), [("", "6 of 6 parameters differ"), ("2.bias", "1 of 6 parameters differs")]
)
def test_parameters_that_differ_are_counted(tmp_path: Path, only: str, counted: str) -> None:
    one, other = network(weights=1.5, only=only), network()
    target = captured(tmp_path / "target", lambda: one(X), model=one)
    result = ulpscope.compare(target, captured(tmp_path / "golden", lambda: other(X), model=other))
    text = result.explain()
    assert f"In total, {counted}." in sections(text)["What broke"]
    differ, of = map(int, re.findall(r"\d+", counted))
    assert json.loads(result.to_json())["ranks"][0]["origins"] == {
        "parameters": {"differ": differ, "of": of},
        "buffers": {"differ": 0, "of": 2},
    }
    # One number for the relative error: the row's. None for what is ordinary, where that is 0.
    [size] = sections(text)["How large"]
    assert size.startswith("Relative distance 0.5, ")


def test_the_relative_error_is_that_of_the_row(pair: tuple[Path, Path]) -> None:
    result = ulpscope.compare(*pair)
    found = json.loads(result.to_json())["first_divergence"]
    assert found["distance"] == pytest.approx(0.2, rel=1e-3)
    assert found["error"] == pytest.approx(0.2 / 1.2, rel=1e-3)
    said = sections(result.explain())["How large"]
    assert said[0].startswith("Relative distance 0.2, largest error ")
    told = re.fullmatch(r"That is (\S+) \S what rounding and the inputs allow \((\S+)\)\.", said[1])
    assert told is not None
    times, floor = (float(number.replace(",", "")) for number in told.groups())
    assert floor == pytest.approx(found["floor"], rel=5e-3)
    assert times == pytest.approx(found["distance"] / found["floor"], rel=5e-3)
    assert "0.167" not in " ".join(said)


def test_a_common_factor_is_said_in_plain_words(tmp_path: Path) -> None:
    def scaled(factor: float) -> Callable[[], object]:
        class Scaled(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
                return torch.from_numpy(x.numpy() * factor).float()

        big = torch.randn(64, 64, generator=torch.Generator().manual_seed(1))
        return lambda: Scaled.apply(big)

    text = explained(tmp_path, scaled(1.0005), scaled(1.0))
    assert "The overall scale shows it more clearly: it differs by " in text


def test_statistics_that_look_alike_are_not_shown(tmp_path: Path) -> None:
    for side in ("target", "golden"):
        y = torch.linspace(1, 3.34873, 64)
        if side == "target":
            y[10] += 0.02
            # Another number, which looks the same.
            y[-1] = y[-1].nextafter(torch.tensor(4.0))
        write_rank(tmp_path / side, [("Functional.relu.0.forward", [X], [y])], tensors=False)
    text = ulpscope.compare(tmp_path / "target", tmp_path / "golden").explain()
    told = re.findall(r"(max|min|mean|norm) (\S+) against ([^\s,]+)", text.replace(".\n", "\n"))
    assert told
    assert all(one != other for _, one, other in told), told
    assert "max" not in {name for name, _, _ in told}
    # One element was changed: the norm does not show whether all were.
    assert "scale error" not in text


def test_findings_of_one_kind_and_cause_are_one(tmp_path: Path) -> None:
    def trained(beta: float) -> Callable[[], object]:
        model = network()
        optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, beta), foreach=False)

        def step() -> None:
            model(X).pow(2).sum().backward()
            optimizer.step()

        return step

    target, golden = trained(0.95), trained(0.999)
    one = captured(tmp_path / "target", target)
    result = ulpscope.compare(one, captured(tmp_path / "golden", golden))
    said = sections(result.explain())
    assert said["What broke"] == [
        "Tensor.addcmul_.0 is called with value=0.05 against 0.001 in the golden.",
        "The same applies to 5 more calls of Tensor.addcmul_.",
    ]
    assert not any("addcmul_" in line for line in said.get("Other divergences", []))
    assert [one.call for one in result.divergences if "addcmul_" in one.call] == [
        f"Tensor.addcmul_.{number}.forward" for number in range(6)
    ]


def test_a_gradient_of_parameters_is_said_to_be_one(tmp_path: Path) -> None:
    for side, factor in (("target", 1.01), ("golden", 1.0)):
        model = network()
        # By way of numpy, which is not recorded.
        model.get_parameter("0.weight").register_hook(
            lambda gradient, by=factor: torch.from_numpy(gradient.numpy() * by)
        )
        with ulpscope.capture(tmp_path / side, model=model, level="mix", task="tensor"):
            model(X).pow(2).sum().backward()
    said = sections(ulpscope.compare(tmp_path / "target", tmp_path / "golden").explain())
    assert said["What broke"][0].startswith(
        "The gradient of the parameter weight of Module.0.Linear, summed over its uses, differs"
    )


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (lambda: torch.log(X - X), "A logarithm is NaN below 0"),
        (lambda: torch.sqrt(X - 5), "A square root is NaN below 0"),
        (lambda: X / (X - X), "divisor that is 0"),
        (lambda: torch.exp(X * 100), "(float32: 88.7)"),
        (lambda: X.pow(0.5), "negative number to a fractional power"),
    ],
)
def test_advice_on_nan_fits_the_operation(tmp_path: Path, program: Callable[[], object], told: str) -> None:
    said = sections(explained(tmp_path, program, program))
    assert "returns NaN or infinite values (float32) that its inputs do not have" in said["What broke"][0]
    assert told in said["Next"][0]


def test_calls_inside_modules_that_agree_are_answered_for(tmp_path: Path) -> None:
    model = network()
    target = captured(tmp_path / "target", lambda: model(X), model=model)
    golden = captured(tmp_path / "golden", lambda: model(X), model=model, level="L0")
    result = ulpscope.compare(target, golden)
    assert (result.agreement, result.divergences) == ("agree", [])
    captured_at = "the target was captured at level mix, the golden at level L0: what one level leaves out"
    assert any(captured_at in note for note in result.notes)


def test_levels_that_differ_are_inconclusive(tmp_path: Path) -> None:
    """What is computed between modules, the other level did not record."""
    model = network()
    target = captured(tmp_path / "target", lambda: torch.sin(model(X)), model=model)
    golden = captured(tmp_path / "golden", lambda: torch.sin(model(X)), model=model, level="L0")
    result = ulpscope.compare(target, golden)
    said = sections(result.explain())
    assert (result.agreement, result.divergences) == ("inconclusive", [])
    assert said["What broke"][:2] == [
        f"Inconclusive: {result.reason}.",
        "The target was captured at level mix, the golden at level L0: "
        "most calls of one have no counterpart in the other.",
    ]
    assert said["Next"][0] == "Capture both sides at the same level, then compare again:"
    shown = run("compare", target, golden).stdout
    assert "verdict  INCONCLUSIVE: what was compared agrees, but some calls or tensors have no" in shown


def test_calls_of_one_side_are_counted_by_operation(tmp_path: Path) -> None:
    text = explained(tmp_path, lambda: (X.sin(), X.cos(), X.cos()), lambda: X.sin())
    said = sections(text)
    assert said["What broke"][1:] == [
        "Not compared (no counterpart): target only: 2 calls (2 of Tensor.cos)."
    ]
    assert "1 calls" not in text
    assert "target only: 2 calls. The first: Tensor.cos.0.forward (target)." in said["Limitations"][0]


def test_the_dtype_is_that_of_the_result_that_differs(tmp_path: Path) -> None:
    name = "Torch.pair.0.forward"
    for side, dtype in (("target", torch.bfloat16), ("golden", torch.float32)):
        write_rank(tmp_path / side, [(name, [X], [X.long(), X.sin().to(dtype)])])
        file = tmp_path / side / "dump.json"
        dump = json.loads(file.read_text())
        first, second = dump["data"][name]["output"]
        # Only the golden has the first: in the target, the second is the first of its results.
        dump["data"][name]["output"] = [
            {"first": first, "second": second} if side == "golden" else {"second": second}
        ]
        file.write_text(json.dumps(dump))
    notes = ulpscope.compare(tmp_path / "target", tmp_path / "golden").notes
    assert any("(torch.bfloat16 against torch.float32)" in note for note in notes), notes


def test_a_comparison_explains_itself_in_every_language(pair: tuple[Path, Path]) -> None:
    result = ulpscope.compare(*pair)
    assert result.explain(lang="en") == result.explain()
    chinese = result.explain(lang="zh")
    assert "置信度" in chinese
    assert pickle.loads(pickle.dumps(result)).explain(lang="zh") == chinese
    with pytest.raises(ValueError, match='lang: expected one of en, zh, found "fr"'):
        result.explain(lang="fr")  # type: ignore[arg-type]


def test_a_librarys_line_is_named_beside_the_users(tmp_path: Path) -> None:
    """In a model of a library, all calls have the same line of the user."""
    name = "Functional.linear.2.forward"
    packages = "/env/lib/python3.12/site-packages"
    torch_line = f"File {packages}/torch/nn/modules/linear.py, line 134, in forward, \n return F.linear(x)"
    user = "File /home/me/train.py, line 7, in main, \n loss = model(x)"
    for side, fault, number in (("target", {2: 1.2}, 90), ("golden", None, 81)):
        library = f"File {packages}/transformers/llama.py, line {number}, in forward, \n q = self.q(x)"
        stacks = {name: [torch_line, library, user]}
        write_rank(tmp_path / side, chain(4, fault=fault), stacks=stacks, parents={name: MODULE})
    result = ulpscope.compare(tmp_path / "target", tmp_path / "golden")
    assert sections(result.explain())["Where"][2:5] == [
        "code    /home/me/train.py:7 main: loss = model(x)",
        f"inner   {packages}/transformers/llama.py:90 forward: q = self.q(x)",
        f"golden  {packages}/transformers/llama.py:81 forward: q = self.q(x)",
    ]
    first = result.divergences[0]
    assert first.code == first.golden_code == "/home/me/train.py:7 main: loss = model(x)"
    assert first.inner_code == f"{packages}/transformers/llama.py:90 forward: q = self.q(x)"
    document = json.loads(result.to_json())["first_divergence"]
    assert document["golden_inner_code"] == first.golden_inner_code
    row = next(row for row in result.rows if row["call"] == name and row["code"])
    assert row["inner_code"] == first.inner_code
