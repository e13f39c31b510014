"""Examples of ptdbg_ascend's guide, as printed, and what each needs around it to be a program."""

# The scripts are as the guide prints them.
# ruff: noqa: E501, RUF001

from __future__ import annotations

# Stands for what the guide leaves to the reader: a model and its data.
MODEL = """\
import torch, torch_npu
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Dropout(0.5)).npu()
def train():
    model(torch.ones(2, 4).npu()).sum().backward()
"""

WHOLE_NET = """\
from ptdbg_ascend import *

# 在main函数开始前固定随机数
seed_all()

# 配置dump数据目录路径和名称
set_dump_path("./npu_dump", dump_tag='all')

# 注册dump回调函数
register_hook(model, acc_cmp_dump)

...

# 在第一个迭代开始的位置开启dump和堆栈模式，同时为保证数据完整性开启dump bool和整型的tensor以及浮点、bool和整型的标量
set_dump_switch("ON", mode="api_stack", filter_switch="OFF")

train()

# 在第一个迭代结束的位置关闭dump
set_dump_switch("OFF")
"""

AUTOMATIC = """\
from ptdbg_ascend import *
debugger = PrecisionDebugger(dump_path="./dump_path", hook_name="dump", step=[0,2], enable_dataloader=True)
# 请勿将以上初始化流程插入到循环代码中
"""

LOADER = """\
for batch in torch.utils.data.DataLoader(list(range(8))):
    train()
    print("trained")
"""

MANUAL = """\
from ptdbg_ascend import *
debugger = PrecisionDebugger(dump_path="./dump_path", hook_name="dump", step=[0])
# 请勿将以上初始化流程插入到循环代码中

# 模型初始化
# 下面代码也可以用PrecisionDebugger.start()和PrecisionDebugger.stop()
debugger.start()

train()

debugger.stop()
debugger.start()

train()

debugger.stop()
debugger.step()
"""

OVERFLOW = """\
from ptdbg_ascend import *
seed_all()
# 配置溢出数据目录路径和名称
set_dump_path("./overflow_dump")
...
# 设置检测到3次溢出后退出训练
register_hook(model, overflow_check, overflow_nums=3)
"""

FORWARD_ACL = """\
from ptdbg_ascend import *

# 固定随机数，开启确定性计算
seed_all(mode=True)
set_dump_path("./dump_path", dump_tag='forward')
register_hook(model, acc_cmp_dump, dump_mode='acl', dump_config='./dump.json')

# dump指定前向API的ACL级别数据、bool和整型的tensor以及浮点、bool和整型的标量
set_dump_switch("ON", mode="acl", scope=["Tensor_permute_1_forward"], filter_switch="OFF")
"""

DUMP_JSON = """\
{
 "dump":
 {
         "dump_list":[],
         "dump_path":"./dump/output",
         "dump_mode":"all",
         "dump_op_switch":"on"
 }
}
"""

MODULE = """\
# 根据需要import包
import os
import torch
import torch.nn as nn
import torch_npu
from ptdbg_ascend import *

torch.npu.set_device("npu:0")
# 定义一个简单的网络
class ModuleOP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear_1 = nnLinear(in_features=2, out_features=2)
        self.linear_2 = nnLinear(in_features=2, out_features=1)
        self.relu = nn.Relu()
    def forward(self, x):
        x1 = self.linear_1(x)
        x1 = self.linear_2(x1)
        r1 = self.relu(x2)
        return r1

if __name__ == "__main__":
    module = ModuleOP

    # 注册工具
    set_dump_path("./dump_data/npu")
    set_dump_switch("ON")
    register_hook(module, acc_cmp_dump)

    x = torch.randn(2, 2)

    module_dump(module, "MyModule")    # 开启模块级精度数据dump
    out = module(x)
    module_dump_end()    # 结束模块级精度数据dump
    loss = out.sum()
    loss.bachward()
    set_dump_switch("OFF")
"""

# The smallest mend: names that do not exist, and a class in place of an object.
MODULE_MEND = (
    ("nnLinear", "nn.Linear"),
    ("nn.Relu", "nn.ReLU"),
    ("self.relu(x2)", "self.relu(x1)"),
    ("module = ModuleOP\n", "module = ModuleOP()\n"),
    ("bachward", "backward"),
)
