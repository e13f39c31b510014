"""Makes tests/golden/msprobe/ by running msprobe on a model of a few parameters.

    uv venv V && uv pip install --python V/bin/python mindstudio-probe==26.2.0 torch==2.11.0
    V/bin/python tests/golden/make_msprobe.py

Paths of the machine are replaced by /env and /case; nothing else is touched, so the files keep the bytes that
json.dump(indent=1) gave them.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CASES = {
    "stat_mix": {"task": "statistics", "level": "mix", "statistics": {"summary_mode": "statistics"}},
    "md5_L1": {"task": "statistics", "level": "L1", "statistics": {"summary_mode": "md5"}},
    "xor_L1": {"task": "statistics", "level": "L1", "statistics": {"summary_mode": "xor"}},
    "tensor_L0": {"task": "tensor", "level": "L0", "tensor": {}},
    "debug": {"task": "statistics", "level": "debug", "statistics": {"summary_mode": "statistics"}},
}


def run_case(config):
    """One step of the model under msprobe; runs in a process of its own."""
    import torch
    from msprobe.pytorch import PrecisionDebugger, seed_all

    seed_all(1234)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(4, 3)
            self.act = torch.nn.GELU(approximate="tanh")

        def forward(self, x, *, scale=None):
            return self.act(self.fc(x)) * scale

    net = Net()
    debugger = PrecisionDebugger(config_path=config)
    x = torch.linspace(-2, 2, 8).reshape(2, 4)
    debug = json.loads(Path(config).read_text())["level"] == "debug"
    if not debug:
        debugger.start(model=net)
    y = net(x, scale=2.0)
    z = torch.cat([y, torch.full((1, 3), float("inf"))], dim=0)
    values, index = torch.max(z, dim=1)
    flags = torch.isfinite(values)
    half = torch.clamp(y, min=-0.5, max=None).to(torch.bfloat16)
    if debug:
        PrecisionDebugger.save({"y": y, "pair": [z, 3]}, "saved", save_backward=True)
        PrecisionDebugger.save(half, "half", save_backward=False)
    loss = y.sum() + half.sum().float() + index.sum() + flags.sum()
    loss.backward()
    if not debug:
        debugger.stop()
    debugger.step()


def tidy(text, work):
    text = text.replace(str(work), "/case").replace(str(HERE), "/case")
    text = text.replace(sysconfig.get_paths()["stdlib"], "/env/python")
    text = re.sub(r"[^\s\"]*/site-packages", "/env/site-packages", text)
    return re.sub(r"proc\d+", "proc1000", text)


def main():
    target = HERE / "msprobe"
    shutil.rmtree(target, ignore_errors=True)
    for name, config in CASES.items():
        with tempfile.TemporaryDirectory() as work:
            config = {"dump_path": f"{work}/dump", "rank": [], "step": [], "risk_level": "ALL", **config}
            path = Path(work) / "config.json"
            path.write_text(json.dumps(config))
            environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}
            subprocess.run([sys.executable, __file__, str(path)], check=True, env=environment, cwd=work)
            for file in sorted(Path(work).glob("dump/step0/*/*.json")):
                out = target / name / file.name
                out.parent.mkdir(parents=True, exist_ok=True)
                out.write_text(tidy(file.read_text(), work))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run_case(sys.argv[1])
    else:
        main()
