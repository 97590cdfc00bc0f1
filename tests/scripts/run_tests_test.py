"""What scripts/run_tests forgives, and what it does not."""

import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "run_tests"


class RunTests(unittest.TestCase):
    def run_tests(self, command, timed):
        with tempfile.TemporaryDirectory() as folder:
            tests = f'add_test(good "true")\nadd_test(one "sh" "-c" "{command}")\n'
            if timed:
                tests += "set_tests_properties(one PROPERTIES LABELS timed)\n"
            (pathlib.Path(folder) / "CTestTestfile.cmake").write_text(tests)
            return subprocess.run([SCRIPT, folder], cwd=folder, capture_output=True, text=True)

    # Fails the first time only: a file remembers.
    once = "test -e again || { touch again; exit 1; }"

    def test_what_passes_passes(self):
        done = self.run_tests("true", timed=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("run_tests:", done.stdout)

    def test_a_timed_test_may_fail_once_and_is_named(self):
        done = self.run_tests(self.once, timed=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("run_tests: needed more than one try: one", done.stdout)

    def test_any_other_may_not(self):
        done = self.run_tests(self.once, timed=False)
        self.assertEqual(done.returncode, 8, done.stdout)
        self.assertIn("one failed and is not labelled timed", done.stdout)

    def test_nor_may_a_timed_test_fail_always(self):
        self.assertNotEqual(self.run_tests("false", timed=True).returncode, 0)

    def test_a_crash_is_not_forgiven(self):
        done = self.run_tests("test -e again || { touch again; kill -SEGV $$; }", timed=True)
        self.assertEqual(done.returncode, 8, done.stdout)
        self.assertIn("one crashed", done.stdout)

    def test_nor_is_what_a_sanitizer_reports(self):
        done = self.run_tests(
            "test -e again || { touch again; echo WARNING: ThreadSanitizer: data race; exit 66; }", timed=True)
        self.assertEqual(done.returncode, 8, done.stdout)
        self.assertIn("a sanitizer has reported something", done.stdout)


if __name__ == "__main__":
    unittest.main()
