#!/usr/bin/env python3
"""The charts over time in the reports of `flyball cluster` and `flyball forecast`, in a real Chromium: their values are
those that the program writes into power.csv; a reader zooms all of them by dragging over one, by buttons and by keyboard
alone; at three widths, dark and light, without an error on the console and without a serious fault that axe finds; and
with hostile names. Run by `make page`; pictures land in build/page/. Names of tests run these alone.
"""

import bisect
import csv
import json
import subprocess
import sys

from playwright.sync_api import expect

from browser import WIDTHS, BrowserTests, run_on_files
from world import BUILD

EXAMPLES = BUILD.parent / "examples"
REPORTS = ("simulated", "compared", "forecast")
MOST_BYTES = 600_000
HOSTILE = "<script>window.hostile = 1</script>\u202e<img src=x onerror='window.hostile = 2'>" + "x" * 300
NAMES = ("values", "drag", "buttons", "recorded", "looks", "hostile", "paper")
LONG_MS = 60 * 1000  # ms; nothing here is about speed

# What each chart shows: its title, the times at its two ends, and how many rows it draws.
SHOWN = """() => [...document.querySelectorAll('step-charts')].flatMap(section => section.window.charts.map(chart =>
  [chart.title, chart.chart.xAxisRange(), chart.rows.length]))"""
# What a chart draws at a time: the value of each series in the row before it.
VALUES = """([at, times]) => times.map(time => {
  const {rows} = document.querySelector('step-charts').window.charts[at];
  return rows.filter(row => row[0] <= time).at(-1).slice(1);
})"""


