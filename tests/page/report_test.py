#!/usr/bin/env python3
"""The report of `flyball plan --out` in a real Chromium: its timelines are those that the program computes, for
every plan of every planner; another plan is shown by slider, by a click on the frontier and by keyboard;
operations are looked for and pinned; the page at three widths, dark and light, without an error on the console
and without a serious fault that axe finds; with hostile names; and a large one. Run by `make page`; pictures
land in build/page/. Names of tests run these alone.
"""

import json
import pathlib
import subprocess
import sys

from playwright.sync_api import expect

from browser import WIDTHS, BrowserTests, first_paint_ms, run_on_files
from world import BUILD

PROFILES = BUILD.parent / "examples" / "profiles"
SMALL = ("gpt3-1.3b-a100-4stage.csv", 8)
LARGE = ("gpt3-175b-a100-sxm-8stage.csv", 128)
HOSTILE = "<|script><script>window.hostile = 1<|script>\u202e<img src=x onerror='window.hostile = 2'>"
MANY_POINTS = 200  # of each planner that has so many, a report of GPT-3 175B shows
NAMES = ("timing", "trace", "emulated", "straggler", "slider", "frontier", "search", "pin", "zoom", "looks", "hostile", "large")
LONG_MS = 60 * 1000  # ms; nothing here is about speed
MOST_BYTES = 500_000

# When iterations end, in seconds, by the page's own timelines: of both that are shown, and of every plan in it.
ENDS = """() => {
  const {picker, timelines} = document.querySelector('plan-timeline');
  const shown = timelines.rows.map(row => row.iteration.timing.end / 1e9);
  const plans = picker.set.plans.map(({planner, order, points}) => ({planner, times: points.map(point => [point.time_s,
    iterationOf(picker.set, order, point.options, '').timing.end / 1e9])}));
  return {shown, plans};
}"""

# What both timelines show: stage, label, start and duration in nanoseconds, whether it is critical.
OPERATIONS = """() => document.querySelector('plan-timeline').timelines.rows.map(({set, stages, iteration}) =>
  stages.flat().map(i => [`stage ${set.types[iteration.order.type[i]].stage}`, operationLabel(set, iteration.order, i),
    iteration.timing.start[i], iteration.timing.duration[i], iteration.timing.slack[i] === 0]))"""

# What a point's timeline shows: when it ends, the energy beside it, and what each stage runs at which clock, in order.
POINT = """([curve, at]) => {
  const {picker, timelines} = document.querySelector('plan-timeline');
  const {points} = picker.set.plans[curve];
  picker.pick(curve, Math.round(at * (points.length - 1)));
  const {set, iteration: {timing, order, options}, stages} = timelines.rows[1];
  const clocks = stages.map(stage => stage.flat().sort((a, b) => timing.start[a] - timing.start[b]).map(i =>
    [set.types[order.type[i]].instruction, set.types[order.type[i]].clocks_mhz[options[i]]]));
  return {time_s: timing.end / 1e9, energy_j: picker.shown.energy_j, clocks};
}"""


