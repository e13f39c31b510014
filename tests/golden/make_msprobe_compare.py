"""Makes tests/golden/msprobe_compare/: dumps with every kind of entry, and what msprobe makes of them.

    uv venv A && uv pip install --python A/bin/python mindstudio-probe==26.2.0 torch==2.11.0
    uv venv B && uv pip install --python B/bin/python mindstudio-probe==1.1.1 torch==2.11.0 "numpy<2" "pandas<2.3"
    A/bin/python tests/golden/make_msprobe_compare.py dumps
    A/bin/python tests/golden/make_msprobe_compare.py 26
    B/bin/python tests/golden/make_msprobe_compare.py 1

The dumps are written by hand, so that each has what a model of some size would have once. Their elements are kept in
one file a side, and laid out as dump_tensor_data/ only while the tool runs. Results of 1.1.1 are workbooks; they are
kept as csv, with a last column for the colour of the row.
"""

import csv
import json
import math
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent / "msprobe_compare"
CASES = ["statistics", "digests", "integers", "floats", "real"]
F = "float32"
INF, NAN = math.inf, math.nan
COLOURS = {None: "", "FFFF0000": "red", "00FFFF00": "yellow"}


def tensor(dtype, shape, stats, grad=False, **more):
    described = {"type": "torch.Tensor", "dtype": f"torch.{dtype}", "shape": shape}
    described.update(zip(("Max", "Min", "Mean", "Norm"), stats, strict=True))
    return {**described, "requires_grad": grad, **more}


def plain(norm=1.0, dtype=F, **more):
    return tensor(dtype, [2], [1.0, 0.0, 0.5, norm], **more)


def scalar(kind, value):
    return {"type": kind, "value": value}


def forward(args, output, **kwargs):
    return {"input_args": args, "input_kwargs": kwargs, "output": output}


def backward(grads, output):
    return {"input": grads, "output": output}


def sent(described, op):
    return {
        "class_type": "torch.distributed.P2POp",
        "tensor": described,
        "op": op,
        "peer": 1,
        "tag": 0,
        "group_id": "ab",
    }