class Tests(BrowserTests):
    def __init__(self, folder, browser):
        super().__init__(browser)
        self.folder = folder
        self.day = folder / "day.csv"
        with open(EXAMPLES / "cluster" / "day.csv") as whole:  # the first 60 jobs
            self.day.write_text("".join(line for _, line in zip(range(61), whole)))

    def flyball(self, *arguments):
        subprocess.run([BUILD / "flyball", *arguments], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    def report(self, name):
        """Its path; it is made once."""
        folder = self.folder / name
        if not folder.exists():
            cluster = ("--trace", self.day, "--nodes", "4", "--out", folder)
            if name == "simulated":
                self.flyball("cluster", "simulate", *cluster, "--eta", "0.7")
            elif name == "compared":
                self.flyball("cluster", "compare", *cluster, "--etas", "0.5,0.9", "--clocks", "1020,1530")
            else:
                self.flyball("forecast", EXAMPLES / "forecast" / "two-generations.toml", "--out", folder)
        return next(folder.glob("*.html"))

    def open(self, path, width=1400, scheme="light"):
        page = self.open_file(path, width, scheme, LONG_MS)
        expect(page.locator("step-charts canvas").first).to_be_visible()
        return page

    # The program's power.csv is the judge: what a chart shows between two of its rows is what stands in the first.
    def values(self):
        path = self.report("simulated")
        rows = list(csv.DictReader((path.parent / "power.csv").open()))
        times = [float(row["time_s"]) for row in rows]
        first = min(float(row["submit_s"]) for row in csv.DictReader((path.parent / "jobs.csv").open()))
        middles = [(a + b) / 2 for a, b in zip(times, times[1:]) if b - a > 1]
        expected = [rows[bisect.bisect(times, time) - 1] for time in middles]
        page = self.open(path)
        for chart, column in enumerate(("power_w", "gpus", "waiting_jobs")):
            drawn = page.evaluate(VALUES, [chart, [(time - first) / 3600 for time in middles]])
            wrong = [(time, one[0], row[column]) for time, one, row in zip(middles, drawn, expected)
                     if abs(one[0] - float(row[column])) > 1e-4 * abs(float(row[column]))]
            self.check("values", len(middles) > 50 and not wrong, f"{column}: {len(middles)} rows, {wrong[:3]}")
        page.context.close()

    # Dragging over one chart zooms all; a double click shows all of the time again; the legend says what is pointed at.
    def drag(self):
        for name in REPORTS:
            page = self.open(self.report(name))
            whole = page.evaluate(SHOWN)
            plot = page.locator("step-charts .plot").first
            plot.scroll_into_view_if_needed()
            box = plot.bounding_box()
            page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 60)
            page.mouse.down()
            page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 60, steps=4)
            page.mouse.up()
            zoomed = page.evaluate(SHOWN)
            lengths = {(round(until - begin, 9), round(begin, 9)) for _, (begin, until), _ in zoomed}
            full = whole[0][1][1] - whole[0][1][0]
            self.check("together", len(lengths) == 1, f"{name}: {lengths}")
            self.check("zoomed", 0.1 * full < min(lengths)[0] < 0.3 * full, f"{name}: {lengths} of {full}")
            page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 80)
            legend = page.locator("step-charts .legend").first
            middle = sum(zoomed[0][1]) / 2
            said = float(legend.locator(".when").inner_text().split()[0])
            # A policy may be done long before the slowest; its legend then tells of its end.
            self.check("said", name == "compared" or abs(said - middle) < 0.1 * full,
                       f"{name}: the legend tells of {said}, not {middle}")
            plot.dblclick(position={"x": box["width"] / 2, "y": 60})
            self.check("whole", page.evaluate(SHOWN) == whole, f"{name}: {page.evaluate(SHOWN)[:2]}")
            page.context.close()

    # By keyboard alone, and never beyond the two ends.
    def buttons(self):
        page = self.open(self.report("simulated"))
        begin, end = page.evaluate(SHOWN)[0][1]

        def press(name):
            page.get_by_role("button", name=name).focus()
            page.keyboard.press("Enter")
            return page.evaluate(SHOWN)[0][1]

        shorter = press("show a shorter time")
        self.check("shorter", abs((shorter[1] - shorter[0]) / (end - begin) - 0.5) < 1e-6, str(shorter))
        for _ in range(4):
            earlier = press("earlier")
        self.check("earlier", abs(earlier[0] - begin) < 1e-9, f"{earlier} begins before {begin}")
        for _ in range(4):
            later = press("later")
        self.check("later", abs(later[1] - end) < 1e-9, f"{later} ends after {end}")
        self.check("longer", press("show a longer time") == [begin, end], "not the whole")
        for _ in range(30):
            shortest = press("show a shorter time")
        self.check("shortest", shortest[1] - shortest[0] > (end - begin) / 2000, str(shortest))
        self.check("all", press("the whole time") == [begin, end], "not the whole")
        page.context.close()

    # A forecast beside what was recorded: 120 W for the first second, then 480 W.
    def recorded(self):
        power = self.folder / "recorded.csv"
        power.write_text("timestamp,device,power_w\n" + "".join(
            f"{1700000000 + k / 10:.1f},GPU:0,{120 if k < 10 else 480}\n" for k in range(200)))
        folder = self.folder / "beside"
        self.flyball("forecast", EXAMPLES / "forecast" / "two-generations.toml", "--calibrate", f"new={power}", "--out",
                     folder)
        page = self.open(folder / "forecast.html")
        legends = page.locator("step-charts .legend").all_inner_texts()
        self.check("recorded", "recorded" in legends[0] and "recorded" not in legends[1], str(legends))
        self.looked_at(page, "forecast-recorded")
        page.context.close()

    def looks(self):
        for name in REPORTS:
            path = self.report(name)
            self.check("size", path.stat().st_size < MOST_BYTES, f"{name}: {path.stat().st_size} bytes")
            for width in WIDTHS:
                for scheme in ("light", "dark"):
                    page = self.open(path, width, scheme)
                    self.looked_at(page, f"{name}-{width}-{scheme}")
                    page.context.close()

    def hostile(self):
        run = (EXAMPLES / "forecast" / "two-generations.toml").read_text()
        self.check("hostile", '"new"' in run, "no node type to rename")
        renamed = self.folder / "hostile.toml"
        renamed.write_text(run.replace('"new"', json.dumps(HOSTILE)))
        self.flyball("forecast", renamed, "--out", self.folder / "hostile")
        page = self.open(self.folder / "hostile" / "forecast.html", width=390)
        self.check("hostile", page.evaluate("window.hostile") is None, "a name has run as a script")
        self.looked_at(page, "forecast-hostile")
        page.context.close()

    # Colours change with the reader's setting, also after the page was drawn.
    def paper(self):
        page = self.open(self.report("simulated"))
        dark = "document.querySelector('step-charts').window.charts[0].chart.getOption('gridLineColor')"
        before = page.evaluate(dark)
        page.emulate_media(color_scheme="dark")
        page.wait_for_function(f"{dark} !== '{before}'")
        page.context.close()


if __name__ == "__main__":
    sys.exit(run_on_files(Tests, NAMES, LONG_MS))
