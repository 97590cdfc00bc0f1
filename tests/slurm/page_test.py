#!/usr/bin/env python3
"""The planning server's page beside the controller of a real Slurm, in a real Chromium: jobs run and wait, their
decisions stand with their causes, a lower budget is seen when it is ordered, GPUs are drawn for whom they are leased, and
the controller's death and return are told. At two widths, dark and light. Pictures land in build/page/. Status 77: it
cannot run here.
"""

import json
import pathlib
import secrets
import socket
import subprocess
import sys
import urllib.request

from playwright.sync_api import expect, sync_playwright

import cluster
from cluster import DEMO
from controller_test import Controller, starts, submit

sys.path.insert(0, str(cluster.SOURCE / "tests" / "page"))
from browser import CHROMIUM, BrowserTests, prepare  # noqa: E402, of the tests of pages

LONG_MS = 120 * 1000  # ms; nothing here is about speed


class Server:
    """`flyball serve`, which asks the controller and the nodes' agents."""

    def __init__(self, program, site):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.address, self.token = f"http://127.0.0.1:{port}", secrets.token_hex(20)
        folder = pathlib.Path(site.folder)
        (folder / "admin-token").touch(0o600)
        (folder / "admin-token").write_text(self.token)
        (folder / "agents").write_text("".join(f"{node} {site.agent(node)}\n" for node in DEMO.NODES))
        self.process = subprocess.Popen(
            [program, "serve", "--listen", f"127.0.0.1:{port}", "--admin-token-file", folder / "admin-token", "--database",
             folder / "server.db", "--agents", folder / "agents", "--controller", site.controller],
            stdin=subprocess.DEVNULL, stdout=(folder / "server.log").open("w"), stderr=subprocess.STDOUT)
        DEMO.wait_until("the server", 60, self.answers)

    def ask(self, path):
        request = urllib.request.Request(self.address + path, headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())

    def answers(self):
        try:
            return self.ask("/v1/cluster")
        except OSError:
            return None

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Page(BrowserTests):
    def __init__(self, browser, server):
        super().__init__(browser)
        self.server = server
        self.current = "page"

    def open(self, width=1400, scheme="light"):
        page = self.new_page(width, scheme, LONG_MS)
        page.add_init_script(f"sessionStorage.setItem('flyball-token', {json.dumps(self.server.token)})")
        page.on("console", lambda message: self.check("console", message.type not in ("error", "warning"), message.text))
        page.on("pageerror", lambda error: self.check("console", False, str(error)))
        page.goto(f"{self.server.address}/#/")
        return page

    def play(self, program, site, controller):
        page = self.open()
        alarm = page.locator(".alarms li").filter(has_text="The controller of the cluster is silent")
        queue = page.get_by_role("region", name="Jobs of the scheduler").locator("tbody tr")
        # Two jobs that run; the page says of each what the controller says.
        for name in ("first", "second"):
            expect(queue.filter(has_text=name)).to_contain_text("running")
        status = controller.status()
        for job in status["jobs"]:
            expect(queue.filter(has_text=job["kind"])).to_contain_text(str(job["job"]))
        decisions = page.locator(".decisions tbody tr")
        expect(decisions.first).to_be_visible()
        for decision in status["last_decisions"]:
            row = decisions.filter(has_text=decision["change"]).filter(has_text=str(decision["job"]))
            expect(row.first).to_contain_text(decision["cause"])
        budget = page.locator(".tile").filter(has_text="Power against the budget")
        expect(budget).to_contain_text("of 20.0\u00a0kW")
        # Every GPU that Slurm has given to a job and that the controller has leased is drawn as somebody's.
        of_jobs = page.locator(".allocations .bar:not([data-job=''])")
        expect(of_jobs).to_have_count(sum(job["gpus"] for job in status["jobs"]))
        for job in status["jobs"]:
            expect(page.locator(f".allocations .bar[data-job='job {job['job']}, {job['kind']}']")).to_have_count(job["gpus"])
        # A lower budget: the page has it, and a decision for it.
        lower = int(0.7 * controller.status()["power_w"])
        site.ask(program, "cluster", "budget", f"{lower}W")
        expect(budget).to_contain_text(f"of {lower}\u00a0W")
        # Clocks go down first.
        highest = max(job["clock_mhz"] for job in status["jobs"])
        DEMO.wait_until("lower clocks", 60, lambda: max(job["clock_mhz"] for job in controller.status()["jobs"]) < highest)
        DEMO.wait_until("a decision", 60, lambda: controller.status()["last_decisions"][0]["budget_w"] == lower)
        newest = controller.status()["last_decisions"][0]
        row = decisions.filter(has_text=newest["change"]).filter(has_text=newest["cause"])
        expect(row.first).to_contain_text(str(lower))
        for width in (390, 1400):
            for scheme in ("light", "dark"):
                other = self.open(width, scheme)
                expect(other.locator(".decisions tbody tr").first).to_be_visible()
                self.looked_at(other, f"slurm-{width}-{scheme}")
                other.context.close()
        controller.kill()
        expect(alarm).to_be_visible()
        expect(queue.filter(has_text="first")).to_be_visible()  # as it told last
        controller.start()
        expect(alarm).to_have_count(0)
        expect(budget).to_contain_text(f"of {lower}\u00a0W")
        page.context.close()


def play(program, site):
    controller = Controller(program, site)
    server = None
    try:
        DEMO.wait_until("the controller", 30, lambda: controller.socket.exists())
        for name in ("first", "second"):
            submit(program, site, name, 20000)
        DEMO.wait_until("two jobs that run", 60, lambda: all(starts(site, name) for name in ("first", "second")))
        server = Server(program, site)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = Page(browser, server)
            page.play(program, site, controller)
            browser.close()
        assert not page.failed, "the page is not as it should be"
        print("the page tells what the controller of a real Slurm does")
    except BaseException:
        print((site.folder / "controller.log").read_text(), json.dumps(controller.status(), indent=1), sep="\n")
        raise
    finally:
        controller.kill()
        if server:
            server.stop()


if __name__ == "__main__":
    prepare(LONG_MS)
    sys.exit(cluster.play(play))
