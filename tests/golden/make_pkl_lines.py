"""Makes tests/golden/pkl_lines/: one small file per variant of the JSON-lines dumps.

    python tests/golden/make_pkl_lines.py

The tools that wrote such files need retired versions of torch, so these are written here with json.dumps, as the
tools did, in the forms that their own dumps show. Running it again gives the same files.
"""

import json
from pathlib import Path

HERE = Path(__file__).resolve().parent / "pkl_lines"
NAN, INF = float("nan"), float("inf")
F32, F16, BF16 = "torch.float32", "torch.float16", "torch.bfloat16"


def write(name, lines):
    HERE.mkdir(exist_ok=True)
    (HERE / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def stack(name, *functions):
    frames = [[f"/case/{f}.py", str(10 + i), f, f"return {f}(x)"] for i, f in enumerate(functions)]
    return [name, [*frames, ["<frozen runpy>", "88", "_run_code", None]]]


def hooks(sample):
    def values(numbers):
        if not sample:
            return numbers
        return numbers[:10] + [max(numbers), min(numbers), sum(numbers) / len(numbers)]

    x = [0.5 * i - 3 for i in range(12)]
    w = [0.10000000149011612, -1.5, 2.298342704772949, 1e-05, 1e16, 0.0]
    return [
        ["0_Functional_linear_forward_input.0", values(x), F32, [2, 6]],
        ["1_Functional_linear_forward_input.2", values(w), F32, [6]],
        ["2_Functional_linear_forward_output", values([1.5, -2.0]), F16, [2, 1]],
        ["3_Tensor___add___forward_input.0", values([1.5, -2.0]), F16, [2, 1]],
        ["4_Tensor___add___forward_output", values([0.25, 0.75]), BF16, [2]],
        ["5_Functional_linear_forward_input.0", values(x[::-1]), F32, [12]],
        ["6_Functional_linear_forward_output", [NAN] * (5 if sample else 2), F32, [2]],
        ["7_Functional_linear_backward_input.0", values(x), F32, [12]],
        ["8_Functional_linear_backward_output.0", values([1.0, 1.0]), F32, [2]],
        ["9_Tensor___add___backward_input.0", values([1.0, 2.0]), F32, [2]],
        ["10_Tensor___add___backward_input.1", values([3.0, 4.0]), F32, [2]],
        ["11_Tensor___add___backward_output.0", values([5.0, 6.0]), F32, [2]],
        ["12_Functional_linear_backward_input.0", values(x[::-1]), F32, [2, 6]],
        ["13_Functional_linear_backward_output.0", values([7.0, 8.0]), F32, [2]],
    ]


FRAME = (
    "FrameInfo(frame=<frame at 0x7f0000000000, file '/case/net.py', line 12, code forward>, "
    "filename='/case/net.py', lineno=12, function='forward', code_context=['        return F.relu(x)  # it\\'s\\n'], "
    "index=0)"
)
OVERFLOW = [
    ["Functional_relu_forward_stack_info.0", FRAME],
    ["Functional_relu_forward_stack_info.1", "a frame of another form"],
    ["Functional_relu_forward_input.0", [1.0, INF, -INF], F32, [3]],
    ["Functional_relu_forward_input.1", [7, 9], "torch.int64", [2]],
    ["Functional_relu_forward_input.2", [0.5], F32, []],
    ["Functional_relu_forward_input.3", True],
    ["Functional_relu_forward_input.4", None],
    ["Functional_relu_forward_output", [1.0, INF, 0.0], F32, [3]],
]

PTDBG4 = [
    ["Functional_conv2d_0_forward_input.0", 0, [], F32, [4, 1, 8, 8], [2.298342704772949, -3.0205957889556885, -0.08]],
    ["Functional_conv2d_0_forward_input.3.0", 0, [], "<class 'int'>", "[]", [1, 1, 1]],
    ["Functional_conv2d_0_forward_input.3.1", 0, [], "<class 'int'>", "[]", [1, 1, 1]],
    ["Functional_conv2d_0_forward_input.5", 0, [], "<class 'float'>", "[]", [0.1, 0.1, 0.1]],
    ["Functional_conv2d_0_forward_output", 0, [], F32, [4, 4, 8, 8], [NAN, NAN, NAN]],
    stack("Functional_conv2d_0_forward_stack_info", "conv", "forward"),
    ["Tensor_add__0_forward_input.0", 0, [], "torch.int64", [], [1.0, 1.0, 1.0]],
    ["Tensor_add__0_forward_input.1", 0, [], "<class 'bool'>", "[]", [True, True, True]],
    ["Tensor_add__0_forward_output", 0, [], "torch.bool", [2], [[], [], []]],
    stack("Tensor_add__0_forward_stack_info", "step"),
    ["Tensor___add___1_forward_input.0", 0, [], BF16, [0, 3], [[], [], []]],
    ["Tensor___add___1_forward_output.0", 0, [], F32, [2], [INF, -INF, 0.0]],
    ["Tensor___add___1_forward_output.1", 0, [], F32, [2], [1e-05, 1e-07, 1e16]],
    stack("Tensor___add___1_forward_stack_info", "step"),
    ["Tensor___add___1_backward_input.0", 0, [], F32, [2], [1.0, 1.0, 1.0]],
    ["Tensor___add___1_backward_output.1", 0, [], F32, [2], [1.0, 1.0, 1.0]],
    stack("Tensor___add___1_backward_stack_info", "step"),
]

MODULES4 = [
    ["Module_Conv2d_0_forward_input.0", 0, [], F32, [4, 1, 8, 8], [2.5, -3.0, 0.0]],
    ["Module_Conv2d_0_forward_output", 0, [], F32, [4, 4, 8, 8], [2.0, -2.0, -0.5]],
    ["my_net_0_forward_input.0", 1, [], F32, [4], [2.0, -2.0, -0.5]],
    ["my_net_0_forward_output", 1, [], F32, [4], [2.0, -2.0, -0.5]],
    ["my_net_0_forward_input.0", 1, [], F32, [4], [3.0, -3.0, -0.5]],
    ["my_net_0_forward_output", 1, [], F32, [4], [3.0, -3.0, -0.5]],
]

PTDBG6 = [
    ["conv.Conv2d.0.forward.input.0", 0, [], F32, [4, 1], [2.5, -3.0, 0.0, 8.704421997070312]],
    ["conv.Conv2d.0.forward.output", 0, [], F32, [4, 4], [2.0, -2.0, -0.5, 17.64377212524414]],
    ["Tensor.__getitem__.1.forward.input.0", 0, [], "torch.int64", [16, 5], [10.0, 0.0, 5.2125, "Nan"]],
    ["Tensor.__getitem__.1.forward.input.1", 0, [], "<class 'int'>", "[]", [4, 4, 4, 4]],
    ["Tensor.__getitem__.1.forward.output", 0, [], "torch.bool", [4, 5], [[], [], [], "Nan"]],
    stack("Tensor.__getitem__.1.forward.stack_info", "forward", "main"),
    ["Functional.cross_entropy.0.forward.input.0", 0, [], F32, [4, 3], [1.5, -1.5, 0.25, 3.5]],
    ["Functional.cross_entropy.0.forward.output", 0, [], F32, [], [0.5967020988464355] * 3 + ["Nan"]],
    stack("Functional.cross_entropy.0.forward.stack_info", "forward", "main"),
]

PTDBG6_MD5 = [
    ["Functional.relu.0.forward.input.0", 0, "7cdf25f4", F32, [3], [1.0, 0.0, 0.5, 1.25]],
    ["Functional.relu.0.forward.output", 0, "0a1b2c3d", F32, [3], [1.0, 0.0, 0.5, 1.25]],
]

write("hooks_sample.pkl", hooks(sample=True))
write("hooks_full.pkl", hooks(sample=False))
write("hooks_overflow.pkl", OVERFLOW)
write("ptdbg4.pkl", PTDBG4)
write("ptdbg4_modules.pkl", MODULES4)
write("ptdbg6.pkl", PTDBG6)
write("ptdbg6_md5.pkl", PTDBG6_MD5)
