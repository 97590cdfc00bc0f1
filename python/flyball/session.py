"""The training client: profiles a rank while it trains, fetches its plan, and sets the clocks that the plan has.

One session per rank, in its process (Perseus, SOSP'24, table 2):

    with flyball.Session(server="planner:4940", job="gpt3-7", token=token, stages=4, microbatches=128,
                         rank=rank, pp_rank=stage, gpu=local_rank) as session:
        for batch in batches:
            with session.step():
                for instruction in order:                # this stage's, "forward" and "backward"
                    session.set_speed(instruction)       # as soon as the computation before has been handed out
                    wait_for_input()
                    with session.instruction(instruction):
                        compute()
                    send_output()

Units stand in the names: s, J, W, MHz. Times are the GPU's. Nothing here makes the training wait or fail: where a server,
an agent or a driver does, clocks go to their default, and the session says so once through `notice`.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from flyball import _native
from flyball._memory import MemoryWatch
from flyball._pytorch import plain, pytorch_with_gpu, stream_handle
from flyball.meter import _wait_for_gpu_work

_Result = TypeVar("_Result")  # of a function that is hooked
# They have no clock of their own in a plan, so that nothing is asked for after them.
_CONSTANT_TIME = ("p2p", "p2p_back", "receive", "receive_back", "gradient_sync", "optimizer_step", "data_load")


@dataclasses.dataclass(frozen=True)
class SessionState:
    """What a session says of itself. Times are in the GPU's seconds.

      phase             What the session is doing. One of: profiling, waiting for a schedule, running a schedule, idle.
      clocks_done       Clocks that the sweep has measured.
      clocks_most       What clocks_done is at the end of the sweep if the energy keeps falling.
      server_reachable  Whether the planning server answers.
      schedule_version  Version of the schedule in force; 0: there is none.
      schedule_point    The schedule's point of the frontier.
      planned_time_s    Time of an iteration, as the schedule in force promises.
      planned_energy_j  Energy of one pipeline, without waiting for others, as the schedule in force promises.
      steps             Steps that have ended.
      last_step_s       Time of the last of them.
      waiting_w         What this GPU draws while it waits, mean over the sweep; 0 until it is measured.
      clocks_working    False while clocks are refused.
      clocks_set        How many clocks have reached the device.
      clocks_refused    How many attempts to set one were refused.
      clock_mhz         The clock that was asked for last; 0: the default.
      clock_age_p50_s   Time from set_speed until the clock has reached the device, in this machine's seconds: median.
      clock_age_p99_s   The same: 99th percentile.
      reconfiguring     Whether the schedule in force is being adjusted from step to step; see executed_steps.
      straggler_w       What one pipeline draws while it waits for others after its iteration, as the schedule says.
      order             The number of the order in which the step runs; 0: that of the schedule in the options.
      promise           Whether iterations take what the schedule in force promises. Slower: they took longer, and the
                        clocks are at their default until the server sends another schedule. Dearer: this GPU takes more
                        energy than at maximum clocks; what follows is the server's to decide, which knows the other
                        GPUs. One of: unknown, kept, slower, dearer.
      at_maximum_s      What an iteration takes at maximum clocks, as measured; 0: unknown.
      compared_iterations
                        Iterations by plan whose energy is known, since the session began.
      compared_energy_j What they took of this rank's GPU, by its own counter.
      compared_energy_at_maximum_j
                        What as many iterations at maximum clocks take.
      compared_energy_error_j
                        Standard error of the difference of these energies.
      power_limit_w     Power limit that the session holds on the board, for its plan; 0: what held before.
    """

    phase: str = "idle"
    clocks_done: int = 0
    clocks_most: int = 0
    server_reachable: bool = False
    schedule_version: int = 0
    schedule_point: int = 0
    planned_time_s: float = 0.0
    planned_energy_j: float = 0.0
    steps: int = 0
    last_step_s: float = 0.0
    waiting_w: float = 0.0
    clocks_working: bool = True
    clocks_set: int = 0
    clocks_refused: int = 0
    clock_mhz: float = 0.0
    clock_age_p50_s: float = 0.0
    clock_age_p99_s: float = 0.0
    reconfiguring: bool = False
    straggler_w: float = 0.0
    order: int = 0
    promise: str = "unknown"
    at_maximum_s: float = 0.0
    compared_iterations: int = 0
    compared_energy_j: float = 0.0
    compared_energy_at_maximum_j: float = 0.0
    compared_energy_error_j: float = 0.0
    power_limit_w: float = 0.0


class Computation(NamedTuple):
    """One entry of a schedule."""

    instruction: str  # without a chunk's suffix
    microbatch: int
    chunk: int
    clock_mhz: int  # 0: as it is


class Transfers(NamedTuple):
    """How many transfers, which occupy both stages, a stage posts together before a computation."""

    send_forward: int  # activations to the next stage
    receive_forward: int  # activations from the stage before
    send_backward: int  # gradients to the stage before
    receive_backward: int  # gradients from the next stage


class Window:
    """Time and energy of this rank's GPU in a with-block, known at its end."""

    time_s: float = float("nan")
    energy_j: float = float("nan")
    complete: bool = True  # False: the counter hung, failed or stood still; the energy is less than what flowed
    problem: str = ""  # why


