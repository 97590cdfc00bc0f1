"""scripts/check_glibc on programs whose needs are known: glibc 2.33 brought stat() as a function of its own."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_glibc"
STAT = '#include <sys/stat.h>\nint main(void) { struct stat s; return stat("/", &s); }\n'


def run(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)


class CheckGlibc(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def compile(self, name: str, source: str, *options: str) -> None:
        subprocess.run(["cc", "-x", "c", "-", "-o", self.folder / name, *options], input=source, text=True, check=True)

    def test_a_symbol_of_a_newer_glibc_is_refused(self):
        self.compile("program", STAT)
        done = run("2.28", self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("program: needs glibc 2.33", done.stderr)

    def test_and_one_that_is_old_enough_is_not(self):
        self.compile("program", STAT)
        done = run("2.99", self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_library_beside_glibc_is_refused(self):
        self.compile("libown.so", "int own(void) { return 0; }\n", "-shared", "-fPIC", "-Wl,-soname,libown.so")
        self.compile("program", "int own(void); int main(void) { return own(); }\n",
                     "-x", "none", str(self.folder / "libown.so"))
        done = run("2.99", self.folder)
        self.assertEqual((done.returncode, done.stderr), (1, f"{self.folder / 'program'}: needs libown.so\n"))

    def test_a_path_of_this_machine_is_refused(self):
        self.compile("program", "int main(void) { return 0; }\n", "-Wl,-rpath,/opt/built/here")
        self.assertIn("looks for libraries in /opt/built/here", run("2.99", self.folder).stderr)

    def test_a_folder_without_programs_proves_nothing(self):
        (self.folder / "text").write_text("no ELF\n")
        self.assertEqual(run("2.28", self.folder).returncode, 1)

    def test_what_is_no_version_is_wrong_usage(self):
        self.assertEqual(run("new", self.folder).returncode, 2)


if __name__ == "__main__":
    unittest.main()
