"""The build backend of the wheel: scikit-build-core, after a look at what this machine has. What is missing stands in
one message here, before CMake starts and among nothing else."""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig

from scikit_build_core import build as _cmake
from scikit_build_core.build import *  # noqa: F403  (the hooks that need no compiler)

# What cmake/FlyballPackages.cmake looks for: name, a header of it, Debian's package.
_LIBRARIES = (
    ("fmt", "fmt/format.h", "libfmt-dev"),
    ("toml++", "toml++/toml.h", "libtomlplusplus-dev"),
    ("nlohmann-json", "nlohmann/json.hpp", "nlohmann-json3-dev"),
    ("Ceres Solver", "ceres/ceres.h", "libceres-dev"),
    ("Eigen 3", "eigen3/Eigen/Core", "libeigen3-dev"),
    ("CLI11", "CLI/CLI.hpp", "libcli11-dev"),
    ("Protocol Buffers", "google/protobuf/message.h", "libprotobuf-dev"),
    ("Boost", "boost/asio.hpp", "libboost1.81-dev"),
    ("SQLite", "sqlite3.h", "libsqlite3-dev"),
    ("OpenSSL", "openssl/ssl.h", "libssl-dev"),
    ("simdjson", "simdjson.h", "libsimdjson-dev"),
    ("zlib", "zlib.h", "zlib1g-dev"),
)
_DYGRAPHS = ("dygraphs (scripts of pages)", "/usr/share/javascript/dygraphs/dygraph.min.js", "libjs-dygraphs")


def missing(compiler, include=None):
    """(name, Debian's package) of all that is not there. `compiler`: a command's words, or None."""
    found = []
    if not os.path.exists(os.path.join(include or sysconfig.get_path("include"), "Python.h")):
        found.append(("Python's headers", "python3-dev"))
    if not os.path.exists(_DYGRAPHS[1]):
        found.append((_DYGRAPHS[0], _DYGRAPHS[2]))
    if compiler is None:
        return [("a C++ compiler (g++ 12 or clang 14, or later)", "g++"), *found]
    lines = [f"#if !__has_include(<{header}>)\nmissing {i}\n#endif" for i, (_, header, _) in enumerate(_LIBRARIES)]
    asked = subprocess.run([*compiler, "-std=c++20", "-E", "-P", "-x", "c++", "-"], input="\n".join(lines), text=True,
                           capture_output=True)
    if asked.returncode != 0:
        return [(f"a compiler for C++20 (g++ 12 or clang 14, or later): {shlex.join(compiler)} is none", "g++"), *found]
    words = asked.stdout.split()
    return found + [_LIBRARIES[int(i)][::2] for i in words[1::2]]


def _compiler():
    if os.environ.get("CXX"):
        return shlex.split(os.environ["CXX"])
    return next(([name] for name in ("c++", "g++", "clang++") if shutil.which(name)), None)


def _look(config_settings):
    # Who says more to CMake may have libraries elsewhere.
    if os.environ.get("CMAKE_ARGS") or os.environ.get("CMAKE_PREFIX_PATH") or os.environ.get("CMAKE_TOOLCHAIN_FILE"):
        return
    if any(name.startswith("cmake.") for name in config_settings or {}):
        return
    found = missing(_compiler())
    if found:
        names = "\n".join(f"  {name}" for name, _ in found)
        packages = " ".join(package for _, package in found)
        sys.exit(f"flyball is compiled on this machine, which lacks:\n{names}\n"
                 f"On Debian and Ubuntu: apt-get install {packages}")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _look(config_settings)
    return _cmake.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    _look(config_settings)
    return _cmake.build_editable(wheel_directory, config_settings, metadata_directory)
