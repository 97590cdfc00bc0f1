"""Completion in real shells: what bash, zsh and fish offer after `flyball completion SHELL` was read.

A shell that is not installed is skipped, with a message. bash and zsh run on a terminal, where Tab is pressed.
Set FLYBALL_PROGRAM to the program.
"""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import termios
import struct
import fcntl
import time
import unittest
from pathlib import Path

PROGRAM = os.environ["FLYBALL_PROGRAM"]
SECONDS = 120  # the longest time for an answer; it comes in less than one


class Terminal:
    """A shell on a terminal of 200 columns and 200 lines."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.chdir(folder)
            environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "xterm", "LC_ALL": "C"}
            os.execvpe(command[0], command, environment)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 200, 200, 0, 0))

    def send(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def read_until(self, mark: str) -> str:
        text = ""
        end = time.monotonic() + SECONDS
        while mark not in text:
            ready, _, _ = select.select([self.terminal], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"no '{mark}' in what the shell printed:\n{text}")
            text += os.read(self.terminal, 4096).decode(errors="replace")
        return text

    def close(self) -> None:
        os.kill(self.child, signal.SIGKILL)
        os.close(self.terminal)
        os.waitpid(self.child, 0)


def words_of(text: str) -> set[str]:
    """The words that stand on the terminal, without what moves its cursor and chooses its colours."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|[\x07\x08]", " ", text)
    return set(text.split())


class Completion:
    """What all shells offer. Each subclass says how a shell is asked: offered(line)."""

    shell = ""

    @classmethod
    def setUpClass(cls) -> None:
        if shutil.which(cls.shell) is None:
            raise unittest.SkipTest(f"{cls.shell} is not installed")
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.holder.name)
        script = subprocess.run([PROGRAM, "completion", cls.shell], stdout=subprocess.PIPE, check=True).stdout
        (cls.folder / "script").write_bytes(script)
        (cls.folder / "bert profile.csv").write_text("")
        (cls.folder / "bert.csv").write_text("")
        (cls.folder / "results").mkdir()
        (cls.folder / "results2").mkdir()
        (cls.folder / "res.txt").write_text("")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.holder.cleanup()

    def offered(self, line: str) -> set[str]:
        raise NotImplementedError

    def expect(self, line: str, wanted: set[str], unwanted: set[str] = frozenset()) -> None:
        offered = self.offered(line)
        self.assertLessEqual(wanted, offered, line)
        self.assertFalse(unwanted & offered, f"{line}: {unwanted & offered}")

    def test_commands(self) -> None:
        self.expect("flyball ", {"plan", "account", "cluster", "help"}, {"simulate", "manual-pages", "powercap"})
        self.expect("flyball p", {"plan", "partition", "profile"}, {"account"})

    def test_commands_below_commands(self) -> None:
        self.expect("flyball cluster ", {"simulate", "compare", "run"}, {"plan"})
        self.expect("flyball cluster trace ", {"synth", "convert"}, {"compare"})
        self.expect("flyball account ", {"diff", "start"}, {"plan"})

    def test_a_value_is_no_command(self) -> None:
        # "list" is a command below account; here it is the name of a file.
        self.expect("flyball account --json list s", {"start", "stop"})

    def test_options(self) -> None:
        self.expect("flyball plan --m", {"--microbatches", "--memory-limit", "--max-power"}, {"--planner", "--nodes"})
        self.expect("flyball cluster simulate --off", {"--off-after"})

    def test_words_of_an_option(self) -> None:
        self.expect("flyball plan --planner e", {"envpipe", "envpipe-greedy"}, {"joint"})
        self.expect("flyball record -o x --quantity ", {"energy", "power"}, {"text"})
        self.expect("flyball sim up --model a", {"a100-pcie", "a40"})

    def test_words_after_an_equals_sign(self) -> None:
        offered = {word.removeprefix("--planner=") for word in self.offered("flyball plan --planner=envpipe-")}
        self.assertLessEqual({"envpipe-greedy", "envpipe-no-reconfigure"}, offered)

    def test_words_in_a_list(self) -> None:
        offered = {word.removeprefix("fifo,") for word in
                   self.offered("flyball cluster compare --policies fifo,gand")}
        self.assertLessEqual({"gandiva", "gandiva+zeus"}, offered)

    def test_words_of_an_argument(self) -> None:
        self.expect("flyball completion ", {"bash", "zsh", "fish"}, {"plan"})
        self.expect("flyball help p", {"plan", "profile"}, {"bash"})
        self.expect("flyball messages JobR", {"JobRequest"})

    def test_files(self) -> None:
        self.expect("flyball plan bert", {"bert.csv"}, {"res.txt"})
        self.expect("flyball plan bert.csv --pipeline res", {"res.txt"})
        self.expect("flyball profile fit res", {"results/", "results2/"}, {"res.txt"})

    def test_folders(self) -> None:
        self.expect("flyball plan --out res", {"results/", "results2/"}, {"res.txt"})

    def test_programs(self) -> None:
        self.expect("flyball run -- pyth", {"python3"}, {"plan"})
        self.expect("flyball run --period 4ms -- cat bert.", {"bert.csv"})
        self.expect("flyball account --html a.html -- pyth", {"python3"})


class OnTerminal(Completion):
    start: list[str] = []
    setup = ""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.terminal = Terminal(cls.start, cls.folder)
        cls.terminal.send(cls.setup + " . ./script; echo rea''dy\r")
        cls.terminal.read_until("ready")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.terminal.close()
        super().tearDownClass()

    def offered(self, line: str) -> set[str]:
        # The line is then thrown away: Ctrl-A and # make it a comment.
        self.terminal.send(line + "\t\x01#\recho do''ne\r")
        return words_of(self.terminal.read_until("done"))


class Bash(OnTerminal, unittest.TestCase):
    shell = "bash"
    start = ["bash", "--norc", "--noprofile", "-i"]
    setup = ("PS1='> '; bind 'set show-all-if-ambiguous on'; bind 'set completion-query-items 0'; "
             "bind 'set page-completions off'; bind 'set enable-bracketed-paste off';")

    def test_it_runs_no_program(self) -> None:
        script = (self.folder / "script").read_text()
        self.assertNotRegex(script, r"\$\(flyball(?! completion)")


class Zsh(OnTerminal, unittest.TestCase):
    shell = "zsh"
    start = ["zsh", "-f", "-i"]
    setup = ("PS1='> '; setopt interactive_comments no_beep; unset zle_bracketed_paste; LISTMAX=0; "
             "autoload -U compinit; compinit -u -D; setopt auto_list no_auto_menu no_list_ambiguous;")

    def test_descriptions(self) -> None:
        # "--max-power  -- choose the fastest plan ..." and "--max-ramp  -- ..."
        self.expect("flyball plan --ma", {"--max-power", "--max-ramp", "choose", "changes"})


class Fish(Completion, unittest.TestCase):
    shell = "fish"

    def asked(self, line: str) -> list[str]:
        fish = subprocess.run(
            ["fish", "-N", "-c", "source script; complete -C $argv", line], cwd=self.folder, check=True,
            stdout=subprocess.PIPE, text=True, timeout=SECONDS, env={**os.environ, "HOME": str(self.folder)})
        return fish.stdout.splitlines()

    def offered(self, line: str) -> set[str]:
        return {offer.split("\t")[0] for offer in self.asked(line)}

    def test_descriptions(self) -> None:
        self.assertIn("plan\tfind the time-energy frontier and a clock for every computation",
                      self.asked("flyball pla"))


if __name__ == "__main__":
    unittest.main()
