"""What the build of the Python package says where something is missing."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("scikit_build_core", reason="scikit-build-core is not installed in build/python-venv (make python)")
SOURCE = pathlib.Path(os.environ["FLYBALL_SOURCE"])
sys.path.insert(0, str(SOURCE / "python" / "build_backend"))
import flyball_build  # noqa: E402


def compiler(folder, text):
    path = folder / "c++"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_names_all_that_is_missing_in_one_message(tmp_path):
    # A compiler without fmt (the first) and without zlib (the last of its list), as its preprocessor says.
    last = len(flyball_build._LIBRARIES) - 1
    lacks = compiler(tmp_path, f"echo missing 0; echo missing {last}")
    found = [package for _, package in flyball_build.missing([str(lacks)], include=str(tmp_path))]
    assert found[0] == "python3-dev" and found[-2:] == ["libfmt-dev", "zlib1g-dev"]
    done = subprocess.run([sys.executable, "-c", "import flyball_build; flyball_build.build_wheel('nowhere')"],
                          env={**os.environ, "CXX": str(lacks), "PYTHONPATH": str(SOURCE / "python/build_backend")},
                          capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("flyball is compiled on this machine, which lacks:\n")
    assert "\n  fmt\n" in done.stderr and done.stderr.splitlines()[-1].startswith("On Debian and Ubuntu: apt-get install ")


def test_says_that_there_is_no_compiler(tmp_path):
    assert flyball_build.missing(None)[0][1] == "g++"
    old = compiler(tmp_path, "echo unrecognized command line option >&2; exit 1")
    assert "C++20" in flyball_build.missing([str(old)])[0][0]


def test_what_built_this_lacks_nothing():
    found = flyball_build.missing(["c++"], include="/usr/include")
    assert [package for _, package in found] == ["python3-dev"]  # there is no Python.h right there


def test_asks_for_what_cmake_looks_for():
    """cmake/FlyballPackages.cmake has the list. Threads come with the compiler; Python's test programs are not built."""
    text = (SOURCE / "cmake/FlyballPackages.cmake").read_text().split("if(BUILD_TESTING)")[0]
    looked_for = set(re.findall(r"flyball_find\((\w+)", text)) - {"Threads"}
    assert len(flyball_build._LIBRARIES) == len(looked_for) and "FLYBALL_DYGRAPHS" in text
    setup = (SOURCE / "scripts/setup").read_text()
    for _, _, package in (*flyball_build._LIBRARIES, flyball_build._DYGRAPHS):
        assert package in setup
