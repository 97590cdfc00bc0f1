#!/usr/bin/env python3
"""Trains an encoder of BERT's shape on random data, on the processor, and writes PyTorch's trace of it.

    flyball record -o power.csv -- python3 bert_encoder.py --trace trace.json
    flyball account --events trace.json --power power.csv --html account.html

The weights are random: what is looked at is where the energy goes, not what is learnt. Names follow Google's BERT, so
that an account reads bert/encoder/layer_0/attention/self/query/... The profiler only sees operations; annotations
around the modules' forward passes give it the hierarchy.
"""
import argparse
import json
import math
import time

import torch
from torch import Tensor, nn
from torch.autograd.profiler import profile, record_function


class SelfAttention(nn.Module):
    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)

    def split(self, x: Tensor) -> Tensor:
        batch, length, hidden = x.shape
        return x.view(batch, length, self.heads, hidden // self.heads).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = torch.matmul(query, key.transpose(2, 3)) / math.sqrt(query.shape[-1])
        context = torch.matmul(torch.softmax(scores, -1), value)
        return context.transpose(1, 2).reshape(x.shape)


class Output(nn.Module):
    """Dense layer, residual and normalisation: the end of attention and of the feed-forward part."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, hidden)
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return self.norm(self.dense(x) + residual)


class Attention(nn.Module):
    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        setattr(self, "self", SelfAttention(hidden, heads))
        self.output = Output(hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(getattr(self, "self")(x), x)


class Intermediate(nn.Module):
    def __init__(self, hidden: int, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.gelu(self.dense(x))


class Layer(nn.Module):
    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(hidden, heads)
        self.intermediate = Intermediate(hidden, 4 * hidden)
        self.output = Output(4 * hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        attended = self.attention(x)
        return self.output(self.intermediate(attended), attended)


class Encoder(nn.Module):
    def __init__(self, layers: int, hidden: int, heads: int) -> None:
        super().__init__()
        for i in range(layers):
            self.add_module(f"layer_{i}", Layer(hidden, heads))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.children():
            x = layer(x)
        return x


class Embeddings(nn.Module):
    def __init__(self, words: int, length: int, hidden: int) -> None:
        super().__init__()
        self.word = nn.Embedding(words, hidden)
        self.position = nn.Embedding(length, hidden)
        self.norm = nn.LayerNorm(hidden)

    def forward(self, words: Tensor) -> Tensor:
        return self.norm(self.word(words) + self.position(torch.arange(words.shape[1])))


class Bert(nn.Module):
    def __init__(self, words: int, length: int, layers: int, hidden: int, heads: int) -> None:
        super().__init__()
        self.embeddings = Embeddings(words, length, hidden)
        self.encoder = Encoder(layers, hidden, heads)
        self.pooler = nn.Linear(hidden, hidden)

    def forward(self, words: Tensor) -> Tensor:
        return torch.tanh(self.pooler(self.encoder(self.embeddings(words))[:, 0]))


def annotate(module: nn.Module, name: str) -> None:
    """The profiler's view of the module's forward pass is a frame of its own, under its parent's."""
    frames: list[record_function] = []

    def enter(*_: object) -> None:
        frames.append(record_function(name))
        frames[-1].__enter__()

    def leave(*_: object) -> None:
        frames.pop().__exit__(None, None, None)

    module.register_forward_pre_hook(enter)
    module.register_forward_hook(leave)
    for child_name, child in module.named_children():
        annotate(child, child_name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trace", default="trace.json", help="where to write the trace")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--sequence", type=int, default=128, help="words per record")
    parser.add_argument("--batch", type=int, default=8, help="records per step")
    parser.add_argument("--words", type=int, default=30522, help="size of the vocabulary")
    parser.add_argument("--steps", type=int, default=5, help="training steps that are traced")
    parser.add_argument("--threads", type=int, default=0, help="threads of PyTorch; 0: as many as PyTorch chooses")
    options = parser.parse_args()

    torch.manual_seed(1)
    if options.threads:
        torch.set_num_threads(options.threads)
    model = Bert(options.words, options.sequence, options.layers, options.hidden, options.heads)
    annotate(model, "bert")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    words = torch.randint(options.words, (options.batch, options.sequence))

    def step() -> None:
        optimizer.zero_grad()
        loss = model(words).square().mean()
        loss.backward()
        optimizer.step()

    step()  # the first one allocates
    with profile() as profiler:
        begin = time.time()
        with record_function("begin"):
            pass
        for _ in range(options.steps):
            step()
    profiler.export_chrome_trace(options.trace)
    to_unix_time(options.trace, begin)
    print(f"wrote {options.trace}: {options.steps} steps in {time.time() - begin:.2f} s")


def to_unix_time(path: str, begin: float) -> None:
    """The older profiler counts microseconds from its own start; the mark "begin" ties that to the clock of the meters."""
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    mark = min(event["ts"] for event in events if event.get("name") == "begin")
    if mark < 1e14:  # later profilers stamp in Unix time themselves
        for event in events:
            if "ts" in event:
                event["ts"] = round(event["ts"] - mark + begin * 1e6, 3)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(trace, file)


if __name__ == "__main__":
    main()