def target():
    words = ["sum", "npu:0", "input", "12", "1e3", "x y", "inf", "nan"]
    arguments = [scalar("str", word) for word in words]
    arguments += [scalar("int", 3), scalar("float", 2.5), scalar("bool", True), scalar("int", 7)]
    kwargs = {
        "dtype": scalar("torch.dtype", "torch.float32"),
        "device": scalar("torch.device", "npu:0"),
        "size": scalar("torch.Size", [2, 3]),
        "part": scalar("slice", [1, None, None]),
        "rest": scalar("ellipsis", "..."),
        "memory_format": {"type": "torch.memory_format", "format": "channels_last"},
        "undescribed": {},
        "nothing": [],
        "nested": {"a": [tensor("int64", [2], [3, 1, None, None]), {"b": scalar("float", 1e-7)}]},
    }
    group = {"type": "torch.ProcessGroup", "group_ranks": [0, 1], "group_id": "abcd"}
    kinds = [
        tensor("int64", [2], [5, 1, None, None]),
        tensor("bool", [2], [True, False, None, None]),
        tensor("float64", [2], [1.0, 0.5, None, None]),
        tensor("complex64", [2], [1.0, 0.5, 0.75, None]),
        tensor("float16", [2], [1.0, 0.5, 0.75, 1.0]),
    ]
    grads = [tensor(F, [2, 3], [2.0, 0.0, 0.5, 1.0])]
    return {
        "Functional.linear.0.forward": forward(
            [tensor(F, [2, 3], [1.5, -1.0, 0.1, 2.0], True), plain(), None],
            [tensor(F, [2, 3], [2.0, -2.0, 0.0, 3.0], True)],
        ),
        "Functional.relu.0.forward": forward(
            [plain()], [tensor(F, [2], [NAN] * 4)], inplace=scalar("bool", True)
        ),
        "Functional.relu.1.forward": forward(
            [tensor(F, [2], [INF, 0.0, INF, INF])], [tensor(F, [2], [INF, -INF, NAN, INF])]
        ),
        "Functional.relu.2.forward": forward(
            [tensor(F, [2], [INF, 0.0, INF, 1.0])], [tensor(F, [2], [1.0, -INF, NAN, 7.0])]
        ),
        "Torch.norms.0.forward": forward([plain()], [plain(1.7), plain(1e-30)]),
        "Torch.grows.0.forward": forward([plain(1.001)], [plain(1.2)]),
        "Torch.zero.0.forward": forward([tensor(F, [2], [0.0, -0.0, 0.0, 0.0])], [plain(0.5)]),
        "Torch.words.0.forward": forward(arguments, [tensor(F, [2], [1, 2, 3, 4])], **kwargs),
        "Distributed.all_reduce.0.forward": forward(
            [plain()], [plain(2.0)], group=group, op=scalar("torch.distributed.ReduceOp", "SUM")
        ),
        "Distributed.broadcast.0.forward": forward([plain()], [plain(2.0)], src=scalar("int", 0)),
        "Distributed.batch_isend_irecv.0.forward": forward(
            [[sent(plain(), "isend"), sent(None, "irecv")]], [None]
        ),
        "Torch.empty.0.forward": forward([scalar("int", 4)], [tensor(F, [4], [NAN] * 4)]),
        "Tensor.to.0.forward": forward([plain(), {}], [plain(dtype="bfloat16")]),
        "Torch.kinds.0.forward": forward(kinds, [tensor("uint8", [2], [5, 1, None, None])]),
        "Torch.shape.0.forward": forward(
            [tensor(F, [2, 1], [1.0, 0.0, 0.5, 1.0], True)], [tensor(F, [], [1.0] * 4)]
        ),
        "Torch.only_target.0.forward": forward(
            [plain(grad=True), scalar("int", 1)], [tensor(F, [2], [INF, 0.0, 0.5, 1.0])]
        ),
        "Torch.more.0.forward": forward([plain(), scalar("int", 1), scalar("int", 2)], [plain(), plain()]),
        "Module.fc_qkv.Linear.forward.0": {
            **forward([plain(dtype="float16")], [plain(dtype="float16")]),
            "parameters": {"weight": plain(dtype="float16", grad=True), "bias": plain(1.1, grad=True)},
        },
        "Module.output.Linear.forward.0": {**forward([plain()], [plain(9.0)]), "parameters": {}},
        "Functional.linear.1.backward": backward([plain()], [plain(), None]),
        "Functional.linear.0.backward": backward(grads, [*grads, None]),
        "Module.fc.Linear.backward.0": backward(grads, grads),
        "Module.fc.Linear.parameters_grad.0": {"weight": [plain(1.25)], "bias": [plain()]},
        "Torch.late.0.forward": forward([plain()], [plain()]),
        "Torch.late.1.forward": forward([plain()], [tensor(F, [2], [3e10, 0.0, 0.5, 1.0])]),
    }


