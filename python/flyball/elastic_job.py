"""Jobs of a Slurm cluster whose GPUs change while they train (sbatch --flyball=elastic,...).

    with flyball.elastic(iterations=5000, first=checkpoint.iteration) as job:
        for iteration in job:                  # ends where the job is to stop, and at the end
            train(iteration)
        save(checkpoint, job.done)
    # job.stopped: Slurm starts this program again, with other GPUs
    # job.keeps: or, of a job that shrinks, the nodes with which its script starts this program again itself

After each iteration the job reports to the controller, `flyball cluster run`, how far it is and how long the iteration
took. A controller that is away never makes the training wait more than 0.1 s, nor stop.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from flyball import _native


def _say(words: str) -> None:
    print(f"flyball: {words}", file=sys.stderr, flush=True)


class ElasticJob:
    """What flyball.elastic() returns.

      done     iterations that are done
      stopped  whether the job is to write a checkpoint and end before its time
      keeps    names of the nodes with which it is then to go on, so that the others can be taken from it. Empty: Slurm
               starts it again. Only of a job with "shrinks" in its option, and only in rank 0

    One thread of a process may use it; after a fork, only the parent.
    """

    def __init__(
        self,
        iterations: int,
        *,
        first: int = 0,
        gpus: int = 0,
        rank: int | None = None,
        agree: Callable[[bool], bool] | None = None,
        notice: Callable[[str], None] | None = _say,
    ) -> None:
        for name, value in (("iterations", iterations), ("first", first), ("gpus", gpus)):
            if value < 0:
                raise _native.UsageError(f"flyball.elastic: {name} is {value}, and cannot be below 0")
        if rank is None:
            rank = next((int(os.environ[name]) for name in ("RANK", "SLURM_PROCID") if name in os.environ), 0)
        self.iterations, self.done, self.stopped = iterations, first, False
        self.keeps: tuple[str, ...] = ()
        self._agree, self._notice = agree, notice
        self._native = _native.ElasticJob(gpus) if rank == 0 else None

    def report(self, done: int, step_s: float) -> bool:
        """Tells that so many iterations are done, the last in `step_s`. Returns whether the job is to write a checkpoint
        and end, or to go on with the nodes in `keeps`. Every rank calls it; rank 0 reports, and `agree` tells the others.
        """
        stop = False
        keeps: list[str] = []
        if self._native is not None:
            stop, keeps, notices = self._native.report(done, self.iterations, step_s)
            self._tell(notices)
        self.done = done
        self.keeps = tuple(keeps)
        self.stopped = bool(self._agree(stop)) if self._agree is not None else stop
        return self.stopped

    def go_on(self, gpus: int) -> None:
        """Says at once that the job runs on so many GPUs from now on, those of the nodes that it keeps, and on no others.
        The loop goes on after that. Every rank that stays calls it. A program that is started again for these nodes need
        not: it says their number when it opens its elastic job."""
        if gpus < 1:
            raise _native.UsageError(f"go_on: gpus is {gpus}, and cannot be below 1")
        if self._native is not None:
            self._tell(self._native.go_on(gpus))
        self.stopped, self.keeps = False, ()

    def _tell(self, notices: list[str]) -> None:
        if self._notice is not None:
            for words in notices:
                self._notice(words)

    def __iter__(self) -> Iterator[int]:
        """The numbers of the iterations that are left, each of which is measured and reported when its body has run."""
        while self.done < self.iterations and not self.stopped:
            begin = time.monotonic()
            yield self.done
            self.report(self.done + 1, time.monotonic() - begin)

    def close(self) -> None:
        """Waits half a second at most for a report that is under way."""
        if self._native is not None:
            self._native.close()
            self._native = None

    def __enter__(self) -> ElasticJob:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def elastic(iterations: int, **options: Any) -> ElasticJob:
    """A job that reports how far it is, and is told when to stop so as to go on with more or fewer GPUs.

      iterations  of the whole training
      first       how many of them are done: what the checkpoint says
      gpus        that the job has now, over all nodes; 0: Slurm's nodes times its GPUs on this one
      rank        of this process; None: what torchrun (RANK) or Slurm (SLURM_PROCID) says. Rank 0 reports
      agree       called by every rank after every iteration with whether it was told to stop, which rank 0 alone is;
                  returns what rank 0 was told. None: for one process
      notice      called with a sentence when the controller is away, and when it is back; None: nobody

    With torch.distributed:

        def agree(stop):
            told = torch.tensor([int(stop)])
            torch.distributed.broadcast(told, 0)
            return bool(told)

    Outside of Slurm, or without a controller (FLYBALL_CLUSTER), nothing is reported, and `notice` is told so once. Raises
    UsageError (a ValueError) where a number is below 0, or FLYBALL_CLUSTER is no address.
    """
    return ElasticJob(iterations, **options)
