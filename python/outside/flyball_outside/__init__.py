"""Profiles a few training steps of a program that knows nothing of it.

A step ends where an optimizer's step ends. After `warmup` of them the model is annotated and `steps` are profiled; then
the trace is written. What happened goes into a file of this process in the folder of this package, which `flyball
account` reads after the program's end. Nothing here may make the program fail: what goes wrong is told there.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib.util
import json
import os
import sys
import time

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_HOOKED = "torch.optim.optimizer"


class _Settings:
    def __init__(self) -> None:
        with open(os.path.join(_FOLDER, "settings.json"), encoding="utf-8") as file:
            given = json.load(file)
        self.traces, self.steps, self.warmup = given["traces"], given["steps"], given["warmup"]


class _AfterImport:
    """Finds one module as it would be found anyway, and calls a function when it has been imported."""

    def __init__(self, module: str, then) -> None:
        self.module, self.then = module, then

    def find_spec(self, name, path=None, target=None):
        if name != self.module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                self.then(module)

            spec.loader.exec_module = exec_module
        return spec


def _guarded(method):
    """What goes wrong ends the profiling and is told, but does not reach the program."""

    @functools.wraps(method)
    def guarded(self, *arguments):
        try:
            return method(self, *arguments)
        except Exception as error:
            self.fail(error)

    return guarded


class Outside:
    """One process of the program. `state` is waiting, profiling, profiled or failed."""

    def __init__(self, settings: _Settings) -> None:
        self.settings = settings
        self.told = {"state": "waiting", "ended": 0, "profiled": 0, "left_out": [],
                     "rank": os.environ.get("RANK", ""), "visible": os.environ.get("CUDA_VISIBLE_DEVICES")}
        self.pid = os.getpid()
        self.optimizer = None  # id of the one whose steps are counted
        self.depth = 0  # of steps in steps
        self.others = 0  # the program's own profilers that are on
        self.profile = self.step = None
        self.own = False  # whether a profiler that starts or stops is ours
        self.began = 0.0
        self.times = []  # ends of steps since the profile, by which its cost is known

    def tell(self) -> None:
        path = os.path.join(_FOLDER, f"{os.getpid()}.json")
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(self.told, file)
        os.replace(path + ".new", path)

    def fail(self, error: Exception) -> None:
        self.told["state"], self.told["error"] = "failed", f"{type(error).__name__}: {error}"
        self.profile = None
        try:
            self.tell()
        except Exception:
            pass

    @_guarded
    def hook(self, module) -> None:
        """Called when PyTorch's optimizers have been imported: every class of them is hooked when it is first used."""
        self.tell()
        atexit.register(self.at_exit)
        optimizer = module.Optimizer
        name = next(name for name in ("_patch_step_function", "_hook_for_profile") if hasattr(optimizer, name))
        patch = getattr(optimizer, name)

        @functools.wraps(patch)
        def patched(this) -> None:
            patch(this)
            self.hook_class(type(this))

        setattr(optimizer, name, patched)

    @_guarded
    def hook_class(self, optimizer: type) -> None:
        from torch.autograd import profiler

        self.watch_profilers(profiler.profile)
        step = optimizer.step
        if getattr(step, "flyball_outside", False):
            return

        @functools.wraps(step)
        def counted(this, *arguments, **options):
            self.depth += 1
            try:
                result = step(this, *arguments, **options)
            finally:
                self.depth -= 1
            if self.depth == 0:  # a step may be that of the class above and more
                self.after_step(this)
            return result

        counted.flyball_outside = True
        optimizer.step = counted

    def watch_profilers(self, profile: type) -> None:
        """PyTorch has one profiler at a time: where the program starts its own, ours ends."""
        if getattr(profile, "flyball_outside", False):
            return
        profile.flyball_outside = True

        def watch(name: str, before) -> None:
            method = getattr(profile, name, None)
            if method is None:
                return

            @functools.wraps(method)
            def watched(this, *arguments, **options):
                if not self.own:
                    before(this)
                return method(this, *arguments, **options)

            setattr(profile, name, watched)

        on = set()

        def begins(this) -> None:
            on.add(id(this))
            self.others = len(on)
            self.yield_to_program()

        def ends(this) -> None:
            on.discard(id(this))
            self.others = len(on)

        for name in ("__enter__", "_prepare_trace", "_start_trace"):
            watch(name, begins)
        watch("__exit__", ends)

    @_guarded
    def after_step(self, optimizer) -> None:
        if self.told["state"] == "failed":
            return
        if self.optimizer is None or self.pid != os.getpid():  # the first, or the first in a fork
            if self.pid != os.getpid():
                self.__init__(self.settings)
            self.optimizer = id(optimizer)
            self.tell_at_end_of_fork()
        if id(optimizer) != self.optimizer:
            return
        self.told["ended"] += 1
        if self.profile is not None:
            self.step.__exit__(None, None, None)
            self.told["profiled"] += 1
            if self.told["profiled"] == self.settings.steps:
                self.finish()
            else:
                self.open_step()
        elif self.told["state"] == "waiting" and self.told["ended"] >= self.settings.warmup:
            self.begin(optimizer)
        elif self.told["state"] == "profiled" and len(self.times) <= self.settings.steps:
            self.times.append(time.monotonic())
            if len(self.times) == self.settings.steps + 1:
                self.tell_cost()

    def begin(self, optimizer) -> None:
        import torch

        if self.others or torch.autograd._profiler_enabled():
            self.told["waited"] = True  # for the program's own profiler to end
            return
        if "annotation" not in self.__dict__:
            self.annotation = self.annotate(optimizer)
        from flyball_outside.profiling import Profile

        self.told["state"] = "profiling"
        self.profile = Profile()
        self.own = True
        try:
            self.profile.start()
        finally:
            self.own = False
        self.tell()
        self.began = time.monotonic()
        self.open_step()

    def open_step(self) -> None:
        from torch.autograd import profiler

        self.step = profiler.record_function(f"ProfilerStep#{self.told['ended'] + 1}")  # as PyTorch's schedules do
        self.step.__enter__()

    def stop(self) -> None:
        profile, self.profile = self.profile, None
        self.own = True
        try:
            profile.stop()
        finally:
            self.own = False
        for one in self.annotation:
            one.remove()
        self.stopped = profile

    def finish(self, unfinished: bool = False) -> None:
        took = time.monotonic() - self.began
        self.stop()
        path = os.path.join(self.settings.traces, f"trace-{self.told['rank'] or os.getpid()}.json")
        begins = time.monotonic()
        self.stopped.write(path)
        if unfinished:
            self.rename_last_step(path)
        del self.stopped
        self.told.update(state="profiled", trace=path, write_s=time.monotonic() - begins)
        if not unfinished:
            self.told["step_s"] = took / self.told["profiled"]
        self.times = []
        self.tell()

    def rename_last_step(self, path: str) -> None:
        """What runs since the end of the last step is no step. The older profiler writes steps without their numbers."""
        with open(path, encoding="utf-8") as file:
            text = file.read()
        names = (f'"ProfilerStep#{self.told["ended"] + 1}"', '"ProfilerStep*"')
        name = next(name for name in names if name in text)
        before, after = text.rsplit(name, 1)
        with open(path, "w", encoding="utf-8") as file:
            file.write(before + '"after the last step"' + after)

    def tell_cost(self) -> None:
        if len(self.times) > 1:
            self.told["later_step_s"] = (self.times[-1] - self.times[0]) / (len(self.times) - 1)
        self.tell()

    @_guarded
    def yield_to_program(self) -> None:
        if self.profile is None or self.pid != os.getpid():
            return
        self.step.__exit__(None, None, None)
        self.told["interrupted"] = True
        if self.told["profiled"] > 0:
            self.finish(unfinished=True)
        else:
            self.stop()
            self.told["state"] = "waiting"
            del self.annotation
            self.tell()

    @_guarded
    def at_exit(self) -> None:
        if self.pid != os.getpid() or self.told["state"] == "failed":
            return
        if self.profile is not None:
            self.step.__exit__(None, None, None)
            if self.told["profiled"] > 0:
                self.finish(unfinished=True)
            else:
                self.stop()
                self.told["state"] = "waiting"
                self.tell()
        elif self.told["state"] == "profiled":
            self.tell_cost()
        else:
            self.tell()

    def tell_at_end_of_fork(self) -> None:
        """A process that multiprocessing has forked ends without atexit."""
        process = sys.modules.get("multiprocessing.process")
        if process is not None and process.parent_process() is not None:
            from multiprocessing import util

            util.Finalize(None, self.at_exit, exitpriority=10)

    def annotate(self, optimizer) -> list:
        """Annotates the models whose parameters are trained: modules of this process that no other module has."""
        if "flyball.torch.annotation" in sys.modules:
            return []  # the program does so itself, or knows why not
        counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
        if counters and counters["frames"]["ok"]:
            self.told["left_out"] = ["the program uses torch.compile; its modules are not named"]
            return []
        import torch

        from flyball_outside.annotation import annotate

        modules = [found for found in gc.get_objects() if issubclass(type(found), torch.nn.Module)]
        inner = {id(child) for module in modules for child in module.children()}
        trained = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        roots = [module for module in modules if id(module) not in inner and
                 any(id(parameter) in trained or parameter.grad is not None for parameter in module.parameters())]
        annotations = []
        for module in roots:
            name = "" if len(roots) == 1 else type(module).__name__
            annotations.append(annotate(module, name))
            self.told["left_out"] += annotations[-1].left_out
        return annotations


def arm() -> None:
    outside = Outside(_Settings())
    sys.meta_path.insert(0, _AfterImport(_HOOKED, outside.hook))
