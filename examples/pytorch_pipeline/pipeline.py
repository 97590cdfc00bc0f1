"""A pipeline on torch.distributed, with Flyball in it: the lines that name `self.flyball` are all there is to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor, nn

if TYPE_CHECKING:
    from flyball import Session


class Stage(nn.Module):
    """Some layers of a small transformer that predicts the next token; with the embedding first, the classifier last."""

    def __init__(self, stage: int, stages: int, *, vocabulary: int = 64, width: int = 32, heads: int = 2,
                 length: int = 16) -> None:
        super().__init__()
        torch.manual_seed(1234 + stage)
        self.shape = (length, width)
        self.embedding = nn.Embedding(vocabulary, width) if stage == 0 else None
        self.position = nn.Parameter(0.02 * torch.randn(length, width)) if stage == 0 else None
        self.layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
        self.classifier = nn.Linear(width, vocabulary) if stage == stages - 1 else None
        self.register_buffer("mask", torch.full((length, length), float("-inf")).triu(1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.embedding is not None:
            x = self.embedding(x) + self.position
        x = self.layer(x, src_mask=self.mask)
        return x if self.classifier is None else self.classifier(x)


class Pipeline:
    """Runs one iteration at a time: in the order that Flyball has planned, if all stages have agreed on it, else in
    1F1B's."""

    def __init__(self, model: Stage, microbatches: int, flyball: Session | None,
                 computes: Callable[[str], AbstractContextManager[None]]) -> None:
        self.model, self.microbatches = model, microbatches
        self.flyball = flyball
        self.computes = computes  # puts the GPU to work; real GPUs do that by themselves
        self.rank, self.stages = dist.get_rank(), dist.get_world_size()
        self.first, self.last = self.rank == 0, self.rank == self.stages - 1

    def step(self, inputs: Tensor, targets: Tensor) -> float:
        """One iteration over microbatches of tokens; leaves the gradients in the parameters. Returns the mean loss, on
        the last stage."""
        self.inputs, self.targets = inputs, targets
        self.held: dict[int, tuple[Tensor, Tensor]] = {}  # of each microbatch its input and its output
        self.most_held = 0
        self.sending: list[tuple[dist.Work, Tensor]] = []
        self.losses: list[float] = []
        planned = self.flyball.order_in_use if self.flyball else []
        for computation in planned:
            (self._forward if computation.instruction == "forward" else self._backward)(computation.microbatch)
        if not planned:
            self._run_1f1b()
        for request, _ in self.sending:
            request.wait()
        return sum(self.losses) / self.microbatches if self.last else 0.0

    def agree_on_order(self) -> None:
        """Before each step: stages that ran different orders would wait for each other for ever."""
        if not self.flyball:
            return
        held = self.flyball.order_held()
        greatest = torch.tensor([held, -held])
        dist.all_reduce(greatest, op=dist.ReduceOp.MAX)
        self.flyball.use_order(held if greatest[0] == -greatest[1] else 0)

    def _run_1f1b(self) -> None:
        """Forwards until the pipeline is full, one forward and one backward in turn, then the backwards that are left."""
        warm_up = min(self.microbatches, self.stages - self.rank - 1)
        for m in range(warm_up):
            self._forward(m)
        for m in range(warm_up, self.microbatches):
            self._forward(m)
            self._backward(m - warm_up)
        for m in range(self.microbatches - warm_up, self.microbatches):
            self._backward(m)

    def _forward(self, m: int) -> None:
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

    def _backward(self, m: int) -> None:
        if self.flyball:
            self.flyball.set_speed("backward")
        gradient = None if self.last else self._receive(self.rank + 1, self.microbatches + m)
        received, output = self.held.pop(m)
        with self._computing("backward"):
            output.backward(gradient)
        if not self.first:
            self._send(received.grad, self.rank - 1, self.microbatches + m)

    @contextmanager
    def _computing(self, kind: str) -> Iterator[None]:
        with self.flyball.instruction(kind) if self.flyball else nullcontext(), self.computes(kind):
            yield

    def _send(self, tensor: Tensor, to: int, tag: int) -> None:
        tensor = tensor.contiguous()
        self.sending.append((dist.isend(tensor, to, tag=tag), tensor))

    def _receive(self, sender: int, tag: int) -> Tensor:
        tensor = torch.empty(self.inputs[0].shape[0], *self.model.shape)
        dist.recv(tensor, sender, tag=tag)
        return tensor

