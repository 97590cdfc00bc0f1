#!/usr/bin/env python3
"""Tries the portable tarball in a clean Debian 11 (glibc 2.31), which has no compiler and no library of Flyball's.

  tests/tarball/tarball_test.py TARBALL [--against PROGRAM] [--root FOLDER]

Debian 11 is made by debootstrap in FOLDER (default: build/portable/debian-11, or -aarch64 with that tarball) unless it is
there. Needs root. Where the tarball is for another processor, QEMU runs all of that Debian. With PROGRAM, the build of this
machine, the same commands must print the same there and here: the same words, and figures to a part in 10^9. Each check is
a line; the status is 0 when all are ok.
"""
import argparse
import contextlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# What a program says of its own run.
OF_THE_RUN = re.compile(r'^ *"(solve_seconds|wall_seconds|peak_rss_mb)": .*\n', re.MULTILINE)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
# Sums are added up in another order by another standard library and another solver of least squares.
MOST_APART = 1e-9
# What decides the same everywhere: the arithmetic is IEEE's, without fused operations.
SAME = {
    **{f"plan {profile}": f"flyball plan examples/profiles/{profile} --microbatches 16 --planner all --format json"
       for profile in sorted(file.name for file in (ROOT / "examples/profiles").glob("*.csv"))},
    "emulate": "flyball emulate examples/profiles/gpt3-1.3b-a100-4stage.csv --microbatches 96 --pipelines 16 "
               "--tensor-parallel 8 --straggler 1.2 --format json",
    "account": "gzip -kf examples/account/trace.json && flyball account --events examples/account/trace.json.gz "
               "--power examples/account/power.csv --format json",
    "cluster simulate": "flyball cluster simulate --trace examples/cluster/day.csv --policy joule-price --eta 0.7 "
                        "--format json",
    "forecast": "flyball forecast examples/forecast/two-generations.toml --carbon 380 --price 0.25 --format json",
    "synth": "flyball profile synth --gpu a40 --workload bloom-3b --stages 8",
    "fit": "flyball profile fit examples/runs/two-stage --out fitted >/dev/null && cat fitted/*.csv",
}
SERVE = """
flyball serve --listen 127.0.0.1:4949 --admin-token-file token --tls-cert cert.pem --tls-key key.pem >serve.log 2>&1 &
server=$!
trap 'kill $server; wait $server' EXIT
for i in $(seq 50); do
  flyball jobs --server https://127.0.0.1:4949 --token-file token --ca-file cert.pem >jobs.txt 2>jobs.err && break
  sleep 0.2
done
cat serve.log jobs.txt jobs.err
test -s jobs.txt
# No authority is known yet: the certificate has to be refused.
if flyball jobs --server https://127.0.0.1:4949 --token-file token 2>refused.txt; then exit 1; fi
grep -q 'certificate is refused' refused.txt
# The system's authorities, where Debian and where Red Hat keep them.
mkdir -p /etc/ssl/certs /etc/pki/tls/certs
cp cert.pem "/etc/ssl/certs/HASH.0"
flyball jobs --server https://127.0.0.1:4949 --token-file token
rm "/etc/ssl/certs/HASH.0"
cp cert.pem /etc/pki/tls/certs/ca-bundle.crt
flyball jobs --server https://127.0.0.1:4949 --token-file token
rm /etc/pki/tls/certs/ca-bundle.crt
if flyball jobs --server https://127.0.0.1:4949 --token-file token 2>/dev/null; then exit 1; fi
"""
SIMULATED = """
flyball sim up --gpus 2 --model a100 --powercap /dev/shm/powercap
eval "$(flyball sim env)"
flyball devices | grep -c 'GPU:[01].*A100'
flyball run -- sleep 0.3 2>&1 | grep 'GPU:1'
flyball sim down
"""
ALONE = """
if command -v cc || command -v g++ || ls /usr/lib/*/libceres* /usr/lib/*/libfmt* 2>/dev/null; then exit 1; fi
ldd --version | head -1
flyball --version
"""


# How programs begin (ELF, 64 bits, little-endian, executable or shared object, machine 183) and which bits of that count.
AARCH64 = (r"\x7fELF\x02\x01\x01" + r"\x00" * 9 + r"\x02\x00\xb7\x00",
           r"\xff" * 7 + r"\x00" + r"\xff" * 8 + r"\xfe" + r"\xff" * 3)


@contextlib.contextmanager
def emulated(processor: str) -> Iterator[None]:
    """Meanwhile the kernel has QEMU run the programs of that processor, in folders with a system of their own, too."""
    if processor == platform.machine():
        yield
        return
    if processor != "aarch64":
        sys.exit(f"tarball_test: a tarball for {processor} is tried on such a machine")
    emulator = shutil.which("qemu-aarch64-static")
    if emulator is None:
        sys.exit("tarball_test: there is no qemu-aarch64-static; scripts/setup portable installs it")
    magic, mask = AARCH64
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["mount", "-t", "binfmt_misc", "none", folder], check=True)
        ours = pathlib.Path(folder, f"flyball-{os.getpid()}")
        try:
            (ours.parent / "register").write_text(f":{ours.name}:M::{magic}:{mask}:{emulator}:F\n")
            yield
        finally:
            if ours.exists():
                ours.write_text("-1\n")
            subprocess.run(["umount", folder], check=True)


