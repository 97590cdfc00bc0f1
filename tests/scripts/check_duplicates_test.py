"""scripts/check_duplicates on small trees whose copies are known."""
import pathlib
import unittest

from small_tree import run_on

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_duplicates"
EIGHT = [f"call_{i}(value);" for i in range(8)]


def check(files: dict[str, list[str]]):
    return run_on(SCRIPT, {name: "\n".join(lines) + "\n" for name, lines in files.items()})


class CheckDuplicates(unittest.TestCase):
    def test_eight_equal_lines_are_told_with_both_places(self):
        done = check({"a.cpp": ["int a;", *EIGHT], "b.h": EIGHT})
        self.assertEqual(done.returncode, 1)
        self.assertIn("a.cpp:2", done.stderr)
        self.assertIn("b.h:1", done.stderr)

    def test_seven_are_not(self):
        self.assertEqual(check({"a.cpp": EIGHT[:7], "b.cpp": EIGHT[:7]}).returncode, 0)

    def test_indentation_comments_and_brackets_hide_nothing(self):
        other = [line for one in EIGHT for line in ("  " + one, "// why", "}", "")]
        self.assertEqual(check({"a.cpp": EIGHT, "b.cpp": other}).returncode, 1)

    def test_a_long_copy_is_told_once(self):
        twelve = [f"call_{i}(value);" for i in range(12)]
        done = check({"a.cpp": twelve, "b.cpp": twelve})
        self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_within_one_file(self):
        self.assertEqual(check({"a.cpp": [*EIGHT, "int between;", *EIGHT]}).returncode, 1)


if __name__ == "__main__":
    unittest.main()
