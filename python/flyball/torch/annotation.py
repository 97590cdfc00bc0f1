"""Marks the forward of every module of a model for PyTorch's profiler."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd import profiler

PREFIX = "flyball.module: "  # which the reader of traces knows (src/trace/event_recorder.cpp)

# Parts of names that others put around a model, and that its author does not know.
_WRAPPED = {"_checkpoint_wrapped_module", "_fsdp_wrapped_module"}
_PARALLEL = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)
_ALWAYS = {"always_call": True} if "always_call" in inspect.signature(
    torch.nn.Module.register_forward_hook).parameters else {}  # since PyTorch 2.1: also after an exception


class _OpenRanges(threading.local):
    def __init__(self) -> None:
        self.stack: list[tuple[_Forward, Any]] = []

    def close(self, left: int) -> None:
        while len(self.stack) > left:
            self.stack.pop()[1].__exit__(None, None, None)


_open = _OpenRanges()


class _Forward:
    """The two hooks of one module. They can be copied and pickled with it."""

    def __init__(self, name: str, outermost: bool) -> None:
        self.name = PREFIX + name
        self.outermost = outermost

    def begin(self, *_: Any) -> None:
        # Before PyTorch 2.1 no hook tells that a forward raised: what it left open ends where an outer forward ends, or
        # the model begins anew.
        if self.outermost and _open.stack and not _ALWAYS:
            _open.close(0)
        if getattr(profiler, "_is_profiler_enabled", False) or torch._C._autograd._profiler_enabled():
            mark = profiler.record_function(self.name)
            mark.__enter__()
            _open.stack.append((self, mark))

    def end(self, *_: Any) -> None:
        for at in range(len(_open.stack) - 1, -1, -1):
            if _open.stack[at][0] is self:
                return _open.close(at)


class Annotation:
    """What `annotate` has done to a model, until `remove`, or to the end of a with-block."""

    def __init__(self, model: torch.nn.Module, name: str) -> None:
        self.modules = 0  # that are annotated
        self.left_out: list[str] = []  # modules that are not, with why, a sentence each
        self._handles: list[Any] = []
        found = list(_modules(model, name, self.left_out))
        for module, path in found:
            if any(isinstance(getattr(hook, "__self__", None), _Forward) for hook in module._forward_hooks.values()):
                from flyball._native import UsageError  # here, since `flyball account -- CMD` needs no such package

                raise UsageError(f"annotate: {path or 'the model'} is annotated already; remove that annotation first")
        for module, path in found:
            forward = _Forward(path, module is found[0][0])
            self._handles.append(module.register_forward_pre_hook(forward.begin))
            self._handles.append(module.register_forward_hook(forward.end, **_ALWAYS))
        self.modules = len(found)

    def remove(self) -> None:
        """Takes the hooks away. Again does nothing."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def __enter__(self) -> Annotation:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def _why_not(module: torch.nn.Module) -> str | None:
    if isinstance(module, torch.jit.ScriptModule):
        return "is TorchScript, which runs no hooks inside; profile it with with_modules=True"
    if hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None:
        return "is compiled by torch.compile, which fuses operations of several modules"
    return None


def _modules(model: torch.nn.Module, name: str, left_out: list[str]) -> Iterator[tuple[torch.nn.Module, str]]:
    """Every module once, with its path by its first parent."""
    seen = set()
    waiting = [(model, name)]
    while waiting:
        module, path = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        if (why := _why_not(module)) is not None:
            left_out.append(f"{path or 'the model'} {why}")
            continue
        parallel = isinstance(module, _PARALLEL)
        if not parallel:
            yield module, path
        for child_name, child in reversed(list(module.named_children())):
            unnamed = (parallel and child_name == "module") or child_name in _WRAPPED
            waiting.append((child, path if unnamed else f"{path}.{child_name}" if path else child_name))


def annotate(model: torch.nn.Module, name: str = "") -> Annotation:
    """While PyTorch's profiler runs, its trace says which module of `model` computes.

    `flyball account` then shows rows such as encoder/layer/3/attention/query/aten::addmm, of the forward and of the
    backward, by the names of `model.named_modules()`, below `name` if that is given. A module that has several parents
    stands below the first. Modules that are compiled or TorchScript are left out, with all that is in them: see
    `left_out` of the result. So does the `module` of DataParallel and DistributedDataParallel leave no trace in names.
    Annotate before or after wrapping a model, and before training.

    Costs some 10 us per module and forward under the profiler, and 2 us otherwise. Raises UsageError
    where a module of the model is annotated already. Returns what takes the annotation away again.
    """
    return Annotation(model, name)
