#!/usr/bin/env python3
"""What `cmake --install` writes is what tests/packaging/installed_files.txt lists, and works where it was written: below
DESTDIR, in another prefix than the configured one, and after it was moved. The program runs and finds its simulated GPUs;
programs in C and C++ are built against the libraries by pkg-config and by find_package; the units name the program.
Usage: install_test.py BUILD SOURCE VERSION LIBDIR BUILD_TYPE COMPILER [--spank]"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, SOURCE = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
VERSION, LIBDIR, BUILD_TYPE, COMPILER = sys.argv[3:7]
SPANK = "--spank" in sys.argv
# Man pages of all commands, and the manual's pages: which there are is not this test's concern.
OF_MANY = re.compile(r"share/man/man1/flyball-|share/man/man8/flyball-|share/doc/flyball/docs/")

# By the profile below: stage 0's forward and backward take 1 s and 2 s at its one clock, 10 J and 20 J. One microbatch
# on one stage: 3 s, 30 J.
PROFILE = "stage,instruction,frequency,time,energy\\n0,forward,1000,1,10\\n0,backward,1000,2,20\\n"
CPP = r"""
#include <flyball/plan.h>
#include <iostream>
#include <stdexcept>
int main() {
  flyball::PlanRequest request;
  request.profile_csv = "%s";
  request.microbatches = 1;
  const auto frontier = flyball::plan_pipeline(request);
  std::cout << flyball::version() << ' ' << frontier.t_min_s() << ' ' << frontier.points().front().energy_j << '\n';
  request.microbatches = 0;
  try {
    flyball::plan_pipeline(request);
  } catch (const std::runtime_error&) {
    return 0;
  }
  return 1;
}
""" % PROFILE
C = r"""
#include <flyball/flyball.h>
#include <stdio.h>
int main(void) {
  if (flyball_footprint_open("{\"events\": \"absent.json\", \"power\": \"absent.csv\"}") != NULL) return 1;
  printf("%s\n", flyball_last_error());
  return 0;
}
"""
SIM = r"""
#include <flyball/sim.h>
#include <stdio.h>
int main(void) {
  printf("%s\n", flyball_sim_error_text(FLYBALL_SIM_NO_MACHINE));
  return 0;
}
"""
CMAKE = """
cmake_minimum_required(VERSION 3.25)
project(other LANGUAGES CXX)
find_package(flyball %s REQUIRED)
add_executable(plan plan.cpp)
target_link_libraries(plan PRIVATE flyball::cpp)
add_executable(client client.cpp)
target_link_libraries(client PRIVATE flyball::flyball)
""" % VERSION


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def expected_files():
    lines = (SOURCE / "tests/packaging/installed_files.txt").read_text().split()
    words = {"LIBDIR": LIBDIR, "VERSION": VERSION, "MAJOR": VERSION.split(".")[0], "BUILD_TYPE": BUILD_TYPE.lower()}
    for word, value in words.items():
        lines = [line.replace(word, value) for line in lines]
    return {line for line in lines if SPANK or not re.search(r"spank|plugstack", line)}


def files_below(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()}


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="flyball-install-")
        folder = pathlib.Path(cls.temporary.name).resolve()
        run("cmake", "--install", BUILD, "--prefix", folder / "first")
        cls.prefix = folder / "moved"
        (folder / "first").rename(cls.prefix)
        cls.program = cls.prefix / "bin" / "flyball"
        cls.work = folder / "work"
        cls.work.mkdir()
        (cls.work / "plan.cpp").write_text(CPP)
        (cls.work / "client.c").write_text(C)
        (cls.work / "client.cpp").write_text(C)
        (cls.work / "sim.c").write_text(SIM)
        (cls.work / "CMakeLists.txt").write_text(CMAKE)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def library_path(self, *more):
        folders = [str(self.prefix / LIBDIR / folder) for folder in ("", *more)]
        return dict(os.environ, LD_LIBRARY_PATH=os.pathsep.join(folders))

    def test_writes_what_is_listed(self):
        written = files_below(self.prefix)
        expected = expected_files()
        self.assertEqual(sorted(expected - written), [])
        self.assertEqual(sorted(file for file in written - expected if not OF_MANY.match(file)), [])
        self.assertGreater(len([file for file in written if file.startswith("share/man/man1/flyball-")]), 10)
        self.assertIn("share/doc/flyball/docs/manual/install.md", written)

    def test_heeds_destdir_and_components(self):
        destination = self.work / "destination"
        environment = dict(os.environ, DESTDIR=str(destination))
        run("cmake", "--install", BUILD, "--prefix", "/opt/flyball", "--component", "program", env=environment)
        written = files_below(destination / "opt/flyball")
        self.assertIn("bin/flyball", written)
        self.assertFalse({file for file in written if file.startswith(("include/", LIBDIR + "/libflyball"))})
        unit = (destination / "opt/flyball/lib/systemd/system/flyball-agent.service").read_text()
        self.assertIn("\nExecStart=/opt/flyball/bin/flyball agent --config /etc/flyball/agent.toml\n", unit)

    def test_program_runs(self):
        self.assertIn(VERSION, run(self.program, "--version"))
        (self.work / "profile.csv").write_text(PROFILE.replace("\\n", "\n"))
        planned = run(self.program, "plan", self.work / "profile.csv", "--microbatches", "1")
        self.assertRegex(planned, r"max clocks +3\.0000 +30\.0 ")

    def test_program_finds_its_simulated_gpus(self):
        name = f"install-{os.getpid()}"
        run(self.program, "sim", "up", "--name", name, "--gpus", "2", "--powercap", self.work / "powercap")
        try:
            words = run(self.program, "sim", "env", "--name", name)
            self.assertIn(str(self.prefix / LIBDIR / "flyball/sim"), words)
            devices = run("sh", "-c", 'eval "$1" && "$2" devices', "sh", words, self.program)
            self.assertIn("GPU:1", devices)
        finally:
            run(self.program, "sim", "down", "--name", name)

    def check_clients(self, folder):
        environment = self.library_path()
        self.assertEqual(run(folder / "plan", env=environment), f"{VERSION} 3 30\n")
        self.assertIn("absent.", run(folder / "client", env=environment))

    def test_pkg_config(self):
        if shutil.which("pkg-config") is None:
            self.skipTest("pkg-config is not installed")
        environment = dict(os.environ, PKG_CONFIG_PATH=str(self.prefix / LIBDIR / "pkgconfig"))
        self.assertEqual(run("pkg-config", "--modversion", "flyball", env=environment).strip(), VERSION)

        def build(source, package, *options):
            flags = run("pkg-config", "--cflags", "--libs", package, env=environment).split()
            run(COMPILER, *options, self.work / source, "-o", self.work / pathlib.Path(source).stem, *flags)

        build("plan.cpp", "flyball-cpp", "-std=c++17")
        build("client.c", "flyball", "-x", "c", "-std=c99")
        build("sim.c", "flyball-sim", "-x", "c", "-std=c99")
        self.check_clients(self.work)
        self.assertIn("machine", run(self.work / "sim", env=self.library_path("flyball/sim")))

    def test_find_package(self):
        run("cmake", "-S", self.work, "-B", self.work / "other", f"-DCMAKE_PREFIX_PATH={self.prefix}",
            f"-DCMAKE_CXX_COMPILER={COMPILER}")
        run("cmake", "--build", self.work / "other")
        self.check_clients(self.work / "other")

    def test_units_hold(self):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("systemd-analyze is not installed")
        root = self.work / "root"
        run("cmake", "--install", BUILD, "--prefix", root, "--component", "program")
        units = sorted((root / "lib/systemd/system").glob("*.service"))
        self.assertEqual(len(units), 3)
        run("systemd-analyze", "verify", "--man=no", *units)  # it asks the man of this system, which has no page of ours


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
