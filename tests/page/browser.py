"""What tests of pages in a real Chromium have in common."""

import os
import pathlib
import shutil
import sys
import tempfile

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Error, expect, sync_playwright

from world import BUILD

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PICTURES = BUILD / "page"
WIDTHS = {390: 844, 1400: 900, 2560: 1300}


def prepare(patience_ms):
    """Ends this program where there is no Chromium."""
    if CHROMIUM is None:
        sys.exit("there is no chromium; scripts/setup page installs Debian's")
    expect.set_options(timeout=patience_ms)
    PICTURES.mkdir(parents=True, exist_ok=True)


def first_paint_ms(page):
    """When the page first painted content. It may be loaded before it has painted, on a busy machine by far."""
    return page.wait_for_function("performance.getEntriesByName('first-contentful-paint')[0]?.startTime").json_value()


class BrowserTests:
    """Each test is a function of this name; what it finds wrong it tells check()."""

    def __init__(self, browser):
        self.browser = browser
        self.current = ""
        self.failed = set()

    def check(self, what, good, detail=""):
        if not good:
            self.failed.add(self.current)
            print(f"  FAILED {what}: {detail}", flush=True)

    def goal(self, what, took_ms, most_ms):
        """Told of every run, and judged where the machine is said to be quiet (`make page-goals`)."""
        print(f"  {what} after {took_ms:.0f} ms (goal: {most_ms} ms)", flush=True)
        self.check(what, "FLYBALL_JUDGE_GOALS" not in os.environ or took_ms <= most_ms, f"{took_ms:.0f} ms")

    def new_page(self, width, scheme, patience_ms):
        context = self.browser.new_context(viewport={"width": width, "height": WIDTHS[width]}, color_scheme=scheme,
                                           reduced_motion="reduce")
        context.set_default_timeout(patience_ms)
        return context.new_page()

    def open_file(self, path, width, scheme, patience_ms, fragment=""):
        """A page in a file, which asks nobody for anything."""
        page = self.new_page(width, scheme, patience_ms)
        page.on("console", lambda message: self.check(
            "console", message.type not in ("error", "warning"), message.text))
        page.on("pageerror", lambda error: self.check("console", False, str(error)))
        page.on("request", lambda request: self.check("requests", request.url.startswith("file:"), request.url))
        page.goto(path.as_uri() + fragment)
        return page

    def looked_at(self, page, name):
        """It fits, axe finds nothing serious, and its picture is kept."""
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        self.check("width", wide <= 0, f"{name} is {wide} px wider than the window")
        for fault in Axe().run(page).response["violations"]:
            serious = fault["impact"] in ("serious", "critical")
            self.check("axe", not serious, f"{name}: {fault['help']}: {fault['nodes'][0]['html'][:200]}")
        page.screenshot(path=PICTURES / f"{name}.png", full_page=True)

    def run(self, names):
        """Returns the exit status."""
        for name in names:
            print(name, flush=True)
            self.current = name
            try:
                getattr(self, name)()
            except (AssertionError, Error) as error:
                self.check(name, False, " ".join(str(error).split("\n")[:7]))
        print(f"{len(names) - len(self.failed)} passed, {len(self.failed)} failed")
        return 1 if self.failed else 0


def run_on_files(tests, names, patience_ms):
    """Runs the tests of pages in files, which a folder of their own has, or those that the command names. Returns the
    exit status."""
    prepare(patience_ms)
    with tempfile.TemporaryDirectory(prefix="flyball-page-") as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            return tests(pathlib.Path(folder), browser).run(sys.argv[1:] or names)
        finally:
            browser.close()
