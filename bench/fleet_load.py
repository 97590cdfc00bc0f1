#!/usr/bin/env python3
"""What a planning server takes to ask many nodes each second and to keep their past: share of a core and bytes of memory
of `flyball serve`, in SECONDS after a while, with NODES lines in its list of agents, which some agents of simulated GPUs
answer. Prints a line of a Markdown table.

    bench/fleet_load.py [--nodes 64] [--agents 4] [--seconds 60] [--page]

With --page (by build/page-venv/bin/python, which `make page` makes), Chromium shows the server's page meanwhile; then a
reader zooms into a node's charts and out again, and the frames that the browser draws are counted. With --judge, it fails
where a goal is missed; the machine has to be quiet.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = pathlib.Path(os.environ.get("FLYBALL_BUILD", ROOT / "build")) / "flyball"
GPUS = 8
# The goals; of 60 frames a second one may be lost at each end.
MOST_SHARE_PCT, MOST_PAINT_MS, MOST_PAGE_MB, LEAST_FRAMES_PER_S = 5, 300, 150, 59.5
TICKS = os.sysconf("SC_CLK_TCK")


def used(pid):
    """Processor seconds, and resident bytes, of a process."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS, int(fields[21]) * os.sysconf("SC_PAGE_SIZE")


def renderers():
    """The processes of this program's browser that draw pages."""
    parents = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            pass  # it has ended
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return [pid for pid in ours if b"--type=renderer" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]


def page_mb():
    """Memory that the page's process shares with no other."""
    told = [pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines() for pid in renderers()]
    return max(sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) * 1024 / 1e6 for lines in told)


def wait_until(what, good):
    for _ in range(600):
        try:
            if good():
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise RuntimeError(f"{what}: not within 120 s")


class Page:
    """The server's page in Chromium: what the tab takes, and how well it draws."""

    # Zooms into the middle and out again, a step a frame, and counts frames.
    ZOOM = """async seconds => {
      const buttons = ['show a shorter time', 'show a longer time'].map(name => document.querySelector(`[title="${name}"]`));
      let frames = 0;
      const begin = performance.now();
      while (performance.now() - begin < seconds * 1000) {
        buttons[Math.floor(frames / 8) % 2].click();
        await new Promise(requestAnimationFrame);
        ++frames;
      }
      return frames / (performance.now() - begin) * 1000;
    }"""

    def __init__(self, address):
        from playwright.sync_api import sync_playwright
        self.playwright = sync_playwright().start()
        self.browser = self.playwright.chromium.launch(executable_path=shutil.which("chromium"),
                                                       args=["--no-sandbox"])
        self.page = self.browser.new_page(viewport={"width": 1400, "height": 900})
        self.address = address
        self.page.goto(f"{address}/")

    def figures(self):
        paint = self.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        self.page.goto(f"{self.address}/#/nodes/n0")
        self.page.locator(".plot canvas").first.wait_for()
        self.page.get_by_role("button", name="the last hour").click()
        time.sleep(3)
        memory = page_mb()
        frames = self.page.evaluate(self.ZOOM, 5)
        zoomed = page_mb()
        self.page.context.new_cdp_session(self.page).send("HeapProfiler.collectGarbage")
        return paint, max(memory, page_mb()), zoomed, frames

    def close(self):
        self.browser.close()
        self.playwright.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--agents", type=int, default=4, help="processes that answer for them")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--page", action="store_true", help="show the page in Chromium meanwhile")
    parser.add_argument("--judge", action="store_true", help="fail where a goal is missed")
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="flyball-fleet-"))
    name = f"fleet-{os.getpid()}"
    processes = []
    missed = []

    def start(*words):
        processes.append(subprocess.Popen([PROGRAM, *words], env=environment, stdin=subprocess.DEVNULL,
                                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
        return processes[-1]

    environment = dict(os.environ)
    try:
        subprocess.run([PROGRAM, "sim", "up", "--name", name, "--gpus", str(GPUS), "--model", "a100"], check=True,
                       stdout=subprocess.DEVNULL)
        told = subprocess.run([PROGRAM, "sim", "env", "--name", name], check=True, capture_output=True, text=True).stdout
        for line in told.splitlines():
            words = line.removeprefix("export ").split("=", 1)
            environment[words[0]] = words[1].strip("'\"")
        for number in range(options.agents):
            start("agent", "--socket", folder / f"{number}.sock", "--state-dir", folder / f"state-{number}")
        (folder / "agents").write_text("".join(f"n{number} {folder}/{number % options.agents}.sock\n"
                                               for number in range(options.nodes)))
        server = start("serve", "--listen", "127.0.0.1:0", "--database", folder / "server.db", "--agents", folder / "agents")
        address = server.stdout.readline().split()[-1]

        def fleet():
            with urllib.request.urlopen(f"{address}/v1/fleet", timeout=5) as answer:
                return json.load(answer)

        wait_until("all nodes", lambda: fleet()["nodes_silent"] == 0)
        page = Page(address) if options.page else None
        time.sleep(5)
        before, begin = used(server.pid)[0], time.monotonic()
        time.sleep(options.seconds)
        after, resident = used(server.pid)
        share = (after - before) / (time.monotonic() - begin)
        silent = fleet()["nodes_silent"]
        size = sum(file.stat().st_size for file in folder.glob("server-history.db*"))
        print("| nodes | GPUs | share of a core | resident memory | history's file | silent |\n|--:|--:|--:|--:|--:|--:|")
        print(f"| {options.nodes} | {options.nodes * GPUS} | {100 * share:.1f} % | {resident / 2**20:.0f} MiB | "
              f"{size / 2**20:.1f} MiB | {silent} |")
        if 100 * share > MOST_SHARE_PCT:
            missed.append(f"the server takes more than {MOST_SHARE_PCT} % of a core")
        if page:
            paint, memory, zoomed, frames = page.figures()
            print(f"page: first paint after {paint:.0f} ms, {memory:.0f} MB of memory of its own ({zoomed:.0f} MB before what "
                  f"zooming has left was collected), {frames:.0f} frames a second while zooming")
            page.close()
            missed += [f"{what}; the goal is {goal}" for what, goal, is_met in (
                (f"first paint after {paint:.0f} ms", MOST_PAINT_MS, paint <= MOST_PAINT_MS),
                (f"a page of {memory:.0f} MB", MOST_PAGE_MB, memory <= MOST_PAGE_MB),
                (f"{frames:.1f} frames a second", LEAST_FRAMES_PER_S, frames >= LEAST_FRAMES_PER_S)) if not is_met]
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
        subprocess.run([PROGRAM, "sim", "down", "--name", name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        shutil.rmtree(folder)
    if options.judge and missed:
        sys.exit("\n".join(missed))


if __name__ == "__main__":
    main()
