"""The examples of torch_npu.hooks' guide as printed, and what is changed to run them.

Each script is kept as printed, except that blank lines and comments are left out. ``run`` replaces the import
line and ``.npu()``, and applies the mends that it is given.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MODULE_OP = """
import os
import torch
import torch.nn as nn
from torch_npu.hooks import set_dump_path, seed_all, register_hook, wrap_acc_cmp_hook
from torch_npu.hooks.tools import compare
class ModuleOP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(in_features=2, out_features=2)
        self.linear_2 = nn.Linear(in_features=2, out_features=1)
        self.relu = nn.ReLU()
    def forward(self, x):
        x1 = self.linear_1(x)
        x2 = self.linear_2(x1)
        r1 = self.relu(x2)
        return r1
module = ModuleOP()
register_hook(model_cpu, wrap_acc_cmp_hook)
seed_all()
x = torch.randn(2, 2)
set_dump_path("./cpu_module_op.pkl")
out = module(x)
loss = out.sum()
loss.backward()
module.npu()
x = x.npu()
set_dump_path("./npu_module_op.pkl")
out = module(x)
loss = out.sum()
loss.backward()
compare("./npu_module_op.pkl", "./cpu_module_op.pkl", "./module_result.csv")
"""

# As printed, it names a variable that does not exist.
MODULE_OP_MEND = [("register_hook(model_cpu, wrap_acc_cmp_hook", "register_hook(module, wrap_acc_cmp_hook")]

RESNET = """
import os
import copy
import torch
import torch.nn as nn
from torchvision import models, datasets, transforms
from torch_npu.hooks import set_dump_path, seed_all, register_hook, wrap_acc_cmp_hook
from torch_npu.hooks.tools import compare
model_cpu = models.resnet50()
model_cpu.eval()
model_npu = copy.deepcopy(model_cpu)
model_npu.eval()
seed_all()
register_hook(model_cpu, wrap_acc_cmp_hook)
register_hook(model_npu, wrap_acc_cmp_hook)
inputs = torch.randn(1, 3, 244, 244)
labels = torch.randn(1).long()
criterion = nn.CrossEntropyLoss()
set_dump_path("./cpu_resnet50_op.pkl")
output = model_cpu(inputs)
loss = criterion(output, labels)
loss.backward()
set_dump_path("./npu_resnet50_op.pkl")
model_npu.npu()
inputs = inputs.npu()
labels = labels.npu()
output = model_npu(inputs)
loss = criterion(output, labels)
loss.backward()
compare("./npu_resnet50_op.pkl", "./cpu_resnet50_op.pkl", "./resnet50_result.csv")
"""

READ = """
import json
pkl_file=open("./cpu_resnet50_op.pkl",'r')
tensor_line=pkl_file.readline()
tensor_data=json.loads(tensor_line)
print(tensor_data[0])
print(tensor_data[1])
print(tensor_data[2])
print(tensor_data[3])
"""

OVERFLOW = """
import os
import copy
import torch
import torch.nn as nn
from torchvision import models, datasets, transforms
from torch_npu.hooks import register_hook, wrap_checkoverflow_hook
model = models.resnet50()
model.npu()
register_hook(model,wrap_checkoverflow_hook)
inputs = torch.randn(1, 3, 244, 244)
labels = torch.randn(1).long()
criterion = nn.CrossEntropyLoss()
inputs = inputs.npu()
labels = labels.npu()
output = model_npu(inputs)
loss = criterion(output, labels)
loss.backward()
"""

# torchvision is not among the requirements: a small convolutional network takes the place of resnet50.
_NETWORK = """
import types
class _Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1); self.bn = nn.BatchNorm2d(4)
    def forward(self, x):
        return torch.relu(self.bn(self.conv(x)) + x)
def _resnet():
    return nn.Sequential(nn.Conv2d(3, 4, 7, 4), nn.BatchNorm2d(4), nn.ReLU(True), nn.MaxPool2d(3, 2),
                         _Block(), _Block(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10))
models = types.SimpleNamespace(resnet50=_resnet)
"""
NO_TORCHVISION = ("from torchvision import models, datasets, transforms\n", _NETWORK)

# The label is drawn as printed, and may be negative.
VALID_LABEL = ("labels = torch.randn(1).long()", "labels = torch.randint(0, 10, (1,))")


def run(
    script: str, folder: Path, *mends: tuple[str, str], code: int = 0, before: str = ""
) -> subprocess.CompletedProcess[str]:
    """Runs a script of the guide with the imports of the face, on the CPU."""
    for printed, mended in mends:
        assert printed in script
        script = script.replace(printed, mended)
    script = script.replace("from torch_npu.hooks", "from ulpscope.compat.torch_npu_hooks")
    script = before + script.replace(".npu()", '.to("cpu")')
    found = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert found.returncode == code, found.stderr
    return found
