"""The Slurm cluster of scripts/slurm_demo, for tests, and whether it can run here."""

import importlib.machinery
import importlib.util
import os
import pathlib
import shutil
import tempfile

SKIPPED = 77  # the status of a test that cannot run here
SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("FLYBALL_BUILD", SOURCE / "build"))


def load_demo():
    loader = importlib.machinery.SourceFileLoader("slurm_demo", str(SOURCE / "scripts" / "slurm_demo"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("slurm_demo", loader))
    loader.exec_module(module)
    return module


DEMO = load_demo()


def up(folder):
    """Starts the cluster in a folder that is not there yet. Its stop() ends all of it, and removes the folder."""
    cluster = DEMO.Cluster(folder, BUILD)
    os.mkdir(folder)
    cluster.notes.write_text("[]")
    try:
        cluster.start(1.0)
    except BaseException:
        cluster.stop()
        raise
    return cluster


def missing():
    """Says what is missing, or nothing."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    for daemon in DEMO.DAEMONS + ["sbatch"]:
        if not shutil.which(daemon, path=path):
            return f"there is no {daemon} here (make slurm installs Debian's Slurm)"
    for program in DEMO.PROGRAMS:
        if not (BUILD / program).exists():
            return f"{BUILD / program} is not there (make slurm builds it)"
    return ""


def play(test):
    """Plays a test on a cluster of its own; returns a status for the system."""
    if reason := missing():
        print(f"skipped: {reason}")
        return SKIPPED
    folder = tempfile.mkdtemp(prefix="flyball-slurm-test-")
    os.rmdir(folder)
    site = up(folder)
    try:
        test(str(BUILD / "flyball"), site)
    finally:
        stopped = site.stop()
    assert stopped, "something of the cluster is left"
    return 0
