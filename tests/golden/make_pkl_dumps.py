"""Makes tests/golden/pkl_dumps/: two runs each as ptdbg_ascend before 6.0, ptdbg_ascend 6.0 and torch_npu.hooks left them.

    python tests/golden/make_pkl_dumps.py

In the target the second linear layer is 1 % off. The tools need retired versions of torch, so the files are written
here in the forms that docs/formats.md describes. Running it again gives the same files.
"""

import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent / "pkl_dumps"


def tensors(fault):
    """The output of three linear layers, each the input of the next."""
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    weight = np.eye(4, dtype=np.float32) * np.float32(1.5) + np.float32(0.125)
    for layer in range(3):
        y = x @ weight
        if layer == 1:
            y = y * np.float32(fault)
        yield layer, x, y
        x = y


def ptdbg(folder, fault, mark, with_norm):
    data = folder / "dump"
    data.mkdir(parents=True, exist_ok=True)
    lines = []
    for layer, x, y in tensors(fault):
        call = mark.join(["Functional", "linear", str(layer), "forward"])
        frames = [["/case/net.py", "12", "forward", "return F.linear(x, w)"]]
        lines.append([mark.join([call, "stack_info"]), frames])
        for end, array in (("input.0", x), ("output", y)):
            name = mark.join([call, end])
            summary = [float(array.max()), float(array.min()), float(array.mean(dtype=np.float64))]
            summary += [float(np.linalg.norm(array.astype(np.float64)))] if with_norm else []
            lines.append([name, 1, [], "torch.float32", list(array.shape), summary])
            np.save(data / f"{name}.npy", array)
    data.with_suffix(".pkl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def hooks(path, fault):
    lines = []
    for _, x, y in tensors(fault):
        for end, array in (("input.0", x), ("output", y)):
            name = f"{len(lines)}_Functional_linear_forward_{end}"
            lines.append([name, array.ravel().tolist(), "torch.float32", list(array.shape)])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    for side, fault in (("golden", 1.0), ("target", 1.01)):
        ptdbg(HERE / "ptdbg4" / side, fault, "_", with_norm=False)
        ptdbg(HERE / "ptdbg6" / side, fault, ".", with_norm=True)
        (HERE / "torch_npu_hooks").mkdir(parents=True, exist_ok=True)
        hooks(HERE / "torch_npu_hooks" / f"{side}.pkl", fault)
