"""A pipeline on torch.distributed, with Flyball in it: the lines that name `self.flyball` are all there is to it."""

from contextlib import contextmanager, nullcontext

import torch
import torch.distributed as dist
from torch import nn


class Stage(nn.Module):
    """Some layers of a small transformer that predicts the next token; with the embedding first, the classifier last."""

    def __init__(self, stage, stages, *, vocabulary=64, width=32, heads=2, length=16):
        super().__init__()
        torch.manual_seed(1234 + stage)
        self.shape = (length, width)
        self.embedding = nn.Embedding(vocabulary, width) if stage == 0 else None
        self.position = nn.Parameter(0.02 * torch.randn(length, width)) if stage == 0 else None
        self.layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
        self.classifier = nn.Linear(width, vocabulary) if stage == stages - 1 else None
        self.register_buffer("mask", torch.full((length, length), float("-inf")).triu(1), persistent=False)

    def forward(self, x):
        if self.embedding is not None:
            x = self.embedding(x) + self.position
        x = self.layer(x, src_mask=self.mask)
        return x if self.classifier is None else self.classifier(x)


class Pipeline:
    """Runs one iteration at a time: in the order that Flyball has planned, if all stages have agreed on it, else in
    1F1B's."""

    def __init__(self, model, microbatches, flyball, computes):
        self.model, self.microbatches = model, microbatches
        self.flyball = flyball  # a flyball.Session, or None
        self.computes = computes  # puts the GPU to work; real GPUs do that by themselves
        self.rank, self.stages = dist.get_rank(), dist.get_world_size()
        self.first, self.last = self.rank == 0, self.rank == self.stages - 1

    def step(self, inputs, targets):
        """One iteration over microbatches of tokens; leaves the gradients in the parameters. Returns the mean loss, on
        the last stage."""
        self.inputs, self.targets = inputs, targets
        self.held, self.most_held, self.sending, self.losses = {}, 0, [], []
        planned = self.flyball.order_in_use if self.flyball else []
        for computation in planned:
            (self._forward if computation.instruction == "forward" else self._backward)(computation.microbatch)
        if not planned:
            self._run_1f1b()
        for request, _ in self.sending:
            request.wait()
        return sum(self.losses) / self.microbatches if self.last else 0.0

    def agree_on_order(self):
        """Before each step: stages that ran different orders would wait for each other for ever."""
        held = self.flyball.order_held()
        greatest = torch.tensor([held, -held])
        dist.all_reduce(greatest, op=dist.ReduceOp.MAX)
        self.flyball.use_order(held if greatest[0] == -greatest[1] else 0)

    def _run_1f1b(self):
        """Forwards until the pipeline is full, one forward and one backward in turn, then the backwards that are left."""
        warm_up = min(self.microbatches, self.stages - self.rank - 1)
        for m in range(warm_up):
            self._forward(m)
        for m in range(warm_up, self.microbatches):
            self._forward(m)
            self._backward(m - warm_up)
        for m in range(self.microbatches - warm_up, self.microbatches):
            self._backward(m)

    def _forward(self, m):
        if self.flyball:
            self.flyball.set_speed("forward")  # before the wait, so that the change happens during it
        received = self.inputs[m] if self.first else self._receive(self.rank - 1, m).requires_grad_()
        with self._computing("forward"):
            output = self.model(received)
            if self.last:
                loss = nn.functional.cross_entropy(output.flatten(0, 1), self.targets[m].flatten())
                self.losses.append(loss.item())
                output = loss / self.microbatches
        self.held[m] = received, output
        self.most_held = max(self.most_held, len(self.held))
        if not self.last:
            self._send(output.detach(), self.rank + 1, m)

    def _backward(self, m):
        if self.flyball:
            self.flyball.set_speed("backward")
        gradient = None if self.last else self._receive(self.rank + 1, self.microbatches + m)
        received, output = self.held.pop(m)
        with self._computing("backward"):
            output.backward(gradient)
        if not self.first:
            self._send(received.grad, self.rank - 1, self.microbatches + m)

    @contextmanager
    def _computing(self, kind):
        with self.flyball.instruction(kind) if self.flyball else nullcontext(), self.computes(kind):
            yield

    def _send(self, tensor, to, tag):
        tensor = tensor.contiguous()
        self.sending.append((dist.isend(tensor, to, tag=tag), tensor))

    def _receive(self, sender, tag):
        tensor = torch.empty(self.inputs[0].shape[0], *self.model.shape)
        dist.recv(tensor, sender, tag=tag)
        return tensor

