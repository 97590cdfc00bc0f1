#!/usr/bin/env python3
"""The page of `flyball account --html` in a real Chromium: the flame graph is searched and walked through by mouse and
by keyboard alone; the page at three widths, dark and light, without an error on the console and without a serious fault
that axe finds; and with hostile names. Run by `make page`; pictures land in build/page/. Names of tests run these
alone.
"""

import html
import json
import subprocess
import sys

from playwright.sync_api import expect

from browser import WIDTHS, BrowserTests, run_on_files
from world import BUILD

LAYERS = 12
MODULES = ("attention/query", "attention/key", "attention/value", "attention/output", "mlp/up", "mlp/down")
SCRIPT = "<|script><script>window.hostile = 1<|script><img src=x onerror='window.hostile = 2'>"
HOSTILE = (SCRIPT, "\u202eمهمة \u202e تدريب", "x" * 10000, "a/" * 300 + "deep", "one_word_after_another_" * 9)
NAMES = ("search", "keyboard", "mouse", "address", "narrow", "looks", "hostile", "notebook")
LONG_MS = 10 * 1000  # ms; nothing here is about speed


class Trace:
    """What PyTorch's profiler writes of a program of one thread, on a processor that draws 100 W."""

    def __init__(self):
        self.now = 0  # us
        self.events = []

    def run(self, category, name, inside, **arguments):
        event = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": self.now, "args": arguments}
        self.events.append(event)  # of two that begin at once, the outer one comes first
        inside()
        event["dur"] = self.now - event["ts"]

    def wait(self, duration):
        self.now += duration

    def within(self, path, inside):
        """Inside the annotations that stand around a call."""
        name, _, rest = path.partition("/")
        self.run("user_annotation", name, (lambda: self.within(rest, inside)) if rest else inside)

    def account(self, folder):
        """Joules come to 100 W times what ran."""
        (folder / "trace.json").write_text(json.dumps(
            {"schemaVersion": 1, "baseTimeNanoseconds": 1700000000000000000, "traceEvents": self.events}))
        rows = (f"{1700000000 + k / 1000:.3f},CPU:0,100\n" for k in range(self.now // 1000 + 2))
        (folder / "power.csv").write_text("timestamp,device,power_w\n" + "".join(rows))
        subprocess.run([BUILD / "flyball", "account", "--events", folder / "trace.json", "--power",
                        folder / "power.csv", "--html", folder / "account.html"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return folder / "account.html"


def model():
    """24 ms: 72 linear layers of 100 us forward and 200 us backward, 90 % of it, and 2.4 ms of the optimizer."""
    trace = Trace()
    layers = [f"net/layers/{layer}/{module}" for layer in range(LAYERS) for module in MODULES]
    for number, path in enumerate(layers):
        trace.within(path, lambda number=number: trace.run(
            "cpu_op", "aten::linear", lambda: trace.wait(100), **{"Sequence number": number, "Fwd thread id": 0}))
    for number in reversed(range(len(layers))):
        trace.run("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", lambda: trace.wait(200),
                  **{"Sequence number": number, "Fwd thread id": 1})
    trace.run("user_annotation", "Optimizer.step#SGD.step", lambda: trace.run(
        "cpu_op", "aten::add_", lambda: trace.wait(2400)))
    return trace


def hostile():
    trace = Trace()
    for name in HOSTILE:
        trace.within(name, lambda: trace.run("cpu_op", "aten::mm", lambda: trace.wait(1000)))
    return trace


class Tests(BrowserTests):
    def __init__(self, folder, browser):
        super().__init__(browser)
        self.folder = folder
        self.page_of_model = model().account(self.made("model"))

    def made(self, name):
        folder = self.folder / name
        folder.mkdir()
        return folder

    def open(self, file, width=1400, scheme="light", fragment=""):
        page = self.open_file(file, width, scheme, LONG_MS, fragment)
        expect(page.locator(".flame .box").first).to_be_visible()
        return page

    def focused(self, page):
        return page.evaluate("document.activeElement.getAttribute('aria-label')")

    def expect_focus(self, page, words):
        self.check("focus", (self.focused(page) or "").startswith(words), f"{self.focused(page)} and not {words}")

    # Of 24 ms: attention has 12 x 4 x 0.3 ms, which is 60 %, a query or an mlp/up 12 x 0.3 ms, which is 15 %.
    def search(self):
        page = self.open(self.page_of_model)
        field = page.get_by_role("searchbox")
        found = page.locator(".flame [role=status]")
        for text, words in {"ATTENTION": "12 parts match, 60.0\u00a0% of the energy",
                            "attention/query": "12 parts match, 15.0\u00a0% of the energy",
                            "0/attention": "2 parts match, 10.0\u00a0% of the energy",  # in layers 0 and 10
                            "query/": "no part matches",
                            "nothing like it": "no part matches"}.items():
            field.fill(text)
            expect(found).to_have_text(words)
        # Each layer, its attention and its query count among the parts, but their energy only with what holds them all:
        # "t" is in net, which has 90 %, and in the optimizer.
        field.fill("t")
        expect(found).to_contain_text(", 100.0\u00a0% of the energy")
        field.fill("attention")
        expect(page.locator(".flame .box.match")).to_have_count(12)
        expect(page.locator(".flame .box.aside[aria-label^=mlp]")).to_have_count(12)
        field.press("Enter")
        expect(page.locator(".flame .crumbs button").last).to_have_text("attention")
        field.press("Escape")
        expect(found).to_have_text("")
        expect(page.locator(".flame .box.match")).to_have_count(0)
        page.context.close()

    def keyboard(self):
        page = self.open(self.page_of_model)
        page.get_by_role("searchbox").focus()
        page.keyboard.press("Tab")  # its cross is no stop; the only name of the way is where we are
        self.expect_focus(page, "model, 2.4")
        for key, words in {"ArrowDown": "net, 2.16", "ArrowRight": "Optimizer.step#SGD.step, 0.24",
                           "Home": "net, ", "ArrowUp": "model, "}.items():
            page.keyboard.press(key)
            self.expect_focus(page, words)
        for _ in range(3):  # net, layers, the first layer
            page.keyboard.press("ArrowDown")
        self.expect_focus(page, "0, 0.18")
        page.keyboard.press("ArrowRight")
        self.expect_focus(page, "1, 0.18")
        words = "net/layers/1 0.18\u00a0J, 7.5\u00a0% of the model, none of it its own"
        expect(page.locator(".flame .details")).to_contain_text(words)
        page.keyboard.press("Enter")
        expect(page.locator(".flame .crumbs")).to_have_text("model/net/layers/1")
        self.expect_focus(page, "1, 0.18")
        page.keyboard.press("Escape")
        expect(page.locator(".flame .crumbs")).to_have_text("model/net/layers")
        self.expect_focus(page, "1, 0.18")
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        expect(page.locator(".flame .crumbs")).to_have_text("model")
        page.context.close()

    def mouse(self):
        page = self.open(self.page_of_model)
        boxes = page.locator(".flame .box")
        boxes.filter(has_text="attention").first.click()
        expect(page.locator(".flame .crumbs")).to_contain_text("attention")
        expect(page.locator(".flame .box[aria-level='2']")).to_have_count(4)
        page.mouse.move(5, 5)
        boxes.filter(has_text="query").first.hover()
        expect(page.locator(".tip")).to_contain_text("forward 0.01\u00a0J, backward 0.02\u00a0J")
        page.locator(".flame .crumbs").get_by_role("button", name="layers").click()
        expect(page.locator(".flame .box[aria-level='2']")).to_have_count(LAYERS)
        self.expect_focus(page, "layers, ")  # and not lost with the button
        page.context.close()

    # An address that names a part shows its diagram; one that is no text shows the model's.
    def address(self):
        for fragment, way in {"#net/layers/1": "model/net/layers/1", "#%E0%A4%A": "model"}.items():
            page = self.open(self.page_of_model, fragment=fragment)
            expect(page.locator(".edd .crumbs")).to_have_text(way)
            page.context.close()

    # A part in a thousand parts as large has no pixel to be seen at; one box stands for those that lack room.
    def narrow(self):
        trace = Trace()
        for k in range(4000):
            trace.within(f"net/{k}", lambda k=k: trace.run(
                "cpu_op", "aten::mm", lambda: trace.wait(20 if k else 80000)))
        page = self.open(trace.account(self.made("narrow")))
        expect(page.locator(".flame .box.joined")).to_have_text("3999 more50.0\u00a0%")  # 80 ms as well
        self.check("narrow", page.locator(".flame .box").count() == 5, "more than model, net, 0, its mm and the rest")
        expect(page.locator(".edd .field .part")).to_have_count(1)
        page.get_by_role("searchbox").fill("1234")
        expect(page.locator(".flame [role=status]")).to_have_text("1 part matches, less than 0.1\u00a0% of the energy")
        expect(page.locator(".flame .box.match")).to_have_count(1)
        page.get_by_role("searchbox").press("Enter")
        expect(page.locator(".flame .crumbs")).to_have_text("model/net/1234")
        page.context.close()

    def looks(self):
        for width in WIDTHS:
            for scheme in ("light", "dark"):
                page = self.open(self.page_of_model, width, scheme)
                self.looked_at(page, f"footprint-{width}-{scheme}")
                page.get_by_role("searchbox").fill("attention")
                self.looked_at(page, f"footprint-{width}-{scheme}-search")
                page.context.close()

    def hostile(self):
        file = hostile().account(self.made("hostile"))
        for width in (390, 1400):
            page = self.open(file, width)
            self.looked_at(page, f"footprint-hostile-{width}")
            self.check("hostile", page.evaluate("window.hostile === undefined"), "a name was run")
            self.check("hostile", page.locator("main img").count() == 0, "a name is markup")
            page.get_by_role("searchbox").fill("deep")
            page.get_by_role("searchbox").press("Enter")
            expect(page.locator(".flame .crumbs button").last).to_have_text("deep")
            self.looked_at(page, f"footprint-hostile-deep-{width}")
            page.context.close()

    def notebook(self):
        """As Jupyter shows it: in a frame of an origin of its own, which may run scripts and nothing else."""
        file = self.page_of_model.with_name("notebook.html")
        frame = html.escape(self.page_of_model.read_text())
        file.write_text(f'<!doctype html><iframe srcdoc="{frame}" sandbox="allow-scripts" width="100%" height="800">')
        page = self.open_file(file, 1400, "light", LONG_MS)
        page_inside = page.frame_locator("iframe")
        expect(page_inside.locator(".flame .box").first).to_be_visible()
        page_inside.locator(".flame .box").filter(has_text="attention").first.click()
        expect(page_inside.locator(".flame .crumbs")).to_contain_text("attention")
        page.context.close()


if __name__ == "__main__":
    sys.exit(run_on_files(Tests, NAMES, LONG_MS))