def golden():
    calls = json.loads(json.dumps(target()))

    def result(call, position=0):
        return calls[call]["output"][position]

    result("Functional.linear.0.forward").update(Max=2.5, Norm=2.9, requires_grad=False)
    result("Functional.relu.0.forward").update(Max=1.0, Min=0.0, Mean=0.5, Norm=1.0)
    result("Functional.relu.1.forward").update(Max=INF, Min=1.0, Mean=-INF, Norm=-INF)
    result("Functional.relu.2.forward").update(Max=INF, Min=INF, Mean=NAN, Norm=-INF)
    result("Torch.norms.0.forward").update(Norm=1.0)
    result("Torch.norms.0.forward", 1).update(Norm=0.0)
    calls["Torch.grows.0.forward"]["input_args"][0].update(Norm=1.0)
    result("Torch.grows.0.forward").update(Norm=1.0)
    calls["Torch.zero.0.forward"]["input_args"][0].update(Min=0.0)
    result("Torch.zero.0.forward").update(Norm=0.4)
    words = calls["Torch.words.0.forward"]
    spelt = ["mean", "cpu", "output", "15", "2e3", "it's \"q\"", "7", "3"]
    words["input_args"] = [scalar("str", word) for word in spelt]
    words["input_args"] += [scalar("int", 4), scalar("float", 2.5), scalar("bool", False), scalar("float", 7.0)]
    words["input_kwargs"]["device"] = scalar("torch.device", "cpu:None")
    words["input_kwargs"]["size"] = scalar("torch.Size", [2, 4])
    words["input_kwargs"]["nested"]["a"][1]["b"] = scalar("float", 2e-7)
    calls["Distributed.all_reduce.0.forward"]["input_kwargs"]["group"]["group_ranks"] = [0, 1, 2]
    calls["Distributed.broadcast.0.forward"]["input_kwargs"]["src"] = scalar("int", 1)
    calls["Distributed.batch_isend_irecv.0.forward"]["input_args"][0][0]["tensor"]["Max"] = 2.0
    result("Torch.empty.0.forward").update(Max=0.0)
    result("Tensor.to.0.forward").update(dtype="torch.float32", Max=3.0)
    kinds = calls["Torch.kinds.0.forward"]["input_args"]
    kinds[0].update(dtype="torch.int32")
    kinds[1].update(Max=False)
    kinds[2].update(dtype="torch.float32", Mean=0.75)
    kinds[4].update(dtype="torch.bfloat16", requires_grad=True)
    calls["Torch.shape.0.forward"]["input_args"][0].update(shape=[2])
    result("Torch.shape.0.forward").update(Max=2.0)
    del calls["Torch.only_target.0.forward"]
    calls["Torch.more.0.forward"]["input_args"].pop()
    calls["Torch.more.0.forward"]["output"] = [None, plain(), plain()]
    module = calls["Module.fc_qkv.Linear.forward.0"]
    module["input_args"][0].update(dtype="torch.float32")
    module["parameters"]["weight"].update(dtype="torch.float32")
    module["parameters"]["bias"].update(Norm=1.0)
    result("Module.output.Linear.forward.0").update(Norm=1.0)
    calls["Module.fc.Linear.parameters_grad.0"]["weight"][0].update(Norm=1.0)
    calls["Torch.only_golden.0.forward"] = forward([plain()], [])
    # Recomputing gives backward calls other numbers; they are matched by the order they appear in.
    renumbered = {
        "Functional.linear.1.backward": "Functional.linear.4.backward",
        "Functional.linear.0.backward": "Functional.linear.3.backward",
        "Module.fc.Linear.backward.0": "Module.fc.Linear.backward.1",
    }
    return {renumbered.get(call, call): body for call, body in calls.items()}


def with_digests(calls, change):
    """Every tensor gets a digest, every third another one on the other side."""
    count = 0

    def walk(value):
        nonlocal count
        if isinstance(value, dict) and "shape" in value:
            count += 1
            value["md5"] = f"{count * 7 + (change if count % 3 == 0 else 0):08x}"
        elif isinstance(value, dict | list):
            for part in value.values() if isinstance(value, dict) else value:
                walk(part)

    walk(calls)
    return calls


