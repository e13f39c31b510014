"""The script of the how-to pages: trains a small model for three steps, with an option for each page.

It does not import Ulpscope: ulpscope run --dump-path dumps/run -- examples/train.py
"""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cpu")
parser.add_argument("--autocast", action="store_true")
parser.add_argument("--eps", type=float, default=1e-5)
parser.add_argument("--nan", action="store_true")
parser.add_argument("--ddp", action="store_true")
options = parser.parse_args()

if options.ddp:
    torch.distributed.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16, eps=options.eps), nn.Tanh(), nn.Linear(16, 4))
inputs, wanted = torch.randn(6, 8), torch.randn(6, 4)
model, inputs, wanted = (thing.to(options.device) for thing in (model, inputs, wanted))
trained = nn.parallel.DistributedDataParallel(model) if options.ddp else model
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    with torch.autocast(options.device, torch.bfloat16, enabled=options.autocast):
        found = trained(inputs)
    if options.nan and step == 1:
        p = torch.softmax(found * 1e4, -1)
        found = p * torch.log(p)
    loss = nn.functional.mse_loss(found.float(), wanted)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}: loss {loss.item():.6f}")
if options.ddp:
    torch.distributed.destroy_process_group()
