"""scripts/setup on systems that are not at hand: an os-release of each, and stubs that record what is asked of them."""
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "setup"
# As the distributions write them; only the lines that are read.
SYSTEMS = {
    "debian 12": 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\nID=debian\n',
    "ubuntu 22.04": 'PRETTY_NAME="Ubuntu 22.04.5 LTS"\nVERSION_ID="22.04"\nID=ubuntu\nID_LIKE=debian\n',
    "ubuntu 24.04": 'PRETTY_NAME="Ubuntu 24.04.1 LTS"\nVERSION_ID="24.04"\nID=ubuntu\nID_LIKE=debian\n',
    "fedora": 'PRETTY_NAME="Fedora Linux 42 (Server Edition)"\nVERSION_ID=42\nID=fedora\n',
    "rhel 9": 'PRETTY_NAME="Red Hat Enterprise Linux 9.5 (Plow)"\nVERSION_ID="9.5"\nID="rhel"\nID_LIKE="fedora"\n',
    "rocky 9": 'PRETTY_NAME="Rocky Linux 9.5"\nVERSION_ID="9.5"\nID="rocky"\nID_LIKE="rhel centos fedora"\n',
    "almalinux 10": 'PRETTY_NAME="AlmaLinux 10.0"\nVERSION_ID="10.0"\nID="almalinux"\nID_LIKE="rhel centos fedora"\n',
    "arch": 'PRETTY_NAME="Arch Linux"\nID=arch\n',
}
TOOLS = ["sh", "env", "cat", "dirname", "grep", "sed", "sort", "tr", "mktemp", "rm"]


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.asked = self.folder / "asked"
        (self.folder / "scripts").mkdir()
        shutil.copy(SCRIPT, self.folder / "scripts" / "setup")
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.stub("sleep", "exit 0")
        for name in ("apt-get", "dnf"):
            self.stub(name, f'echo "{name} $*" >>{self.asked}')
        self.stub("apt-cache", "exit 0")
        self.stub("dpkg-query", "exit 1")
        self.stub("rpm", "exit 1")

    def stub(self, name: str, body: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def run_on(self, system: str, *arguments: str, user: int = 0):
        self.stub("id", f"echo {user}")
        release = self.folder / "os-release"
        if system:
            release.write_text(SYSTEMS[system])
        environment = {"PATH": str(self.bin), "FLYBALL_OS_RELEASE": str(release), "TMPDIR": str(self.folder)}
        return subprocess.run(["sh", self.folder / "scripts" / "setup", *arguments], capture_output=True, text=True,
                              check=False, env=environment)

    def calls(self) -> list[str]:
        return self.asked.read_text().splitlines() if self.asked.exists() else []

    def test_apt_installs_what_is_missing_on_debian_and_ubuntu(self):
        self.stub("dpkg-query", 'echo "cmake install ok installed"')
        for system in ("debian 12", "ubuntu 24.04"):
            with self.subTest(system):
                self.asked.unlink(missing_ok=True)
                done = self.run_on(system, "build")
                self.assertEqual(done.returncode, 0, done.stderr)
                update, install = self.calls()
                self.assertIn(" update", update)
                self.assertIn("install -y --no-install-recommends", install)
                self.assertIn(" libceres-dev ", install)
                self.assertNotIn(" cmake ", install)

    def test_dnf_installs_what_is_missing_on_red_hats_systems(self):
        self.stub("rpm", '[ "$3" = cmake ]')
        for system in ("fedora", "almalinux 10"):
            with self.subTest(system):
                self.asked.unlink(missing_ok=True)
                done = self.run_on(system, "build", "test")
                self.assertEqual(done.returncode, 0, done.stderr)
                (install,) = self.calls()
                self.assertTrue(install.startswith("dnf install -y "), install)
                for name in ("ceres-solver-devel", "gtest-devel"):
                    self.assertIn(f" {name}", install)
                self.assertNotIn(" cmake", install)
                self.assertEqual("CRB and EPEL" in done.stdout, system != "fedora")

    def test_nothing_is_installed_where_all_is_there(self):
        self.stub("rpm", "exit 0")
        done = self.run_on("fedora", "build", user=1000)
        self.assertEqual((done.returncode, self.calls()), (0, []))
        self.assertIn("are there", done.stdout)

    def test_a_dry_run_prints_the_command_and_changes_nothing(self):
        for system, command in (("debian 12", "apt-get install"), ("fedora", "dnf install")):
            for user in (0, 1000):
                with self.subTest(f"{system} as {user}"):
                    done = self.run_on(system, "--dry-run", "build", user=user)
                    self.assertEqual((done.returncode, self.calls(), done.stderr), (0, [], ""))
                    self.assertIn(f"  {command} ", done.stdout)

    def test_without_root_the_command_and_the_other_ways_are_told(self):
        for system, command in (("ubuntu 24.04", "apt-get install"), ("fedora", "dnf install")):
            with self.subTest(system):
                done = self.run_on(system, "build", user=1000)
                self.assertEqual((done.returncode, self.calls()), (1, []))
                for words in (f"  {command} ", "conda env create -f environment.yml", "pip install cmake ninja"):
                    self.assertIn(words, done.stderr)

    def test_sudo_is_used_where_it_is(self):
        self.stub("sudo", f'echo "sudo $*" >>{self.asked}; exec "$@"')
        done = self.run_on("fedora", "build", user=1000)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(self.calls()[0].startswith("sudo dnf install -y "), self.calls())

    def test_libraries_that_are_too_old_are_told_before_anything_is_installed(self):
        for system, boost in (("ubuntu 22.04", "Boost 1.74"), ("rhel 9", "Boost 1.75"), ("rocky 9", "Boost 1.75")):
            for groups in ([], ["build"], ["all"], ["--dry-run", "test", "build"]):
                with self.subTest(f"{system} {groups}"):
                    done = self.run_on(system, *groups)
                    self.assertEqual((done.returncode, self.calls()), (1, []))
                    for words in (boost, "needs CMake 3.25, g++ 12 and Boost 1.81", "conda env create", "tarball"):
                        self.assertIn(words, done.stderr)

    def test_groups_without_libraries_are_installed_on_old_systems(self):
        done = self.run_on("ubuntu 22.04", "monitoring")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("prometheus", self.calls()[1])

    def test_a_manager_that_fails_is_quoted_and_other_ways_are_told(self):
        self.stub("dnf", "echo 'No match for argument: cli11-devel'; exit 1")
        done = self.run_on("fedora", "build")
        self.assertEqual(done.returncode, 1)
        self.assertIn("No match for argument: cli11-devel", done.stderr)
        self.assertIn("conda env create", done.stderr)

    def test_an_unknown_system_gets_the_libraries_with_their_versions(self):
        for system in ("arch", ""):
            with self.subTest(system):
                (self.folder / "os-release").unlink(missing_ok=True)
                done = self.run_on(system)
                self.assertEqual((done.returncode, self.calls()), (1, []))
                for words in (system.capitalize() or "this system", "Boost 1.81", "Ceres Solver", "conda env create"):
                    self.assertIn(words, done.stderr)

    def test_an_unknown_group_is_refused(self):
        for system in ("debian 12", "fedora", "arch"):
            with self.subTest(system):
                done = self.run_on(system, "nonsense")
                self.assertEqual((done.returncode, self.calls()), (2, []))
                self.assertIn("no group 'nonsense'", done.stderr)

    def test_a_group_that_only_debian_has_is_refused_elsewhere(self):
        done = self.run_on("fedora", "slurm")
        self.assertEqual((done.returncode, self.calls()), (2, []))
        self.assertIn("Debian and Ubuntu only", done.stderr)


if __name__ == "__main__":
    unittest.main()