def elements(is_target):
    """Pairs of tensors, one side of each."""
    import torch

    generator = torch.Generator().manual_seed(3)
    base = torch.randn(16, 7, generator=generator)
    noise = torch.randn(16, 7, generator=generator) * 10 ** torch.linspace(-5, 0, 7)
    noisy = base + noise if is_target else base
    zeros = base.clone()
    zeros[::3] = 0
    if is_target:
        zeros[0, 0] = 1e-5
        zeros[1:9] *= 1.0009
    odd = base.clone()
    odd[0, 0], odd[1, 1], odd[2, 2] = NAN, INF, -INF
    flipped, moved = odd.clone(), odd.clone()
    flipped[1, 1] = -INF
    moved[5, 5] = NAN
    one = 1.1 if is_target else 1.0

    def pick(of_target, of_golden):
        return of_target if is_target else of_golden

    numbers = [1, 3, 3, 2, -5] if is_target else [1, 2, 3, 0, -5]
    return {
        "f32": noisy,
        "f16": noisy.half(),
        "bf16": noisy.bfloat16(),
        "f64": noisy.double() * (1 + 1e-13),
        "f64_f32": pick(noisy.double(), base),
        "f16_f32": pick(noisy.half(), base),
        "bf16_f32": pick(base.bfloat16(), base),
        "f16_bf16": pick(base.half(), base.bfloat16()),
        "zeros": zeros,
        "zeros_f16": zeros.half(),
        "zeros_f64": zeros.double(),
        "nothing": torch.zeros(5),
        "golden_nothing": pick(base[0], torch.zeros(7)),
        "target_nothing": pick(torch.zeros(7), base[0]),
        "odd": odd * pick(1.001, 1),
        "odd_flipped": pick(flipped, odd),
        "odd_moved": pick(moved, odd),
        "i64": torch.tensor(numbers),
        "u8": torch.tensor(pick([1, 2, 3], [3, 2, 1]), dtype=torch.uint8),
        "bool": torch.tensor(pick([True, False], [True, True])),
        "complex": (base[0] + 1j * base[1]) * pick(1.01, 1),
        "imaginary": base[0] + 1j * base[1 + is_target],
        "d0": torch.tensor(one),
        "d0_f16": torch.tensor(one).half(),
        "d0_u8": torch.tensor(pick(3, 5), dtype=torch.uint8),
        "d0_bool": torch.tensor(is_target),
        "d0_zero": torch.tensor(pick(0.5, 0.0)),
        "d0_nan": torch.tensor(pick(NAN, 1.0)),
        "d0_inf": torch.tensor(pick(INF, 1.0)),
        "one": torch.tensor([[one]]),
        "empty": torch.zeros(0, 3),
        "target_empty": pick(torch.zeros(0), torch.zeros(2)),
        "shapes": pick(torch.ones(2, 3), torch.ones(3, 2)),
        "squeezed": pick(base[:1] * 1.002, base[0]),
        "large": base * pick(3e38, -3e38),
        "huge": base.double() * 1e200,
        "tiny": base * pick(1e-40, 2e-40),
        "opposite": pick(-base, base),
        "absent_in_target": pick(None, base),
        "absent_in_golden": pick(base, None),
        "no_file_in_golden": base,
    }


def real(is_target):
    """The calls around the elements, and the elements by file."""
    import torch

    calls, files = {}, {}
    for name, values in elements(is_target).items():
        call = f"Torch.{name}.0.forward"
        shape = [16, 7] if values is None else list(values.shape)
        dtype = "float32" if values is None else str(values.dtype).removeprefix("torch.")
        entry = tensor(dtype, shape, [1.0, 0.0, 0.5, 1.0])
        if name != "no_file_in_golden" or is_target:
            entry["data_name"] = f"{call}.output.0.pt"
            if values is not None:
                files[entry["data_name"]] = values
        option = {**plain(), "data_name": f"{call}.kwargs.bias.pt"}
        files[option["data_name"]] = torch.tensor([1.0, 0.0])
        calls[call] = forward([scalar("int", 2)], [entry], bias=option, dim=scalar("int", 1))
    if not is_target:
        del calls["Torch.opposite.0.forward"]
    return calls, files


def stacks(calls):
    def lines(call):
        return [f"File \"a'b\".py, line 1, in f, \n x = \"{call}\"", "File plain, line 1, in <module>, \n it's é \u200b"]

    return {str(number): [[call], lines(call)] for number, call in enumerate(calls) if "forward" in call}


