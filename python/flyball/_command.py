"""The program `flyball` that the package brings: the command of that name, and the one door through which Python plans,
forecasts and simulates. What the program says in JSON is what Python gets; options go by the program's own names."""

from __future__ import annotations

import codecs
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from flyball import _native
from flyball._tables import is_table, write_table

_USAGE, _INPUT, _INTERRUPTED = 2, 3, 130  # exit statuses (docs/manual/plan.md#exit-status)
_PROGRESS = re.compile(r"\r[^\r\n]*\x1b\[K")  # a line that is drawn over the last one
_MESSAGE = re.compile(r"^flyball: (warning|error): ", re.MULTILINE)
_PATIENCE_S = 5.0  # for a program that was asked to end


def program() -> str:
    """The path of the package's own program. Raises DeviceError where the package was built without it."""
    # Beside the extension module: with `pip install -e`, the package's sources are elsewhere.
    path = Path(_native.__file__).parent / "_program" / "bin" / "flyball"
    if not path.is_file():
        raise _native.DeviceError(f"this package has no program: {path} is not there; install the package again")
    return str(path)


def main() -> None:
    """The command `flyball`: this process becomes the program, and has its signals, terminal and exit status."""
    path = program()
    try:
        os.execv(path, ["flyball", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"flyball: error: cannot run {path}: {error.strerror}")


class Run:
    """One run of the program with a folder of its own for what it reads and writes, which goes away with the run:

    with Run() as run:
        text = run("plan", {"profile": profile}, {"microbatches": 8, "out": run.folder})
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="flyball-")
        self.folder = Path(self._folder.name)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def __call__(self, command: str, arguments: Mapping[str, Any], options: Mapping[str, Any]) -> str:
        """What the program prints. `split_backward=0.5` stands for `--split-backward=0.5`; True is an
        option without a value, None and False leave it out."""
        words = [_as_argument(self._word(name, value)) for name, value in arguments.items() if value is not None]
        for name, value in options.items():
            # A mapping is an option that is given once for each: nodes={"a100": 4} is --nodes a100=4.
            several = isinstance(value, Mapping) and not is_table(value) and not hasattr(value, "plan_json")
            for one in [f"{key}={self._word(name, each)}" for key, each in value.items()] if several else [value]:
                if one is None or one is False:
                    continue
                option = "--" + name.replace("_", "-")
                words.append(option if one is True else f"{option}={self._word(name, one)}")
        return self._output([*command.split(), *words])

    def _word(self, name: str, value: Any) -> str:
        """A value as a word of the command line. Tables become files, plans too; lists are joined by commas."""
        if hasattr(value, "plan_json"):
            path = self.folder / f"{name}.json"
            path.write_text(value.plan_json, encoding="utf-8")
            return str(path)
        if is_table(value):
            path = self.folder / f"{name}.csv"
            write_table(value, path)
            return str(path)
        if isinstance(value, (str, bytes, os.PathLike)):
            return os.fsdecode(value)
        if isinstance(value, Iterable):
            return ",".join(self._word(f"{name}-{i}", each) for i, each in enumerate(value))
        return str(value)

    def _output(self, words: list[str]) -> str:
        try:
            status, output, told = _run([program(), *words])
        except (OSError, ValueError) as error:  # a word with a NUL, an argument list that is too long
            raise _native.UsageError(f"{words[0]}: cannot run the program: {error}") from None
        output, told = (text.replace(f"{self.folder}/", "") for text in (output, told))
        pieces = _MESSAGE.split(told)
        for kind, text in zip(pieces[1::2], pieces[2::2]):
            if kind == "warning":
                warnings.warn(text.strip(), stacklevel=_frames_within() + 1)
        if status == 0:
            return output
        if status == _INTERRUPTED or status == -signal.SIGINT:
            raise KeyboardInterrupt
        problem = pieces[-1].strip() or f"{words[0]}: the program ended with status {status}"
        if status == _USAGE:
            raise _native.UsageError(problem)
        raise (_native.InputError if status == _INPUT else _native.DeviceError)(problem)


def _frames_within() -> int:
    """How many calls of this package's the user's own call is above the one that asks."""
    frame, count = sys._getframe(1), 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith("flyball."):
        frame, count = frame.f_back, count + 1  # type: ignore[assignment]
    return count


def _as_argument(word: str) -> str:
    """No file is taken for an option or for standard input."""
    return f"./{word}" if word.startswith("-") else word


def _shows_progress() -> bool:
    """Whether somebody looks on: at a terminal, or in a notebook, whose output is none."""
    if "ipykernel" in sys.modules and type(sys.stderr).__module__.startswith("ipykernel"):
        return True
    return sys.stderr is not None and sys.stderr.isatty()


def _run(words: list[str]) -> tuple[int, str, str]:
    """Exit status, standard output, and what standard error had to say. Where somebody looks on, the program is given a
    terminal for its progress, which is passed on. Ctrl-C ends the program, too."""
    environment = {**os.environ, "NO_COLOR": "1"}
    shown = _shows_progress()
    reading, writing = os.openpty() if shown else os.pipe()
    told: list[str] = []
    try:
        try:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=writing,
                                       env=environment)
        finally:
            os.close(writing)
        listener = threading.Thread(target=_listen, args=(reading, shown, told), daemon=True)
        listener.start()
        try:
            assert process.stdout is not None
            with process.stdout as pipe:
                output = pipe.read().decode("utf-8", "replace")
            status = process.wait()
        except BaseException:
            _end(process)
            raise
        finally:
            listener.join(_PATIENCE_S)
    finally:
        os.close(reading)
    return status, output, "".join(told)


def _listen(reading: int, shown: bool, told: list[str]) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    kept, drew = "", False
    while True:
        try:
            data = os.read(reading, 65536)
        except OSError:  # a terminal whose other end is closed
            data = b""
        kept += decoder.decode(data, final=not data)
        if shown:
            drawn = _PROGRESS.findall(kept)
            if drawn:
                sys.stderr.write(drawn[-1])
                sys.stderr.flush()
                kept, drew = _PROGRESS.sub("", kept), True
        if not data:
            if drew:  # a program that is ended leaves its line
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()
            told.append(kept.replace("\r\n", "\n"))
            return


def _end(process: subprocess.Popen[bytes]) -> None:
    """Asks the program to end, as Ctrl-C does, and makes it end where it does not."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_PATIENCE_S)
    except BaseException:
        process.kill()
        process.wait()
