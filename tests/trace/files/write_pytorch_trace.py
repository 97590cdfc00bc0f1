#!/usr/bin/env python3
"""Writes the PyTorch traces beside this file: a two-layer encoder, one training step on the CPU.

    pip install torch && python write_pytorch_trace.py FOLDER          # Kineto: pytorch-*.json.gz
    apt install python3-torch && python3 write_pytorch_trace.py FOLDER  # a build without Kineto: the older profiler

The weights are random and the sizes tiny: what the traces are for is their form.
"""
import gzip
import os
import sys

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, x):
        scores = torch.matmul(self.query(x), self.key(x).transpose(1, 2))
        return torch.matmul(torch.softmax(scores, 2), self.value(x))


class Layer(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.attention = Attention(width)
        self.norm = nn.LayerNorm(width)
        self.dense = nn.Linear(width, width)

    def forward(self, x):
        return self.norm(x + torch.tanh(self.dense(self.attention(x))))


class Encoder(nn.Module):
    def __init__(self, width: int = 8):
        super().__init__()
        self.layer = nn.Sequential(Layer(width), Layer(width))
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        return self.head(self.layer(x))


def step(model, optimizer, batch):
    optimizer.zero_grad()
    with torch.autograd.profiler.record_function("loss"):
        loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()


def save(profiler, folder, name):
    path = os.path.join(folder, name)
    profiler.export_chrome_trace(path)
    text = open(path, "rb").read()
    os.remove(path)
    with open(path + ".gz", "wb") as raw, gzip.GzipFile("", "wb", 9, raw, 0) as file:
        file.write(text)
    print(f"{path}.gz: {len(text)} bytes, {os.path.getsize(path + '.gz')} in gzip")


def kineto(folder):
    from torch.profiler import ProfilerActivity, profile, schedule

    def trace(name, model, steps, **options):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        batch = torch.randn(2, 4, 8)
        step(model, optimizer, batch)
        with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=0, warmup=1, active=steps, repeat=1), **options) as p:
            for _ in range(steps + 1):
                step(model, optimizer, batch)
                p.step()
        save(p, folder, name)

    trace("pytorch-plain.json", Encoder(), 2)
    trace("pytorch-stack.json", Encoder(), 1, with_stack=True, record_shapes=True, with_modules=True)
    trace("pytorch-modules.json", torch.jit.script(Encoder()), 1, with_modules=True, record_shapes=True)


def legacy(folder):
    model = Encoder()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.randn(2, 4, 8)
    step(model, optimizer, batch)
    with torch.autograd.profiler.profile(use_kineto=False, record_shapes=True) as p:
        step(model, optimizer, batch)
    save(p, folder, "pytorch-legacy.json")


torch.manual_seed(1)
torch.set_num_threads(1)
target = sys.argv[1] if len(sys.argv) > 1 else "."
(kineto if torch.profiler.kineto_available() else legacy)(target)