class Tests(BrowserTests):
    def __init__(self, folder, browser):
        super().__init__(browser)
        self.folder = folder

    def report(self, profile, microbatches, *options):
        """The report's path and what the program says of the plans."""
        folder = self.folder / f"{pathlib.Path(profile).stem}-{microbatches}-{len(options)}"
        if not folder.exists():
            subprocess.run([BUILD / "flyball", "plan", PROFILES / profile, "--microbatches", str(microbatches),
                            "--out", folder, *options], check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
        return folder / "report.html", json.loads((folder / "summary.json").read_text())

    def open(self, path, width=1400, scheme="light"):
        page = self.open_file(path, width, scheme, LONG_MS)
        expect(page.locator(".timelines canvas").nth(1)).to_be_visible()
        return page

    def small(self, **how):
        return self.open(self.report(*SMALL, "--planner", "all", "--switch-latency", "0")[0], **how)

    # The program is one judge of the page's timelines, the frontier's own times are the other: whole nanoseconds.
    def timing(self):
        path, summary = self.report(*SMALL, "--planner", "all", "--switch-latency", "0")
        ends = self.open(path).evaluate(ENDS)
        main = summary["planners"][0]
        expected = [main["baseline"]["time"], main["selected"]["time"]]
        self.check("shown", all(abs(a - b) < 1e-9 for a, b in zip(ends["shown"], expected)),
                   f"{ends['shown']}, expected {expected}")
        self.check("planners", {one["planner"] for one in ends["plans"]} ==
                   {one["planner"] for one in summary["planners"]}, str(ends["plans"])[:200])
        for plan in ends["plans"]:
            for said, run in plan["times"]:
                self.check("plan", abs(said - run) < 1e-9, f"{plan['planner']}: {said} is run in {run}")

    # Both timelines of a report, against the trace that the program writes of them: what runs when, to the nanosecond,
    # and what is critical; also where clocks change late, so that durations are not those of options.
    def trace(self):
        for options in (("--switch-latency", "0"), (), ("--straggler", "1.2"), ("--planner", "joint")):
            path, _ = self.report(*SMALL, *options)
            events = json.loads((path.parent / "timeline.trace.json").read_text())["traceEvents"]
            threads = {(event["pid"], event["tid"]): event["args"]["name"] for event in events
                       if event.get("name") == "thread_name"}
            expected = [set(), set()]
            for event in events:
                if event["ph"] == "X" and "transfers" not in threads[event["pid"], event["tid"]]:
                    expected[event["pid"] - 1].add((threads[event["pid"], event["tid"]], event["name"],
                                                    round(event["ts"] * 1000), round(event["dur"] * 1000),
                                                    event["args"]["critical"]))
            page = self.open(path)
            drawn = page.evaluate(OPERATIONS)
            for at, operations in enumerate(drawn):
                found = {tuple(one) for one in operations}
                self.check("trace", found == expected[at], f"{options}: {sorted(found ^ expected[at])[:4]}")
            page.context.close()

    # What the page shows of some points, against `flyball emulate` of the clocks that it shows.
    def emulated(self):
        path, _ = self.report(*LARGE, "--planner", "all")
        page = self.open(path)
        curves = page.evaluate("document.querySelector('plan-timeline').picker.set.plans.map(one => [one.planner, one.order, "
                               "one.points.length, one.points_in_all])")
        for planner, _, shown, in_all in curves:
            self.check("points", in_all < 2 * MANY_POINTS or shown >= MANY_POINTS, f"{planner} has {shown} of {in_all}")
        for curve, (planner, order, shown, _) in enumerate(curves):
            if order != curves[0][1]:
                continue  # lists of clocks are in the schedule's order
            for at in (0, .37, .5, 1) if shown > 1 else (0,):
                seen = page.evaluate(POINT, [curve, at])
                clocks = self.folder / "clocks.py"
                clocks.write_text("[\n" + "".join(f"{[tuple(one) for one in stage]},\n" for stage in seen["clocks"]) + "]\n")
                told = json.loads(subprocess.run(
                    [BUILD / "flyball", "emulate", PROFILES / LARGE[0], "--microbatches", str(LARGE[1]), "--plan", clocks,
                     "--format", "json"], check=True, capture_output=True).stdout)["planned"]
                self.check("emulated", abs(told["time_s"] - seen["time_s"]) < 1e-9 and
                           abs(told["energy_j"] - seen["energy_j"]) < 1e-6 * told["energy_j"],
                           f"{planner} at {at}: {told}, the page shows {seen['time_s']} s, {seen['energy_j']} J")
        page.context.close()

    # While a straggler is waited for, a plan's figures hold the waiting, whether it is the chosen one or picked.
    def straggler(self):
        page = self.open(self.report(*SMALL, "--straggler", "1.2", "--switch-latency", "0")[0])
        heading = page.locator(".timelines h3").nth(1)
        chosen = heading.text_content()
        page.evaluate("(p => p.pick(0, p.set.plans[0].selected))(document.querySelector('plan-timeline').picker)")
        expect(page.get_by_role("button", name="Back to the chosen plan")).to_be_enabled()
        expect(heading).to_have_text(chosen)
        page.context.close()

    def slider(self):
        page = self.small()
        heading = page.locator(".timelines h3").nth(1)
        before = heading.text_content()
        slider = page.get_by_role("slider", name="Time of an iteration")
        slider.focus()
        page.keyboard.press("End")
        expect(heading).not_to_have_text(before)
        slowest = page.evaluate("document.querySelector('plan-timeline').picker.set.plans[0].points.at(-1).time_s")
        expect(heading).to_contain_text(f"perseus: {slowest:.3f} s")
        page.get_by_role("combobox", name="Planner").select_option(label="uniform")
        expect(heading).to_contain_text("uniform: ")
        page.get_by_role("button", name="Back to the chosen plan").click()
        expect(heading).to_have_text(before)
        page.context.close()

    # A click on the right end of the picture picks the point that is nearest, and marks it.
    def frontier(self):
        for width in (390, 1400):
            page = self.small(width=width)
            heading = page.locator(".timelines h3").nth(1)
            before = heading.text_content()
            area = page.locator(".frontier-area > rect:visible")
            area.scroll_into_view_if_needed()
            box = area.bounding_box()
            page.mouse.click(box["x"] + 0.7 * box["width"], box["y"] + 0.9 * box["height"])
            expect(heading).not_to_have_text(before)
            expect(page.locator(".picked:visible")).to_have_count(1)
            ring = page.locator(".picked:visible").bounding_box()
            away = abs(ring["x"] + ring["width"] / 2 - box["x"] - 0.7 * box["width"])
            self.check("near", away < 0.2 * box["width"], f"the ring is {away} px away")
            page.context.close()

    def search(self):
        page = self.small()
        field = page.get_by_role("searchbox", name="Look for operations")
        field.fill("backward stage 2")
        expect(page.locator(".said")).to_contain_text("8 found")
        field.fill("B3")
        expect(page.locator(".said")).to_contain_text("4 found")
        field.press("Enter")
        expect(page.locator(".said")).to_have_text("1 of 4")
        expect(page.locator(".pinned strong")).to_have_text("backward, microbatch 3, stage 3")
        field.press("Enter")
        expect(page.locator(".pinned strong")).to_have_text("backward, microbatch 3, stage 2")
        field.fill("nothing of this name")
        expect(page.locator(".said")).to_have_text("none")
        field.press("Escape")
        expect(field).to_have_value("")
        page.context.close()

    def pin(self):
        page = self.small()
        canvas = page.locator(".timelines .sheet canvas").nth(0)
        canvas.scroll_into_view_if_needed()
        canvas.hover(position={"x": 64, "y": 15})
        expect(page.locator(".tip")).to_contain_text("forward, microbatch 0, stage 0")
        canvas.click(position={"x": 64, "y": 15})
        expect(page.locator(".pinned strong")).to_have_text("forward, microbatch 0, stage 0")
        expect(page.locator(".pinned dt")).to_have_count(2)
        expect(page.locator(".pinned dd").nth(0)).to_contain_text("1410 MHz; start 0.0000 s")
        page.get_by_role("button", name="Unpin").click()
        expect(page.locator(".pinned strong")).to_have_count(0)
        page.context.close()

    def zoom(self):
        page = self.open(self.report(*LARGE)[0])
        view = page.locator(".timelines .view")
        at = "document.querySelector('.view').scrollLeft"
        expect(page.locator(".map")).to_be_visible()
        page.get_by_role("button", name="Steady state").click()
        middle = page.evaluate(at)
        view.focus()
        page.keyboard.press("End")
        self.check("end", page.evaluate(at) > middle > 0, "End is not behind the middle")
        page.get_by_role("button", name="Whole iteration").click()
        expect(page.locator(".map")).to_be_hidden()
        page.keyboard.press("Home")
        page.get_by_role("button", name="Start").click()
        expect(page.locator(".map")).to_be_visible()
        box = page.locator(".map").bounding_box()
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        self.check("map", abs(page.evaluate(at) - middle) < 200, "a click in the map's middle leads elsewhere")
        page.context.close()

    def looks(self):
        for width in WIDTHS:
            for scheme in ("light", "dark"):
                page = self.small(width=width, scheme=scheme)
                self.looked_at(page, f"report-{width}-{scheme}")
                page.context.close()

    def hostile(self):
        profile = self.folder / "hostile.csv"
        rows = "".join(f"{stage},{name},{clock},{time},{time * clock / 20}\n" for stage in (0, 1)
                       for name in ("forward", "backward") for clock, time in ((1410, 0.1), (1200, 0.11), (900, 0.13)))
        profile.write_text(f"stage,instruction,frequency,time,energy,{'x' * 60}\n" +
                           "".join(line + f",{HOSTILE.replace(',', '')}\n" for line in rows.splitlines()))
        page = self.open(self.report(profile, 4)[0], width=390)
        page.locator(".timelines .sheet canvas").nth(0).hover(position={"x": 64, "y": 15})
        self.check("hostile", page.evaluate("window.hostile") is None, "a name has run as a script")
        self.looked_at(page, "report-hostile")
        page.context.close()

    def large(self):
        path, _ = self.report(*LARGE, "--planner", "all")
        self.check("size", path.stat().st_size < MOST_BYTES, f"{path.stat().st_size} bytes")
        page = self.open(path)
        paint = first_paint_ms(page)
        follows = page.evaluate("""() => new Promise(done => {
          const {picker} = document.querySelector('plan-timeline');
          const begin = performance.now();
          picker.pick(0, picker.set.plans[0].points.length - 1);
          requestAnimationFrame(() => setTimeout(() => done(performance.now() - begin)));
        })""")
        print(f"  {path.stat().st_size / 1000:.0f} kB", flush=True)
        self.goal("first paint", paint, 300)
        self.goal("another plan's timeline", follows, 100)
        self.looked_at(page, "report-large")
        page.context.close()


if __name__ == "__main__":
    sys.exit(run_on_files(Tests, NAMES, LONG_MS))
