"""scripts/check_way_in --count must accept what CONTRIBUTING.md promises and refuse each kind of broken promise."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/check_way_in"

CLEAN = {
    "CONTRIBUTING.md": "# Contributing\n\n### A scheduling policy: at most 2 files\n\n"
                       "```cpp\n// src/b.cpp\nint b();\n```\n\n### A field of a message: 1 place\n\nText.\n",
    "src/a.cpp": "int a();\n  table(a);\n",
    "src/wire.h": "struct A {\n};\n",
    "src/wire.cpp": "field(A)\n",
    "tests/way_in/policy/src/b.cpp": "int b();\n",
    "tests/way_in/policy/lines.toml": '[[add]]\nfile = "src/a.cpp"\nafter = "table("\nlines = "  table(b);"\n',
    "tests/way_in/message/lines.toml": '[[add]]\nfile = "src/wire.h"\nafter = "struct A"\nlines = "  int note;"\n'
                                       '[[add]]\nfile = "src/wire.cpp"\nafter = "field(A"\nlines = "field(note)"\n',
}


def run(changes):
    """Exit status and complaints for the clean tree with `changes` (path -> text)."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in {**CLEAN, **changes}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        result = subprocess.run([sys.executable, SCRIPT, "--count", root], capture_output=True, text=True)
        return result.returncode, result.stderr


class CheckWayIn(unittest.TestCase):
    def refused(self, changes, expected):
        status, complaints = run(changes)
        self.assertEqual(status, 1, complaints)
        self.assertIn(expected, complaints)
        self.assertEqual(complaints.count("\n"), 1, complaints)

    def test_this_tree_keeps_its_promises(self):
        result = subprocess.run([sys.executable, SCRIPT, "--count"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        # The six ways in.
        self.assertEqual(result.stdout.count("\n"), 6, result.stdout)

    def test_accepts_a_clean_tree(self):
        self.assertEqual(run({}), (0, ""))

    def test_refuses_a_file_too_many(self):
        self.refused({"tests/way_in/policy/src/b.h": ""}, "policy: 3 instead of 2 files: ")

    def test_refuses_a_second_place(self):
        self.refused({"tests/way_in/message/src/other.cpp": ""}, "message: 2 instead of 1 place: ")

    def test_refuses_a_file_that_is_there_already(self):
        self.refused({"src/b.cpp": ""}, "policy: src/b.cpp is there already")

    def test_refuses_a_line_without_its_place(self):
        self.refused({"src/a.cpp": "int a();\n"}, "policy: src/a.cpp has 0 lines with: table(")
        self.refused({"src/a.cpp": "table(a)\ntable(c)\n"}, "has 2 lines")

    def test_refuses_to_show_what_the_example_has_not(self):
        self.refused({"CONTRIBUTING.md": CLEAN["CONTRIBUTING.md"].replace("int b()", "int c()")}, "int c();")

    def test_refuses_an_example_without_a_promise_and_a_promise_without_an_example(self):
        self.refused({"tests/way_in/vendor/src/c.cpp": ""}, "tests/way_in/vendor")
        promise = "### A planner: 3 files"
        self.refused({"CONTRIBUTING.md": CLEAN["CONTRIBUTING.md"] + promise + "\n"}, f"'{promise}'")


if __name__ == "__main__":
    unittest.main()
