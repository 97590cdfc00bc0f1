"""scripts/release in a small repository of its own: what it refuses, the notes, the checksums and their signature."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CHANGELOG = """# Changelog

## Unreleased

- Not yet.

## 1.2.3, 2026-01-02

- A thing.
- Another thing.

## 1.2.2, 2026-01-01

- Older.
"""


def git(folder, *words):
    subprocess.run(["git", *words], cwd=folder, check=True)


class Release(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="release-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.repository = self.folder / "repository"
        (self.repository / "scripts").mkdir(parents=True)
        shutil.copy2(ROOT / "scripts" / "release", self.repository / "scripts")
        (self.repository / "CMakeLists.txt").write_text("project(flyball VERSION 1.2.3 LANGUAGES CXX)\n")
        (self.repository / "CHANGELOG.md").write_text(CHANGELOG)
        (self.repository / ".gitignore").write_text("/build/\n")
        git(self.repository, "init", "-q")
        git(self.repository, "add", "-A")
        git(self.repository, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "all")
        self.out = self.repository / "build" / "release-1.2.3"

    def release(self, *words, **environment):
        return subprocess.run([self.repository / "scripts" / "release", *words], capture_output=True, text=True,
                              env={**os.environ, **environment})

    def refuse(self, said, *words):
        ran = self.release(*words)
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn(said, ran.stderr)

    def test_refuses_what_is_not_the_version(self):
        self.refuse("CMakeLists.txt says version 1.2.3, not 1.2.4", "1.2.4")
        self.refuse("the present commit has no tag v1.2.3", "1.2.3")
        self.refuse("there is no part 'rpm'", "1.2.3", "--untagged", "--only", "notes,rpm")
        (self.repository / "CHANGELOG.md").write_text(CHANGELOG.replace("1.2.3", "1.2.4"))
        self.refuse("the tree has changes that are not committed", "1.2.3")
        self.refuse("CHANGELOG.md has no section '## 1.2.3' with text", "1.2.3", "--untagged")

    def test_notes_are_the_changelogs_section(self):
        git(self.repository, "tag", "v1.2.3")
        ran = self.release("1.2.3", "--only", "notes")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual((self.out / "NOTES.md").read_text(), "- A thing.\n- Another thing.\n")
        subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=self.out, check=True)

    def test_refuses_what_is_too_large_or_missing(self):
        wheel = ("1.2.3", "--untagged", "--only", "wheels")
        makefile = self.repository / "Makefile"
        makefile.write_text("portable-wheels:\n\tmkdir -p build/wheels/portable/abi3 && "
                            "truncate -s 15M build/wheels/portable/abi3/flyball-1.2.3-py3.whl\n")
        self.refuse("flyball-1.2.3-py3.whl has 15728640 bytes, and may have 14680064", *wheel)
        makefile.write_text("portable-wheels:\n\trm -rf build/wheels\n")
        self.refuse("wheels left nothing like", *wheel)
        makefile.write_text("portable-wheels:\n\tfalse\n")
        self.refuse("make portable-wheels failed", *wheel)

    @unittest.skipIf(shutil.which("gpg") is None, "gpg is not installed")
    def test_checksums_are_signed(self):
        home = self.folder / "gnupg"
        home.mkdir(mode=0o700)
        key = {**os.environ, "GNUPGHOME": str(home)}
        self.addCleanup(subprocess.run, ["gpgconf", "--kill", "all"], env=key)
        subprocess.run(["gpg", "--batch", "--passphrase", "", "--quick-generate-key", "release@example.org"], env=key,
                       check=True, capture_output=True)
        ran = self.release("1.2.3", "--untagged", "--only", "notes", "--sign", "release@example.org", GNUPGHOME=str(home))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        verify = ["gpg", "--batch", "--verify", "SHA256SUMS.asc", "SHA256SUMS"]
        subprocess.run(verify, cwd=self.out, env=key, check=True, capture_output=True)
        (self.out / "SHA256SUMS").write_text("other\n")
        self.assertNotEqual(subprocess.run(verify, cwd=self.out, env=key, capture_output=True).returncode, 0)


if __name__ == "__main__":
    unittest.main()
