"""Steps of a small model in several processes, started by torchrun; the first one prints the results."""

import json
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import stopwav

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.ReLU(inplace=True), nn.Linear(64, 8)))
data = torch.randn(16, 32)
record = stopwav.step(
    model,
    lambda index: (data, None),
    lambda output, _: output.square().mean(),
    torch.optim.SGD(model.parameters(), lr=0.1),
    steps=3,
    save=sys.argv[1],
)
if dist.get_rank() == 0:
    print(json.dumps([result.to_json() for result in stopwav.results(record)]))
assert not any(module._forward_hooks for module in model.modules())
dist.destroy_process_group()