def write(case, side, calls, task="statistics"):
    folder = HERE / case / side
    folder.mkdir(parents=True, exist_ok=True)
    header = {"task": task, "level": "L1", "framework": "pytorch", "dump_data_dir": None, "data": calls}
    (folder / "dump.json").write_text(json.dumps(header, indent=1))
    if side == "target":
        (folder / "stack.json").write_text(json.dumps(stacks(calls), indent=1))


def make_dumps():
    import torch

    shutil.rmtree(HERE, ignore_errors=True)
    for side, calls in (("target", target), ("golden", golden)):
        is_target = side == "target"
        write("statistics", side, calls())
        write("digests", side, with_digests(calls(), 0 if is_target else 1000))
        lower, more = (1, 0) if is_target else (0, 1)
        number = {
            f"Torch.{name}.0.forward": forward(
                [tensor("int64", [2], [5 + more, lower, 2, 3])], [tensor("int64", [2], [5, 1, 2, 3])]
            )
            for name in "ab"
        }
        write("integers", side, number)
        number["Torch.b.0.forward"]["output"] = [tensor(F, [2], [5.5 + more, 1.0, 2.0, 3.0])]
        write("floats", side, number)
        calls, files = real(is_target)
        write("real", side, calls, "tensor")
        torch.save(files, HERE / "real" / side / "tensors.pt")


def laid_out(case, folder):
    """The case as the tool expects it: a file per tensor."""
    import torch

    shutil.copytree(HERE / case, folder, dirs_exist_ok=True)
    for side in ("target", "golden"):
        tensors = folder / side / "tensors.pt"
        if tensors.exists():
            (folder / side / "dump_tensor_data").mkdir()
            for name, values in torch.load(tensors).items():
                torch.save(values.clone(), folder / side / "dump_tensor_data" / name)
    return str(folder / "target" / "dump.json"), str(folder / "golden" / "dump.json")


def run_26():
    from msprobe.pytorch.compare.pt_compare import pt_compare

    for case in CASES:
        with tempfile.TemporaryDirectory() as scratch:
            npu, bench = laid_out(case, Path(scratch) / "in")
            for name, options in ((case, {}), (f"{case}.fuzzy", {"fuzzy_match": True})):
                if "fuzzy" in name and case != "real":
                    continue
                out = Path(scratch) / name
                pt_compare({"npu_path": npu, "bench_path": bench}, str(out), **options)
                shutil.copy(next(out.glob("*.csv")), HERE / f"{name}.26.csv")


def run_1():
    import openpyxl
    from msprobe.pytorch.compare.pt_compare import compare

    for case in CASES:
        with tempfile.TemporaryDirectory() as scratch:
            npu, bench = laid_out(case, Path(scratch) / "in")
            stack = Path(npu).with_name("stack.json")
            grouped = json.loads(stack.read_text())
            stack.write_text(json.dumps({call: lines for calls, lines in grouped.values() for call in calls}))
            out = Path(scratch) / "out"
            out.mkdir()
            paths = {"npu_json_path": npu, "bench_json_path": bench, "stack_json_path": str(stack)}
            paths |= {"npu_path": npu, "bench_path": bench, "stack_path": str(stack), "is_print_compare_log": False}
            compare(paths, str(out), stack_mode=True)
            sheet = openpyxl.load_workbook(next(out.glob("*.xlsx"))).active
            with open(HERE / f"{case}.1.csv", "w", newline="") as file:
                rows = csv.writer(file, lineterminator="\n")
                for number, row in enumerate(sheet.iter_rows()):
                    fill = row[0].fill
                    colour = COLOURS[fill.fgColor.rgb if fill.fill_type else None]
                    texts = ["" if cell.value is None else str(cell.value) for cell in row]
                    rows.writerow([*texts, "colour" if number == 0 else colour])
            shutil.copy(next(out.glob("advisor*.txt")), HERE / f"{case}.advice.1.txt")


if __name__ == "__main__":
    {"dumps": make_dumps, "26": run_26, "1": run_1}[sys.argv[1]]()