class Session:
    """One rank of a training job, from its first step to its last. Close it, or use it as a context manager.

    The options, from their description:
      server            The planning server: HOST:PORT, https://HOST:PORT (see ca_file) or the path of a Unix socket.
                        Empty: no server; the rank is still profiled and measured.
      ca_file           PEM file of the authorities from which the certificate of an https:// server may come. Empty:
                        the authorities that this machine trusts.
      job               The job's id; if there is a server, 1 to 128 letters, digits, '.', '_', '+' and '-'.
      token             The job's secret: 32 to 128 letters, digits, '_' and '-'.
      registration_token
                        Token to register the job with, if the server asks for one. Empty: the content of the
                        environment variable FLYBALL_REGISTRATION_TOKEN, or of the file that
                        FLYBALL_REGISTRATION_TOKEN_FILE names.
      stages            Number of stages of a pipeline.
      microbatches      Number of microbatches of one pipeline in an iteration.
      chunks            Number of model chunks of a stage.
      data_parallel     Number of pipelines of the job.
      tensor_parallel   Number of ranks of a stage. A job may have 131,072 ranks in all.
      schedule          The order in which stages run their instructions. One of: gpipe, 1f1b, interleaved-1f1b,
                        early-recompute-1f1b, zb-h1.
      planner           The planner that makes the frontier. If it is missing: joint, if the ranks execute an order and
                        a memory limit is given or measured, otherwise perseus. One of: perseus, joint, envpipe,
                        envpipe-greedy, envpipe-no-reconfigure, max, uniform, zeus-global, zeus-per-stage.
      executed_steps    Whether planners that adjust a plan from step to step (envpipe, envpipe-greedy) learn from the
                        iterations that the ranks run and report, rather than from emulated ones.
      executes_order    Whether the ranks can run their computations in an order that the planner chooses. They then run
                        it in those iterations for which all ranks of a pipeline hold it. If not, every planner keeps
                        the schedule's order.
      order             Whether planners may choose another order than the schedule's. fixed: they keep it; free: they
                        may change it, if the ranks execute an order. If it is missing, planners that are named (joint,
                        envpipe) may, and so may the default one if a memory limit is given. One of: fixed, free.
      transfers_occupy_both
                        Whether a transfer, which is measured as `p2p`, occupies the stage that sends as well as the one
                        that receives. It then begins when both stages are ready for it. With chunks, a stage exchanges
                        all that it sends and receives for a forward and the backward behind it together, as Megatron
                        Core does if overlap_p2p_comm is off.
      places_transfers  Whether the ranks post transfers that occupy both stages where their schedules say so. If not, a
                        job with such transfers keeps its schedule's order, since its stages would wait for each other
                        in a circle.
      blocking_w        Blocking power: what a GPU draws while it waits for others. 0: as the sweep measures it, or 75 W
                        if hardly any GPU waits.
      noise             Noise of the energy meter, as a share of the energy (0.01 is 1 %): a smaller difference between
                        two measurements does not count.
      memory_limit      Number of microbatches whose activations fit into memory; one number for all stages, or one per
                        stage. Planners that reorder (joint, envpipe) keep to it. If it is missing, what the ranks say
                        of their memory is the limit, or if they say nothing, there is none.
      switch_latency_s  Time from a clock change until it takes effect. The plan avoids changes that do not pay, and
                        counts what the others cost. 0: as the sweep measures it.
      clocks_ahead      Whether a computation's clock is asked for while the one before it runs, as long before its end
                        as a change takes, so that the clock holds when the computation begins. Plans then count on
                        that.
      min_dwell_s       Least time between two clock changes of one stage.
      max_power_w       The most that all GPUs of the job together (stages * data_parallel * tensor_parallel) may draw
                        at any moment, as the plan is emulated. 0: there is no such limit.
      max_ramp_w_per_s  The most by which the job's power, averaged over ramp_window_s, may change per second from one
                        such window to the next, in watts per second. 0: there is no such limit.
      ramp_window_s     Time over which power is averaged for max_ramp_w_per_s.
      rank              Number of the rank in the job, from 0.
      dp_rank           Number of the rank's pipeline, from 0.
      pp_rank           Number of the rank's stage, from 0.
      tp_rank           Number of the rank within its stage, from 0.
      gpu               Number of the rank's GPU: the agent's number if the agent sets the clocks, otherwise the number
                        that `flyball devices` shows.
      clocks            Where clocks are set: "device", "none" or the agent's address ("/run/flyball/agent.sock",
                        "HOST:PORT"). Empty: through the agent if one listens at its usual place, otherwise on the
                        device itself.
      plan              A plan file to run, without a server: `plan.json` of `flyball plan`, or a list of clocks as
                        Zeus, Perseus and Kareus have them (freqs_pipeline_N.py). The same on every rank. A session with
                        a plan profiles only when it is told to do so again.
      plan_time_ratio   What an iteration by the plan may take, as a multiple of one at maximum clocks; if it takes
                        longer, the plan is given up. 0: as the plan file promises, or 1 if it promises nothing.
      profile           Whether to profile the rank while it trains, by a sweep over its clocks.
      steps_per_clock   Number of steps that the sweep measures at each clock; more, up to four times as many, where the
                        energy counter changes fewer than a hundred times meanwhile.
      rises_to_stop     Number of clocks in a row at which the energy of a step's computations must rise to end the
                        sweep.
      clock_stride      Spacing of the sweep's clocks: 1 measures at every clock of the GPU, 2 at every second one.
      settle_s          Time after a clock change during which nothing is measured.
      sampling_s        Time between two readings of the energy counter; at the default, more where a reading is dear.
      clock_poll_s      Time between two checks of the control thread for a new clock.
      time_scale        Seconds of the GPU in one second of this machine; 1 unless the GPU is simulated.
      notice            called with a sentence when something fails and when it works again, by a thread of the session
      synchronize       called at both ends of an instruction while it is measured; by default waits for PyTorch's queued
                        CUDA work where PyTorch is in use
      required          False: where the session cannot be opened, warn, and train on with one that does nothing

    Raises DeviceError where there is no such GPU or the CA file cannot be used, UsageError (a ValueError) for arguments
    that do not fit.

    Threads: step, set_speed, instruction and their parts are for one thread at a time; everything else may be called
    from any. After a fork only the parent may use a session.
    """

    def __init__(
        self,
        *,
        server: str = "",
        ca_file: str = "",
        job: str = "",
        token: str = "",
        registration_token: str = "",
        stages: int = 1,
        microbatches: int = 1,
        chunks: int = 1,
        data_parallel: int = 1,
        tensor_parallel: int = 1,
        schedule: str = "1f1b",
        planner: str | None = None,
        executed_steps: bool = True,
        executes_order: bool = False,
        order: str | None = None,
        transfers_occupy_both: bool = False,
        places_transfers: bool = False,
        blocking_w: float | Sequence[float] = (),
        noise: float = 0.0,
        memory_limit: int | Sequence[int] = (),
        switch_latency_s: float = 0.0,
        clocks_ahead: bool = True,
        min_dwell_s: float = 0.0,
        max_power_w: float = 0.0,
        max_ramp_w_per_s: float = 0.0,
        ramp_window_s: float = 1.0,
        rank: int = 0,
        dp_rank: int = 0,
        pp_rank: int = 0,
        tp_rank: int = 0,
        gpu: int = 0,
        clocks: str = "",
        plan: str = "",
        plan_time_ratio: float = 0.0,
        profile: bool = True,
        steps_per_clock: int = 5,
        rises_to_stop: int = 5,
        clock_stride: int = 1,
        settle_s: float = 0.03,
        sampling_s: float = 0.004,
        clock_poll_s: float = 0.0005,
        time_scale: float = 1.0,
        notice: Callable[[str], None] | None = None,
        synchronize: Callable[[], None] | None = _wait_for_gpu_work,
        required: bool = True,
    ) -> None:
        options = {
            name: value
            for name, value in locals().items()
            if name not in ("self", "notice", "synchronize", "required")
        }
        self._synchronize = synchronize or (lambda: None)
        self._hooked = False  # in a step of hook_step()
        self._unfinished = ""  # what hook_begin() has begun
        self._streams = True  # hooks may ask for clocks in PyTorch's stream
        # Whether memory is measured by itself where PyTorch turns out to use a GPU.
        no_limit = hasattr(memory_limit, "__len__") and len(memory_limit) == 0
        self._wants_memory = bool(server) and executes_order and order != "fixed" and chunks == 1 and no_limit
        self._memory: MemoryWatch | None = None  # what measures it
        self._native = None
        try:
            self._native = _native.Session(json.dumps(options, allow_nan=False, default=plain), notice)
        except _native.DeviceError as error:
            if required:
                raise
            warnings.warn(f"training without Flyball: {error}", RuntimeWarning, stacklevel=2)

    # --- The training loop ---

    @contextmanager
    def step(self) -> Iterator[None]:
        """One iteration, with its gradient synchronisation."""
        self.step_begin()
        try:
            yield
        finally:
            self.step_end()

    @contextmanager
    def instruction(self, type: str) -> Iterator[None]:
        """One computation: "forward", "backward", "recompute", "backward_input", "backward_weight", with ".N" for model
        chunk N > 0, or a constant-time operation ("p2p", "gradient_sync", "optimizer_step", "data_load")."""
        self.begin(type)
        try:
            yield
        finally:
            self.end(type)

    def hook_step(self, function: Callable[..., _Result]) -> Callable[..., _Result]:
        """`function` as one iteration: for engines that are hooked rather than written anew. Where PyTorch uses a GPU, the
        hooks ask for clocks and measure in its current stream, since it runs ahead of the GPU; elsewhere at once. Where
        there is a server, it finds during the sweep how long computations take to get their input from other stages."""

        if self._native is not None:
            self._native.find_handovers()

        @functools.wraps(function)
        def step(*args: Any, **kwargs: Any) -> _Result:
            with self.step():
                self._hooked = True
                try:
                    self._where_the_gpu_is("set_next_speed")
                    return function(*args, **kwargs)
                finally:
                    self._hooked = False
                    if self._native is not None and self._native.measures_step():
                        self._synchronize()

        return step

    def _where_the_gpu_is(self, call: str, *type: str) -> None:
        """A call of this session: for when the GPU comes to it, or at once where no GPU runs behind."""
        if self._streams and self._native is not None and pytorch_with_gpu() is not None:
            try:
                getattr(self, call + "_in")(*type)
                return
            except _native.DeviceError as error:
                self._streams = False
                words = f"clocks are asked for when PyTorch queues work, not when the GPU comes to it: {error}"
                warnings.warn(words, RuntimeWarning, stacklevel=3)
        getattr(self, call)(*type)

    def hook(self, type: str, function: Callable[..., _Result]) -> Callable[..., _Result]:
        """`function` as one computation or constant-time operation of this type, where it runs in a hook_step(); after a
        computation, the clock of whatever the plan has next is asked for. Elsewhere, as in an evaluation, `function`
        alone."""

        @functools.wraps(function)
        def operation(*args: Any, **kwargs: Any) -> _Result:
            if not self._hooked:
                return function(*args, **kwargs)
            self._where_the_gpu_is("begin", type)
            try:
                result = function(*args, **kwargs)
            finally:
                self._where_the_gpu_is("end", type)
            if type not in _CONSTANT_TIME:
                self._where_the_gpu_is("set_next_speed")
            return result

        return operation

    def hook_begin(self, type: str, function: Callable[..., _Result]) -> Callable[..., _Result]:
        """hook() for the first of two functions that are one computation together, such as a forward and the loss of its
        microbatch: the computation goes on until the function of hook_end() has run."""

        @functools.wraps(function)
        def first(*args: Any, **kwargs: Any) -> _Result:
            if not self._hooked:
                return function(*args, **kwargs)
            self._where_the_gpu_is("begin", type)
            try:
                result = function(*args, **kwargs)
            except BaseException:
                self._where_the_gpu_is("end", type)  # the last function will not run
                raise
            self._unfinished = type
            return result

        return first

    def hook_end(self, type: str, function: Callable[..., _Result]) -> Callable[..., _Result]:
        """hook() for the last of two functions that are one computation together; `function` alone where the first has
        not run before it."""

        @functools.wraps(function)
        def last(*args: Any, **kwargs: Any) -> _Result:
            try:
                return function(*args, **kwargs)
            finally:
                if self._unfinished == type:
                    self._unfinished = ""
                    self._where_the_gpu_is("end", type)
                    self._where_the_gpu_is("set_next_speed")

        return last

    def step_begin(self) -> None:
        if self._native is None:
            return
        if self._wants_memory and pytorch_with_gpu() is not None:
            self.measure_memory()
        self._memory_at("step_begin")
        self._native.step_begin()

    def step_end(self) -> None:
        if self._native is None:
            return
        self._native.step_end()
        self._memory_at("step_end")

    def set_speed(self, type: str) -> None:
        """Asks for the clock of the next computation of this type. Never waits; cost well under a microsecond beside the
        interpreter's own."""
        if self._native is not None:
            self._native.set_speed(type)

    def set_next_speed(self) -> None:
        """The same for whatever computation the plan has next: for engines in which the computations can be found, but
        not the waits before them. Call it at the beginning of a step and after every computation."""
        if self._native is not None:
            self._native.set_next_speed()

    def begin(self, type: str) -> None:
        """The computation begins: its input is there. Waits for the GPU only while it is measured."""
        if self._native is not None:
            if self._native.measures_step():
                self._synchronize()
            self._memory_at("begin", type)
            self._native.begin(type)

    def end(self, type: str) -> None:
        """The computation has ended. Waits for the GPU only while it is measured."""
        if self._native is not None:
            if self._native.measures_step():
                self._synchronize()
            self._native.end(type)
            self._memory_at("end", type)

    def _memory_at(self, call: str, *type: str) -> None:
        if self._memory is None:
            return
        try:
            getattr(self._memory, call)(*type)
        except Exception as error:  # of PyTorch's, which must not end the training
            self._memory = None
            warnings.warn(f"memory is not measured: {error}", RuntimeWarning, stacklevel=3)

    # --- Engines that queue their work and run ahead of the GPU ---

    def set_speed_in(self, type: str, stream: Any = None) -> None:
        """set_speed() for when the GPU has done all that was queued in the stream before. `stream`: a torch.cuda.Stream,
        or the handle of a CUstream or hipStream_t as an int (0: the default stream); None: PyTorch's current stream.
        Never waits. Here and below, DeviceError where the driver cannot do it, and ValueError for None without PyTorch's
        CUDA."""
        if self._native is not None:
            self._native.set_speed_in(type, stream_handle(stream))

    def set_next_speed_in(self, stream: Any = None) -> None:
        """set_next_speed() likewise."""
        if self._native is not None:
            self._native.set_next_speed_in(stream_handle(stream))

    def begin_in(self, type: str, stream: Any = None) -> None:
        """The computation begins when the GPU has done all that was queued before. Never waits. While the rank profiles
        itself, the GPU must have done a step's computations before step_end()."""
        if self._native is not None:
            self._memory_at("begin", type)
            self._native.begin_in(type, stream_handle(stream))

    def end_in(self, type: str, stream: Any = None) -> None:
        """The computation has ended when the GPU has done all that was queued before. Never waits."""
        if self._native is not None:
            self._native.end_in(type, stream_handle(stream))
            self._memory_at("end", type)

    @contextmanager
    def instruction_in(self, type: str, stream: Any = None) -> Iterator[None]:
        """instruction() with begin_in() and end_in(): what is queued in it is one computation."""
        self.begin_in(type, stream)
        try:
            yield
        finally:
            self.end_in(type, stream)

    # --- Engines that run the order that they are given (executes_order) ---

    def order_held(self) -> int:
        """The number of the newest schedule's order, the same on all ranks that hold it; 0: the order of `schedule`. To
        be compared over all ranks of the pipeline before each step: stages that run different orders lock up."""
        return 0 if self._native is None else self._native.order_held()

    def use_order(self, order: int) -> None:
        """In which order the next steps run: what order_held() has returned, if it was the same on all ranks, else 0."""
        if self._native is not None:
            self._native.use_order(order)

    @property
    def order_in_use(self) -> list[Computation]:
        """What this stage is to run, in that order; empty for the order of `schedule`."""
        return [] if self._native is None else [Computation(*entry) for entry in self._native.order_in_use()]

    @property
    def transfers_in_use(self) -> list[Transfers]:
        """What this stage posts before each computation of order_in_use; empty where the schedule does not say. To be
        followed by ranks with `places_transfers`: transfers that occupy both stages lock up in another order."""
        return [] if self._native is None else [Transfers(*entry) for entry in self._native.transfers_in_use()]

    def set_memory(self, microbatch_bytes: int, activation_bytes: int) -> None:
        """Tells the server what fits into this rank's memory, for jobs without `memory_limit`: the bytes that one
        microbatch's activations hold from its forward to its backward, and those that there are for all that are held at
        once, with a margin left out. To be called before the sweep ends, and again where less fits. 0, 0: not known."""
        self._wants_memory = False
        if self._native is not None:
            self._native.set_memory(microbatch_bytes, activation_bytes)

    def measure_memory(self, total_bytes: int | None = None) -> None:
        """Measures it, in the third to fifth step from now, by PyTorch's allocator; 5 % of the GPU's memory and what is
        lost to fragmentation are left out. This is done by itself where the job executes an order, has told no
        `memory_limit`, and PyTorch uses a GPU. `total_bytes`: less than the GPU has; on a processor, where autograd's
        saved tensors are counted, those that there are for activations."""
        self._wants_memory = False
        if self._native is not None:
            import torch

            self._memory = MemoryWatch(torch, self.set_memory, total_bytes)

    # --- Anybody ---

    def set_straggler(self, id: int, *, delay_s: float = 0.0, degree: float) -> None:
        """Rank `id` (below 0: something outside the job) will take `degree` times its usual iteration time in `delay_s`
        seconds; 1: it has recovered. Goes out in the background."""
        if self._native is not None:
            self._native.set_straggler(id, delay_s, degree)

    def profile_again(self) -> None:
        """The sweep starts over with the next step. In this session all that was measured before is dropped at once. In
        the server's plan, when the sweep is over, each instruction that it has measured replaces what was measured of it
        before, and the draw of waiting is dropped where the sweep saw too little waiting to tell it."""
        if self._native is not None:
            self._native.profile_again()

    @property
    def state(self) -> SessionState:
        """What the session is doing now."""
        return SessionState() if self._native is None else SessionState(**json.loads(self._native.state()))

    @property
    def schedule(self) -> list[Computation]:
        """The newest plan that has come, in the order of this stage; empty before. In force from the next step on."""
        return [] if self._native is None else [Computation(*entry) for entry in self._native.schedule()]

    @property
    def profile_csv(self) -> str:
        """What the sweep has measured so far, as `flyball plan` reads it: stage, instruction, frequency (MHz), time (s),
        energy (J)."""
        if self._native is None:
            return "stage,instruction,frequency,time,energy\n"
        return self._native.profile_csv()

    @contextmanager
    def window(self) -> Iterator[Window]:
        """Time and energy of this rank's GPU in the with-block. The end waits two periods of the counter."""
        window = Window()
        if self._native is None:
            yield window
            return
        self._synchronize()
        self._native.window_begin()
        try:
            yield window
        finally:
            self._synchronize()
            window.time_s, window.energy_j, window.problem = self._native.window_end()
            window.complete = not window.problem
            if not window.complete:
                words = f"the energy of this window is not complete: {window.problem}"
                warnings.warn(words, RuntimeWarning, stacklevel=3)

    def close(self) -> None:
        """Clocks are at their default afterwards."""
        if self._native is not None:
            self._native.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
