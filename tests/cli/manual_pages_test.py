"""Manual pages: `flyball manual-pages DIR` writes pages that groff reads without a warning and that tell all that
--help does. Set FLYBALL_PROGRAM to the program."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

PROGRAM = os.environ["FLYBALL_PROGRAM"]
SERVICES = {"flyball-agent", "flyball-serve", "flyball-cluster-run"}
SECTIONS = ["NAME", "SYNOPSIS", "OPTIONS", "EXIT STATUS", "SEE ALSO"]


def output(*command: str) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True).stdout


class ManualPages(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.holder.name, "made", "man")  # folders that are missing are made
        cls.said = output(PROGRAM, "manual-pages", str(cls.folder))
        cls.pages = {path.stem: path for path in cls.folder.iterdir()}

    @classmethod
    def tearDownClass(cls) -> None:
        cls.holder.cleanup()

    def test_every_command_has_its_page(self) -> None:
        fish = output(PROGRAM, "completion", "fish")
        listed = re.search(r"^set -g __flyball_commands (.*)$", fish, re.MULTILINE)
        commands = {name.replace(" ", "-") for name in re.findall(r"'([^']*)'", listed.group(1))}
        self.assertEqual(set(self.pages), commands | {"flyball"})
        self.assertEqual(self.said, f"wrote {len(self.pages)} manual pages to {self.folder}\n")

    def test_services_are_in_section_8(self) -> None:
        for name, path in self.pages.items():
            self.assertEqual(path.suffix, ".8" if name in SERVICES else ".1", name)

    def test_a_unit_names_pages_that_there_are(self) -> None:
        units = Path(__file__).resolve().parents[2] / "packaging"
        named = re.findall(r"man:(\S+)\((\d)\)", "".join(unit.read_text() for unit in units.glob("*.service.in")))
        self.assertEqual({name for name, _ in named}, set(SERVICES))
        for name, section in named:
            self.assertEqual(self.pages[name].suffix, f".{section}")

    def test_groff_has_no_warning(self) -> None:
        if shutil.which("groff") is None:
            self.skipTest("groff is not installed (Debian: groff-base)")
        for path in self.pages.values():
            self.assertEqual(output("groff", "-ww", "-z", "-man", "-Tutf8", str(path)), "", path.name)

    def test_a_page_tells_what_help_tells(self) -> None:
        if shutil.which("groff") is None:
            self.skipTest("groff is not installed (Debian: groff-base)")
        for name, path in self.pages.items():
            # -c -u -b: without the escapes and overstrikes of a terminal.
            page = output("groff", "-man", "-Tascii", "-P-cbu", "-rLL=500n", str(path))
            for section in SECTIONS:
                self.assertIn(f"\n{section}\n", "\n" + page, name)
            told = set(page.split())
            help_of = name.split("-")[1:]
            if "-".join(help_of) == "manual-pages":
                continue
            shown = output(PROGRAM, *help_of, "--help")
            for option in re.findall(r"^  (?:-\w,)?(--[\w-]+)", shown, re.MULTILINE):
                self.assertIn(option, told, name)
            example = shown.partition("Examples:\n")[2]
            for line in example.splitlines():
                self.assertIn(line.strip(), page, name)

    def test_other_pages_that_are_named_are_there(self) -> None:
        for path in self.pages.values():
            text = path.read_text().replace("\\-", "-")
            for name, section in re.findall(r"\\fB(flyball[\w-]*)\\fR\((\d)\)", text):
                self.assertEqual(self.pages[name].suffix, f".{section}", path.name)

    def test_a_folder_without_a_name_is_refused(self) -> None:
        failed = subprocess.run([PROGRAM, "manual-pages", ""], stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(failed.returncode, 2)
        self.assertIn("takes the name of a file or folder", failed.stderr)

    def test_an_unwritable_folder_is_an_error(self) -> None:
        failed = subprocess.run([PROGRAM, "manual-pages", "/dev/null/x"], stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(failed.returncode, 1)
        self.assertIn("/dev/null/x", failed.stderr)


if __name__ == "__main__":
    unittest.main()
