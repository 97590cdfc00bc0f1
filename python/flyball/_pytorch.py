"""What a session takes from PyTorch where the program uses it; nothing here imports it."""

from __future__ import annotations

import sys
from typing import Any


def pytorch_with_gpu() -> Any:
    """PyTorch, if it uses a GPU in this process."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return torch if cuda is not None and cuda.is_initialized() else None


def stream_handle(stream: Any) -> int:
    if isinstance(stream, int):
        return stream
    if stream is None:
        torch = pytorch_with_gpu()
        if torch is None:
            raise ValueError("there is no PyTorch that uses a GPU in this process: pass the stream")
        stream = torch.cuda.current_stream()
    return int(stream.cuda_stream)


def plain(value: Any) -> Any:
    """What json does not know: numbers and arrays of NumPy and PyTorch, other sequences."""
    return value.tolist() if hasattr(value, "tolist") else list(value)