def debian(folder: pathlib.Path, architecture: str) -> None:
    if (folder / "complete").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # From where this system has its own packages.
    sites = subprocess.run(["apt-get", "indextargets", "Created-By: Packages", "Origin: Debian", "--format", "$(REPO_URI)"],
                           check=True, capture_output=True, text=True).stdout.split()
    subprocess.run(["debootstrap", f"--arch={architecture}", "--variant=minbase", "bullseye", folder, sites[0]], check=True,
                   stdout=subprocess.DEVNULL)
    (folder / "complete").touch()


class Machine:
    """A folder with a system in it, with /proc and /dev/shm of its own."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    def run(self, script: str) -> subprocess.CompletedProcess:
        enter = (f"mount -t proc proc {self.folder}/proc && mount -t tmpfs tmpfs {self.folder}/dev/shm && "
                 f"exec chroot {self.folder} /bin/sh -euc \"$0\"")
        script = "export PATH=/opt/flyball/bin:/usr/bin:/bin HOME=/root; cd /work\n" + script
        # Of this machine's environment nothing: it may name authorities, proxies and libraries.
        return subprocess.run(["unshare", "--mount", "--pid", "--fork", "sh", "-c", enter, script],
                              env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False, timeout=600)


def prepare(folder: pathlib.Path, tarball: pathlib.Path) -> None:
    for place in ("opt", "work", "etc/pki", "dev/shm"):
        if place != "dev/shm":
            shutil.rmtree(folder / place, ignore_errors=True)
        (folder / place).mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-C", folder / "opt", "-xf", tarball], check=True)
    (unpacked,) = (folder / "opt").iterdir()
    unpacked.rename(folder / "opt/flyball")


def inputs(work: pathlib.Path) -> None:
    shutil.copytree(ROOT / "examples", work / "examples")


def certificate(work: pathlib.Path) -> str:
    """Makes key and certificate of 127.0.0.1, and returns the name by which OpenSSL looks the certificate up."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-keyout", work / "key.pem",
                    "-out", work / "cert.pem", "-subj", "/CN=flyball", "-addext", "subjectAltName=IP:127.0.0.1"],
                   check=True, capture_output=True)
    (work / "key.pem").chmod(0o600)
    (work / "token").write_text("0123456789abcdef0123456789abcdef\n")
    (work / "token").chmod(0o600)
    return subprocess.run(["openssl", "x509", "-hash", "-noout", "-in", work / "cert.pem"], check=True,
                          capture_output=True, text=True).stdout.strip()


def difference(here: str, there: str) -> str:
    """What the texts do not have in common; empty when that is rounding alone."""
    lines = list(zip(here.splitlines(), there.splitlines()))
    if len(here.splitlines()) != len(there.splitlines()):
        return f"{len(here.splitlines())} lines here, {len(there.splitlines())} there"
    for mine, other in lines:
        figures = list(zip(map(float, NUMBER.findall(mine)), map(float, NUMBER.findall(other))))
        if NUMBER.split(mine) != NUMBER.split(other) or any(
                abs(a - b) > MOST_APART * max(abs(a), abs(b)) for a, b in figures):
            return f"here:  {mine[:200]}\nthere: {other[:200]}"
    return ""


def here(program: pathlib.Path, work: pathlib.Path, command: str) -> subprocess.CompletedProcess:
    path = f"{program.parent}:{os.environ['PATH']}"
    return subprocess.run(["sh", "-euc", command], cwd=work, env={**os.environ, "PATH": path}, capture_output=True,
                          text=True, check=False, timeout=600)


def judge(options: argparse.Namespace) -> int:
    prepare(options.root, options.tarball)
    inputs(options.root / "work")
    name = certificate(options.root / "work")
    machine = Machine(options.root)
    failed = 0

    def report(check: str, problem: str) -> None:
        nonlocal failed
        failed += bool(problem)
        print(f"{check}: {'FAILED: ' + problem if problem else 'ok'}", flush=True)

    for check, script in {"alone": ALONE, "serve and jobs by TLS": SERVE.replace("HASH", name),
                          "simulated GPUs": SIMULATED}.items():
        done = machine.run(script)
        report(check, f"status {done.returncode}\n{done.stdout}{done.stderr}" if done.returncode else "")

    local = options.root.parent / "here"
    shutil.rmtree(local, ignore_errors=True)
    local.mkdir()
    inputs(local)
    for check, command in SAME.items():
        there = machine.run(command)
        if there.returncode or not there.stdout:
            report(check, f"status {there.returncode}\n{there.stderr}")
            continue
        problem = ""
        if options.against:
            wanted = here(options.against.resolve(), local, command)
            problem = difference(OF_THE_RUN.sub("", wanted.stdout), OF_THE_RUN.sub("", there.stdout))
        report(check, problem)
    print(f"{len(SAME) + 3 - failed} passed, {failed} failed")
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tarball", type=pathlib.Path)
    parser.add_argument("--against", type=pathlib.Path, metavar="PROGRAM")
    parser.add_argument("--root", type=pathlib.Path, metavar="FOLDER")
    options = parser.parse_args()
    processor = "aarch64" if "aarch64" in options.tarball.name else "x86_64"
    name = "debian-11" if processor == "x86_64" else f"debian-11-{processor}"
    options.root = options.root or ROOT / "build/portable" / name
    with emulated(processor):
        debian(options.root, {"x86_64": "amd64", "aarch64": "arm64"}[processor])
        return judge(options)


if __name__ == "__main__":
    sys.exit(main())
