#!/usr/bin/env python3
"""The planning server's page in a real Chromium, on a fleet of simulated GPUs that train: every view at three widths,
dark and light, without an error on the console and without a serious fault that axe finds; by keyboard alone; with a
straggler that comes and goes, an agent that is killed, and a server that starts anew; with many GPUs and what a
scheduler does with them; with hostile names; and without a token. Run by `make page`; pictures land in build/page/.
Names of tests run these alone.
"""

import json
import re
import secrets
import signal
import sys
import time

from playwright.sync_api import expect, sync_playwright

from browser import CHROMIUM, PICTURES, WIDTHS, BrowserTests, first_paint_ms, prepare
from what_if import WhatIfTests
from world import World, wait_until

JOB = "night"
SCRIPT = "<script>window.hostile = 1</script><img src=x onerror='window.hostile = 2'>"
HOSTILE = {"markup": SCRIPT, "arabic": "\u202eمهمة \u202e تدريب", "long": "x" * 200}
NAMES = ("straggler", "pace", "paints", "no_token", "keyboard", "zoom", "allocations", "many_gpus", "scheduler",
         "silence", "restart", "looks", "hostile", "leases", "refuses", "agent", "bill", "used", "phone", "what_if", "what_if_file", "iteration")
# The widths of the bars of jobs in each row that has some, in px.
BARS_OF_JOBS = """() => [...document.querySelectorAll('.allocations .row')]
  .map(row => [...row.querySelectorAll('.bar')].filter(bar => bar.dataset.job).map(bar => bar.getBoundingClientRect().width))
  .filter(row => row.length > 0)"""
# How many nodes 50 moves within one frame change before it, and how many marks there are after it.
POINT_AT_MANY = """async () => {
  const rows = document.querySelector('.allocations .rows');
  const box = rows.getBoundingClientRect();
  const observer = new MutationObserver(() => {});
  observer.observe(rows, {childList: true, subtree: true});
  for (let i = 0; i < 50; ++i) {
    rows.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, movementX: 1, clientX: box.right - 100 + i, clientY: box.top + 9}));
  }
  const changes = observer.takeRecords().length;
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  return [changes, rows.querySelectorAll('.chosen').length];
}"""
LONG_MS = 120 * 1000  # ms; nothing here is about speed


class Tests(WhatIfTests, BrowserTests):
    job = JOB
    script = SCRIPT

    def __init__(self, world, browser):
        super().__init__(browser)
        self.world = world

    def open(self, view="", width=1400, scheme="light", token=True, at=None):
        """A page of its own, of the server or of another, whose console and requests are watched."""
        at = at or self.world
        page = self.new_page(width, scheme, LONG_MS)
        page.expected = []  # words of console errors that are meant to be
        if token:
            page.add_init_script(f"sessionStorage.setItem('flyball-token', {json.dumps(at.token)})")

        def told(message):
            if message.type in ("error", "warning") and not any(word in message.text for word in page.expected):
                self.check("console", False, f"{view or 'fleet'}: {message.text}")

        page.on("console", told)
        page.on("pageerror", lambda error: self.check("console", False, f"{view or 'fleet'}: {error}"))
        page.orders = []
        page.on("request", lambda request: self.check(
            "requests", (request.method == "GET" or f"{request.method} {request.url}" in page.orders) and
            request.url.startswith((at.address, "data:")), f"{request.method} {request.url}"))
        page.goto(f"{at.address}/#/{view}")
        return page

    # The widths and colours of every view.
    def looks(self):
        for view in ("", "jobs", "nodes", f"jobs/{JOB}", "nodes/n1"):
            for width in WIDTHS:
                for scheme in ("light", "dark"):
                    page = self.open(view, width, scheme)
                    expect(page.locator("h1")).to_be_visible()
                    expect(page.locator(".link")).to_have_text("live")
                    if view in ("", f"jobs/{JOB}", "nodes/n1"):
                        expect(page.locator(".plot canvas").first).to_be_visible()
                    self.looked_at(page, f"{(view or 'fleet').replace('/', '-')}-{width}-{scheme}")
                    page.context.close()

    # The training's last iteration over its plan: an operation that is looked for stays pinned in both, with what the
    # server tells of it.
    def iteration(self):
        told = wait_until("an iteration", lambda: self.measured())
        page = self.open(f"jobs/{JOB}")
        expect(page.get_by_role("heading", name="Last iteration")).to_be_visible()
        expect(page.locator(".timelines canvas[role=img]")).to_have_count(2)
        search = page.get_by_role("searchbox", name="Look for operations")
        search.fill("backward stage 2 microbatch 3")
        expect(page.locator(".timelines .said")).to_have_text("1 found, Enter shows them")
        search.press("Enter")
        pinned = page.locator(".timelines .pinned")
        expect(pinned).to_contain_text("backward, microbatch 3, stage 2")
        expect(pinned.locator("dd")).to_have_count(2)

        def planned():
            now = self.measured()
            operations, types = now["operations"], now["types"]
            (at,) = [i for i, kind in enumerate(operations["type"]) if operations["microbatch"][i] == 3 and
                     (types[kind]["instruction"], types[kind]["stage"]) == ("backward", 2)]
            return f"{1e3 * operations['planned_time_s'][at]:.2f} ms"

        # A newer iteration may have another plan, and is on the page a second later.
        wait_until("the planned time", lambda: planned() in pinned.locator("dd").first.text_content())
        expect(pinned.locator("dd").last).to_contain_text("of which it added")
        # A newer iteration takes its place, and the operation stays pinned.
        note = page.get_by_text(f"Step {told['step']} by")
        wait_until("the next iteration", lambda: self.measured()["step"] > told["step"])
        expect(note).to_have_count(0)
        expect(pinned).to_contain_text("backward, microbatch 3, stage 2")
        page.context.close()
        for width in WIDTHS:
            for scheme in ("light", "dark"):
                page = self.open(f"jobs/{JOB}", width, scheme)
                page.get_by_role("heading", name="Last iteration").scroll_into_view_if_needed()
                page.screenshot(path=PICTURES / f"iteration-{width}-{scheme}.png")
                page.context.close()

    def measured(self):
        told = self.world.ask(f"/v1/jobs/{JOB}/iteration")
        return None if told["missing"] else told

    def paints(self):
        page = self.open("", 1400)
        expect(page.locator(".tile").first).to_be_visible()
        first = first_paint_ms(page)
        self.goal("first paint", first, 300)
        page.context.close()

    def no_token(self):
        page = self.open("", token=False)
        page.expected.append("401")
        expect(page.locator(".link")).to_have_text("needs a token")
        self.check("no token", page.locator(".tile").count() == 0, "the fleet is shown without a token")
        page.get_by_role("button", name="Give a token").click()
        page.get_by_role("textbox", name="Token").fill("wrong" * 10)
        page.expected.append("403")
        page.get_by_role("button", name="Use it").click()
        expect(page.locator(".banner")).to_be_visible()
        page.get_by_role("button", name="Token", exact=True).click()
        page.get_by_role("textbox", name="Token").fill(self.world.token)
        page.get_by_role("button", name="Use it").click()
        expect(page.locator(".tile").first).to_be_visible()
        page.context.close()

    def keyboard(self):
        page = self.open("")
        expect(page.locator(".tile").first).to_be_visible()
        page.keyboard.press("Tab")
        self.check("keyboard", page.evaluate("document.activeElement.className") == "skip", "Tab first goes to 'skip'")
        for _ in range(3):
            page.keyboard.press("Tab")
        focused = page.evaluate("document.activeElement.textContent")
        self.check("keyboard", focused == "Jobs", f"the fourth Tab is '{focused}' and not 'Jobs'")
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text("Jobs")
        self.check("keyboard", page.evaluate("document.activeElement.id") == "main", "a new view has the focus")
        for _ in range(3):  # the table that scrolls, its first job
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.getAttribute('href')") == f"#/jobs/{JOB}":
                break
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text(JOB)
        zoom = page.get_by_role("button", name="show a shorter time")
        zoom.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="the last 10 minutes")).to_have_attribute("aria-pressed", "false")
        # The page renews itself each second, and here something comes before what has the focus.
        report = {"rank": 5, "slowdown": 1.2, "since_step": 30, "cause": "unknown"}
        self.world.ask(f"/v1/jobs/{JOB}/paces", report)
        expect(page.locator(".alarms li").filter(has_text="Rank 5 takes 1.20")).to_be_visible()
        self.world.ask(f"/v1/jobs/{JOB}/paces", {**report, "slowdown": 1, "since_step": 40})
        expect(page.locator(".alarms li").filter(has_text="Rank 5 takes 1.20")).to_have_count(0)
        focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
        self.check("keyboard", focused == "show a shorter time", f"the focus has gone to {focused} by itself")
        page.context.close()

    def zoom(self):
        page = self.open(f"jobs/{JOB}")
        expect(page.locator(".plot canvas").last).to_be_visible()
        self.zooms(page, page.locator(".plot").first)
        page.context.close()

    # Dragging over a chart zooms all charts of the view, and a double click shows the present again. What stands above
    # the chart may grow meanwhile, and move it.
    @staticmethod
    def zooms(page, plot):
        size = plot.bounding_box()
        at = {share: {"x": size["width"] * share, "y": size["height"] / 2} for share in (.7, .8)}
        plot.hover(position=at[.7])  # which waits until the page stands still
        page.mouse.down()
        box = plot.bounding_box()
        page.mouse.move(box["x"] + box["width"] * .9, box["y"] + box["height"] / 2, steps=5)
        page.mouse.up()
        pressed = page.get_by_role("button", name="the last 10 minutes")
        expect(pressed).to_have_attribute("aria-pressed", "false")
        plot.dblclick(position=at[.8])
        expect(pressed).to_have_attribute("aria-pressed", "true")

    def straggler(self):
        page = self.open(f"jobs/{JOB}")
        words = "Rank 5 takes 1.30 times as long as when it was profiled, since its step 10: throttled, thermal"
        attention = page.locator(".alarms li").filter(has_text=words)
        expect(page.locator(".rank")).to_have_count(8)
        expect(attention).to_have_count(0)
        # As the rank itself would say; that ranks find themselves to be slow is tested elsewhere.
        report = {"rank": 5, "slowdown": 1.3, "since_step": 10, "cause": "throttled", "detail": "thermal"}
        self.world.ask(f"/v1/jobs/{JOB}/paces", report)
        expect(attention).to_be_visible()
        expect(page.locator(".rank.slow")).to_contain_text("rank 5")
        page.screenshot(path=PICTURES / "straggler.png", full_page=True)
        self.world.ask(f"/v1/jobs/{JOB}/paces", {"rank": 5, "slowdown": 1, "since_step": 20, "cause": "unknown"})
        expect(attention).to_have_count(0)
        expect(page.locator(".rank.slow")).to_have_count(0)
        self.wait_for_events(page, "straggler", "rank 5 computes 1[.]30 ")
        self.wait_for_events(page, "straggler", "rank 5 computes as fast as usual again")
        page.context.close()

    def wait_for_events(self, page, kind, pattern):
        """Until a job's view tells such an event. On a busy machine many come, and push others out of the newest, which alone
        are shown at first."""
        def are_there():
            more = page.get_by_role("button", name=re.compile("^Show all"))
            if more.count():
                more.click()
            return page.locator(f".events .{kind}").filter(has_text=re.compile(pattern)).count() > 0

        wait_until(pattern, are_there)

    # A pipeline on the other node whose GPUs compute 1.3 times as long for a while, as its ranks find themselves. That
    # lives in real time, so that it is none of NAMES; `make page-goals` runs it.
    def slow_pipeline(self):
        self.world.start_training("slow", "--straggler", "1.3", node="n2")
        wait_until("the job", lambda: self.world.job("slow"))
        page = self.open("jobs/slow")
        last = page.locator(".rank").filter(has_text=re.compile("rank [4-7],"))
        expect(last.and_(page.locator(".slow"))).not_to_have_count(0)
        expect(page.locator(".alarms li").filter(has_text="times as long as when it was profiled")).not_to_have_count(0)
        page.screenshot(path=PICTURES / "slow-pipeline.png", full_page=True)
        expect(page.locator(".rank.slow")).to_have_count(0)
        self.wait_for_events(page, "straggler", "rank [4-7] computes 1[.]")
        self.wait_for_events(page, "straggler", "rank [4-7] computes as fast as usual again")
        page.context.close()
        self.world.stop("training-n2")

    # By keyboard: the slowest point is chosen, run and taken back. What it means is what the frontier says of it.
    def pace(self):
        page = self.open(f"jobs/{JOB}")
        slider = page.get_by_role("slider", name="Choose a point")
        run, back = (page.get_by_role("button", name=name) for name in ("Run it", "Back to the plan"))
        expect(slider).to_be_visible()
        expect(run).to_be_disabled()
        expect(back).to_be_disabled()
        slider.focus()
        page.keyboard.press("End")
        frontier = self.world.ask(f"/v1/jobs/{JOB}/frontier")
        base, last = frontier["points"][frontier["base_point"]], frontier["points"][-1]
        time_pct, energy_pct = (100 * (last[unit] / base[unit] - 1) for unit in ("time_s", "energy_j"))
        self.check("pace", time_pct > 0 > energy_pct, f"{time_pct} % time, {energy_pct} % energy")
        words = f"+{time_pct:.1f}\u00a0% time and \u2212{-energy_pct:.1f}\u00a0% energy against what is in force"
        expect(page.locator(".pace .meaning")).to_contain_text(words)
        page.screenshot(path=PICTURES / "pace.png", full_page=True)
        version = self.world.job(JOB)["version"]
        page.orders.append(f"POST {self.world.address}/v1/jobs/{JOB}/stragglers")
        run.focus()
        page.keyboard.press("Enter")
        expect(page.locator(".pace [role=status]")).to_contain_text("Ordered")
        expect(page.locator(".pace .meaning")).to_have_text("This is the point in force.")
        expect(back).to_be_enabled()
        (ours,) = [one for one in self.world.job(JOB)["stragglers"] if one["straggler"] == "page"]
        self.check("pace", abs(ours["degree"] - last["time_s"] / base["time_s"]) < 1e-6, f"the degree is {ours['degree']}")
        wait_until("another schedule", lambda: self.world.job(JOB)["version"] > version)
        # The slowest plan that is done in that time, with clocks that change as late as they do.
        schedule = self.world.ask(f"/v1/jobs/{JOB}/ranks/0/schedule")
        allowed = schedule["allowed_time_s"] / last["time_s"]
        self.check("pace", abs(allowed - 1) < .01, f"rank 0 may take {allowed} times what was chosen")
        self.check("pace", schedule["point"] > frontier["base_point"] and
                   base["time_s"] < schedule["iteration_time_s"] <= schedule["allowed_time_s"], f"rank 0 has {schedule}")
        back.click()
        expect(back).to_be_disabled()
        expect(slider).to_have_value(str(frontier["base_point"]))
        wait_until("the plan's own schedule", lambda: self.world.ask(
            f"/v1/jobs/{JOB}/ranks/0/schedule")["point"] == frontier["base_point"])
        self.maximum_clocks(page)
        page.context.close()
        # Without a token nothing can be ordered, and nothing is.
        page = self.open(f"jobs/{JOB}", token=False)
        page.expected.append("401")
        expect(page.locator("h1")).to_be_visible()
        self.check("pace", page.get_by_role("button", name="Run it").count() == 0, "there is a button without a token")
        page.context.close()

    # By keyboard, too: all ranks to maximum clocks and back. In between, the page says so first of all.
    def maximum_clocks(self, page):
        def at_maximum():
            return self.world.ask(f"/v1/jobs/{JOB}/ranks/0/schedule")["at_maximum"]
        maximum, plan = (page.get_by_role("button", name=name) for name in ("Maximum clocks", "Run the plan again"))
        attention = page.locator(".alarms li").filter(has_text="Ordered to maximum clocks")
        expect(attention).to_have_count(0)
        for _ in range(2):
            page.orders.append(f"PUT {self.world.address}/v1/jobs/{JOB}/clocks")
        maximum.focus()
        page.keyboard.press("Enter")
        expect(attention).to_be_visible()
        expect(page.get_by_role("slider", name="Choose a point")).to_have_count(0)
        wait_until("maximum clocks", at_maximum)
        wait_until("GPUs at maximum clocks", lambda: all(map(self.all_at_maximum, range(3))))
        page.screenshot(path=PICTURES / "maximum_clocks.png", full_page=True)
        jobs = self.open("jobs")
        row = jobs.locator("tbody tr").filter(has_text=JOB)
        expect(row).to_contain_text("maximum clocks")
        plan.focus()
        page.keyboard.press("Enter")
        expect(attention).to_have_count(0)
        expect(row).not_to_contain_text("maximum clocks")
        jobs.context.close()
        expect(maximum).to_be_enabled()
        wait_until("the plan's clocks", lambda: not at_maximum())
        self.wait_for_events(page, "schedule", "ordered to maximum clocks")
        self.wait_for_events(page, "schedule", "ordered back to the plan")

    # Whether no GPU of the training's node is asked to run below its highest clock, one look after another.
    def all_at_maximum(self, look):
        time.sleep(0.3 if look else 0)
        (gpus,) = [node["gpus"] for node in self.world.ask("/v1/nodes")["nodes"] if node["node"] == "n1"]
        return all(gpu["asked_clock_mhz"] in (None, gpu["clock_maximum_mhz"]) for gpu in gpus)

    # A training's lease: it is ended, by keyboard, and the training does not take it back.
    def leases(self):
        page = self.open("nodes/n1")
        rows = page.locator(".leases tbody tr")
        expect(rows).to_have_count(8)  # of a training on eight GPUs
        gpu = rows.first.locator("th").text_content()
        end, keep = (page.get_by_role("button", name=name, exact=True) for name in ("End the lease", "Keep it"))
        first = page.get_by_role("button", name=f"End the lease of GPU {gpu}", exact=True)
        first.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("group", name="End this lease?")).to_contain_text(f"End the lease of GPU {gpu} (")
        page.screenshot(path=PICTURES / "leases.png", full_page=True)
        keep.click()
        expect(end).to_have_count(0)
        (lease,) = [one["lease"] for one in self.world.ask("/v1/nodes")["nodes"][0]["gpus"] if one["index"] == int(gpu)]
        self.check("leases", len(lease) == 32, f"the lease is {lease!r}")
        page.orders.append(f"DELETE {self.world.address}/v1/nodes/n1/leases/{lease}")
        first.focus()
        page.keyboard.press("Enter")
        end.focus()
        page.keyboard.press("Enter")
        expect(page.locator(".leases [role=status]")).to_have_text("The lease has ended.")
        expect(rows).to_have_count(7)
        expect(page.locator("table").first.locator("tbody tr").nth(int(gpu))).to_contain_text("free")
        self.check("leases", self.world.job(JOB)["state"] == "ready", "the training has ended")
        page.wait_for_timeout(3000)  # ms; the training asks again within one
        expect(rows).to_have_count(7)
        page.context.close()
        # An agent that does not give the right to clients by its port shows no identifier, and the page no button.
        with self.world.lease_of_n2():
            page = self.open("", at=self.world.other_agent)
            expect(page.locator(".leases tbody tr")).to_have_count(1)
            expect(page.locator(".leases .note").first).to_contain_text("Ending a lease takes a token")
            self.check("leases", page.locator(".leases button").count() == 0, "there is a button without the right")
            page.context.close()

    # The driver of a board refuses to reset its clocks: the lease ends, and the page says what is left until it is mended.
    def refuses(self):
        page = self.open("")
        alarm = page.locator(".alarms li").filter(has_text="the driver refuses to bring back what held before")
        expect(page.locator(".tile").first).to_be_visible()
        expect(alarm).to_have_count(0)
        with self.world.lease_of_n2():
            self.world.fault("n2", "error:nvmlDeviceResetGpuLockedClocks=999")
        expect(alarm).to_contain_text("1 GPU without a lease is off the default clocks")
        expect(page.locator(".tile.bad").filter(has_text="GPUs in use")).to_contain_text("1 off their default clocks without one")
        page.screenshot(path=PICTURES / "refuses.png", full_page=True)
        self.world.fault("n2", "--clear")
        expect(alarm).to_have_count(0)
        page.context.close()

    # The agent's own page, on its port: its token shows the node; a lease is ended there, too.
    def agent(self):
        for width in WIDTHS:
            page = self.open("", width, "dark" if width == 390 else "light", at=self.world.agent)
            expect(page.locator("table").first.locator("tbody tr")).to_have_count(8)
            expect(page.locator(".plot canvas").first).to_be_visible()
            expect(page.locator(".leases tbody tr").first).to_be_visible()
            self.looked_at(page, f"agent-{width}")
            page.context.close()
        page = self.open("", at=self.world.agent)
        rows = page.locator(".leases tbody tr")
        expect(rows.first).to_be_visible()
        there = rows.count()
        gpu = rows.last.locator("th").text_content()
        (lease,) = [one["lease"] for one in self.world.ask("/v1/nodes")["nodes"][0]["gpus"] if one["index"] == int(gpu)]
        page.orders.append(f"DELETE {self.world.agent.address}/v1/leases/{lease}")
        page.get_by_role("button", name=f"End the lease of GPU {gpu}", exact=True).click()
        page.get_by_role("button", name="End the lease", exact=True).click()
        expect(rows).to_have_count(there - 1)
        page.context.close()
        page = self.open("", token=False, at=self.world.agent)
        page.expected.append("401")
        expect(page.locator(".banner")).to_contain_text("a token is needed")
        self.check("agent", page.locator("table").count() == 0, "it shows the node without a token")
        page.context.close()

    # The world's server says 0.3 a kWh and 380 g of CO2: a kilowatt is 0.30 and 380 g an hour.
    def bill(self):
        page = self.open("")
        tile = page.locator(".tile").filter(has_text="per hour")
        expect(tile).to_contain_text("at 0.3 a kWh")
        words = tile.text_content().replace("\u00a0", " ")
        watts, unit = re.search(r"Power([\d.]+) (k?W)", words).groups()
        kilowatts = float(watts) * (1 if unit == "kW" else 1e-3)
        money = float(re.search(r"; ([\d.]+) per hour", words)[1])
        grams, mass = re.search(r"([\d.]+) (k?g) CO", words).groups()
        # Money is rounded to .01 and power to three digits, .01 kW at most.
        self.check("bill", abs(money - .3 * kilowatts) < .005 + .3 * .005 + 1e-9, words)
        self.check("bill", abs(float(grams) * (1000 if mass == "kg" else 1) / (380 * kilowatts) - 1) < .01, words)
        page.context.close()

    # What was used, as the server adds it up, and what is not known of it.
    def used(self):
        page = self.open("")
        line = page.locator(".note").filter(has_text="Energy in the time that is shown")

        def shown():
            """In Wh."""
            found = re.search(r"shown: ([\d.]+)\s(k?Wh), read", line.text_content())
            return float(found[1]) * (1000 if found[2] == "kWh" else 1) if found else 0

        expect(line).to_have_text(re.compile("Wh, read "))
        before = self.world.ask(f"/v1/fleet/energy?from_s={time.time() - 600:.0f}")["energy_j"] / 3600
        wait_until("the energy", lambda: shown() >= .995 * before)
        after = self.world.ask(f"/v1/fleet/energy?from_s={time.time() - 600:.0f}")["energy_j"] / 3600
        self.check("used", shown() <= 1.005 * after + .01, f"{shown()} Wh after {before} and before {after}")
        # Less of it where less is shown: a quarter of the time, in its middle.
        page.get_by_role("button", name="show a shorter time").click()
        page.get_by_role("button", name="show a shorter time").click()
        wait_until("less energy", lambda: shown() < .995 * before)
        page.context.close()
        # 12 kWh of half a day, of which half is not of all GPUs; 12 kWh cost 3.60 at 0.3 and set 12 * 380 g free. Nothing in
        # the time that is shown.
        page = self.open("")
        page.route("**/v1/fleet/energy*", lambda route: route.fulfill(json=told(route.request.url)))

        def told(url):
            from_s = float(re.search(r"from_s=(\d+)", url)[1])
            if time.strftime("%H%M%S", time.localtime(from_s)) != "000000":
                return {"from_s": from_s, "until_s": from_s + 600, "energy_j": None, "read_s": 0, "complete_s": 0}
            return {"from_s": from_s, "until_s": from_s + 80000, "energy_j": 4.32e7, "read_s": 40000, "complete_s": 20000}

        page.goto(f"{self.world.address}/#/nodes")
        page.goto(f"{self.world.address}/#/")
        tile = page.locator(".tile").filter(has_text="Used today")
        expect(tile).to_have_text("Used today12.0\u00a0kWhread for 50\u00a0% of the time, and nothing is added for the rest; "
                                  "only for 25\u00a0% of the time of all GPUs; 3.60 at 0.3 a kWh; 4.56\u00a0kg CO₂")
        expect(page.locator(".note").filter(has_text="Energy in the time that is shown")).to_have_text(
            "Energy in the time that is shown: –, no power was read in this time")
        page.context.close()

    # A wide table on a phone: the rows' names stay where they are while the rest moves, below them; the edge behind which
    # there is more has a shade that stays, and a cover of it that moves with the table's end.
    def phone(self):
        page = self.open("nodes/n1", 390)
        table = page.get_by_role("region", name="GPUs", exact=True)
        expect(table.locator("tbody tr")).to_have_count(8)
        before, after = [table.evaluate("""(one, left) => {
            one.scrollLeft = left;
            const [name, next] = one.querySelector('tbody tr').children;
            const at = name.getBoundingClientRect();
            const seen = document.elementFromPoint(at.right - 2, at.y + at.height / 2);
            const heading = one.querySelector('thead th').getBoundingClientRect();
            return {name: at.x, heading: heading.x, next: next.getBoundingClientRect().x, left: one.scrollLeft,
              hidden: one.scrollWidth - one.clientWidth, above: name.contains(seen),
              attachment: getComputedStyle(one).backgroundAttachment};
        }""", left) for left in (0, 80)]
        self.check("phone", before["hidden"] >= 80 and after["left"] == 80, f"the table does not scroll: {before}, {after}")
        self.check("phone", after["name"] == before["name"] and after["heading"] == before["heading"], f"{before} to {after}")
        self.check("phone", before["next"] - after["next"] == 80, f"the columns do not scroll: {before} to {after}")
        self.check("phone", after["above"], "what scrolls stands above the rows' names")
        self.check("phone", after["attachment"] == "local, scroll", after["attachment"])
        page.screenshot(path=PICTURES / "phone.png")
        page.context.close()

    def last_bar(self, page, node, gpu):
        """The last bar in the row of a GPU: a job, "free" or "unknown"."""
        return page.evaluate("""([node, gpu]) => {
            const bar = [...document.querySelectorAll(`.row[data-node="${node}"][data-gpu="${gpu}"] .bar`)].pop();
            return bar && (bar.dataset.job || ['free', 'other', 'unknown'].find(one => bar.classList.contains(one)));
        }""", [node, gpu])

    def wait_for_bars(self, page, wanted):
        """Until the last bars of GPUs, by node and number, are as wanted."""
        seen = {}

        def are_there():
            page.wait_for_timeout(200)
            seen.update({key: self.last_bar(page, *key) for key in wanted})
            return seen == wanted

        try:
            wait_until("bars", are_there)
        except AssertionError as error:
            raise AssertionError(f"{error}: {seen}") from error

    # The training has the eight GPUs of n1 and none of n2's, of which one is leased for no job; also after the server
    # was away, as one bar from the same begin. What an agent that was killed had told to be free is not known.
    def allocations(self):
        page = self.open("")
        ours = {("n1", gpu): JOB for gpu in range(8)}
        others = {("n2", gpu): "free" for gpu in range(8)}
        with self.world.lease_of_n2():
            self.wait_for_bars(page, {**ours, **others, ("n2", 0): "other"})
        self.wait_for_bars(page, {**ours, **others})
        legend = page.locator(".legend", has_text="not known")
        expect(legend).to_contain_text(f"{JOB} 8")
        expect(legend).to_contain_text("free 8")
        plot = page.get_by_role("group", name="Who has which GPU")
        self.check("allocations", f"job {JOB} has 8, " in plot.get_attribute("aria-label"), plot.get_attribute("aria-label"))
        page.get_by_text("As a table").click()
        rows = page.get_by_role("region", name="Who has which GPU").locator("tbody tr").filter(has_text=JOB)
        expect(rows.filter(has_text="n1, GPU 7")).to_have_count(1)
        expect(rows.filter(has_text="n2")).to_have_count(0)

        def begins():
            told = self.world.ask("/v1/fleet/allocations")["allocations"]
            return {one["gpu"]: one["from_s"] for one in told if one["job"] == JOB and not one["ended"]}

        before = begins()
        page.expected += ["Failed to load resource", "ERR_"]
        self.world.stop("server", signal.SIGKILL)
        expect(page.locator(".link")).to_have_text("no connection, trying again")
        self.wait_for_bars(page, dict.fromkeys({**ours, **others}, "unknown"))
        page.wait_for_timeout(4000)  # ms; of up to three seconds without an answer no more is made than of one
        self.world.start_server()
        self.wait_for_bars(page, {**ours, **others})
        self.check("allocations", begins() == before and len(before) == 8, f"{before} became {begins()}")
        gaps = page.locator(".row[data-node=n2][data-gpu='3'] .bar.unknown")
        self.check("allocations", gaps.count() >= 2, "GPUs that were free before and after seem to have been so meanwhile")
        self.world.stop("agent-n2", signal.SIGKILL)
        self.wait_for_bars(page, {**ours, **dict.fromkeys(others, "unknown")})
        page.screenshot(path=PICTURES / "allocations-silent.png", full_page=True)
        self.world.start_agent("n2")
        self.wait_for_bars(page, {**ours, **others})
        # What is not known: before the window, while the server was away, while the agent was.
        page.wait_for_function(
            "document.querySelectorAll(\".row[data-node=n2][data-gpu='0'] .bar.unknown\").length >= 3")
        # By keyboard alone: the first GPU, the one below, its job.
        plot.focus()
        saying = page.locator(".saying")
        page.keyboard.press("ArrowDown")
        expect(saying).to_contain_text(f"n1, GPU 0: job {JOB}, rank 0 by ")
        page.keyboard.press("ArrowDown")
        expect(saying).to_contain_text(f"n1, GPU 1: job {JOB}, rank 1 by ")
        for _ in range(7):
            page.keyboard.press("ArrowDown")
        expect(saying).to_contain_text("n2, GPU 0: free, from ")
        page.keyboard.press("ArrowLeft")
        expect(saying).to_contain_text("n2, GPU 0: not known, from ")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text(JOB)
        page.context.close()
        page = self.open("")
        self.wait_for_bars(page, ours)
        self.zooms(page, page.locator(".allocations .rows"))
        page.context.close()

    # More than 64 GPUs: each node has one row, of as many lanes as it has GPUs, as high as that of any other node.
    def many_gpus(self):
        now = time.time()
        told = [{"node": f"rack-12-node-{node}", "gpu": gpu, "from_s": now - 60 * (job + 1), "until_s": now - 60 * job,
                 "ended": True, "job": f"job-{(node + job) % 12}", "rank": None, "holder": "alice"}
                for node in range(12) for gpu in range(8) for job in range(9)]
        for width in (390, 1400):
            page = self.open("", width)
            page.route("**/v1/fleet/allocations*", lambda route: route.fulfill(json={"complete_from_s": 0, "allocations": told}))
            page.goto(f"{self.world.address}/#/nodes")  # and anew, by what the route tells
            page.goto(f"{self.world.address}/#/")
            names = page.locator(".allocations .rows text.strong")
            expect(names).to_have_count(14)  # with n1 and n2, in order
            expect(names.first).to_have_text("n1")
            expect(names.nth(2)).to_have_text("\u20262-node-0")
            expect(names.last).to_have_text("\u2026-node-11")
            expect(page.locator(".allocations .row")).to_have_count(14 * 8)
            expect(page.locator(".allocations .row text")).to_have_count(0)
            expect(page.locator(".legend bdi")).to_have_count(12)
            widths = page.evaluate(BARS_OF_JOBS)
            # Each has lasted for 60 s of the 600 that are shown, of which the names take 79 px. The oldest may be cut.
            wanted = (page.evaluate("document.querySelector('.allocations .rows').clientWidth") - 79) * .1
            self.check("many_gpus", len(widths) == 12 * 8 and all(
                abs(one - wanted) < .2 for row in widths for one in row[-4:]), f"bars of 60 s are no {wanted} px: {widths[:2]}")
            pointed = page.evaluate(POINT_AT_MANY)
            self.check("many_gpus", pointed == [0, 1], f"50 moves of the pointer drew and framed {pointed}")
            page.locator(".allocations").focus()
            page.keyboard.press("Escape")
            for _ in range(14 * 8 + 1):
                page.keyboard.press("ArrowDown")
            saying = page.locator(".saying")
            expect(saying).to_have_text(re.compile("^rack-12-node-11, GPU 7: not known, from .*[0-9].* until now$"))
            page.keyboard.press("ArrowLeft")
            expect(saying).to_contain_text("rack-12-node-11, GPU 7: job job-11 by alice")
            for _ in range(10):
                page.keyboard.press("ArrowLeft")
            for _ in range(2):
                expect(saying).to_contain_text("rack-12-node-11, GPU 7: not known, from before what is shown until ")
                page.wait_for_timeout(2500)  # ms, in which the stretch that is shown moves on
            self.looked_at(page, f"many-gpus-{width}")
            page.context.close()

    # What a controller tells: power against the budget, decisions, jobs; and that it is silent.
    def scheduler(self):
        page = self.open("")
        alarm = page.locator(".alarms li").filter(has_text="The controller of the cluster is silent")
        expect(alarm).to_be_visible()
        self.check("scheduler", page.locator(".decisions").count() == 0, "there are decisions of a controller that never answered")
        decision = {"time_s": 1.8e9, "planned_w": 1200, "limit_w": 1500, "budget_w": 2000, "clock_mhz": 1005}
        jobs = [{"job": 8, "user": "bob", "kind": SCRIPT, "state": "waiting", "gpus": 0, "to_gpus": 0, "power_w": 0,
                 "why": "it waits"},
                {"job": 7, "user": "alice", "kind": "resnet", "state": "running", "gpus": 2, "to_gpus": 2, "power_w": 700,
                 "clock_mhz": 1005, "why": "from 4 GPUs to 2"}]
        status = {"policy": "joule-price", "mode": "acts", "budget_w": 2000, "others_w": 500, "limit_w": 1500, "power_w": 700,
                  "decisions": 5, "jobs": jobs, "last_decisions": [
                      {**decision, "job": 7, "change": "from 4 GPUs on n1 to 2 GPUs on n1", "cause": "1500 W are for elastic jobs",
                       "from_gpus": 4, "to_gpus": 2},
                      {**decision, "job": 7, "change": SCRIPT, "cause": "job 7 has come", "from_gpus": 0, "to_gpus": 4}]}
        with self.world.controller(status):
            rows = page.locator(".decisions tbody tr")
            expect(rows).to_have_count(2)
            expect(alarm).to_have_count(0)
            for words in ("4 \u2192 2", "from 4 GPUs on n1 to 2 GPUs on n1", "1500 W are for elastic jobs", "1005"):
                expect(rows.first).to_contain_text(words)
            expect(rows.last).to_contain_text(SCRIPT)
            # 700 W of its jobs and 500 W of others, of 2 kW.
            expect(page.locator(".tile").filter(has_text="Power against the budget")).to_contain_text("1.20\u00a0kW of 2.00\u00a0kW")
            # The chart of the power has it as a line, from when the controller was heard.
            power = page.locator("figure.chart").filter(has_text="Power of all GPUs")
            expect(power.locator(".legend")).to_contain_text("budget 2.00\u00a0kW")
            self.check("scheduler", page.locator("meter").get_attribute("value") == "1200", "the meter is another")
            queue = page.get_by_role("region", name="Jobs of the scheduler").locator("tbody tr")
            expect(queue.first).to_contain_text("running")
            expect(queue.last).to_contain_text("waiting")
            self.check("scheduler", page.evaluate("window.hostile === undefined"), "a kind was run")
            for width in (390, 1400):
                for scheme in ("light", "dark"):
                    other = self.open("", width, scheme)
                    expect(other.locator(".decisions tbody tr")).to_have_count(2)
                    self.wait_for_bars(other, {("n1", 0): JOB})
                    self.looked_at(other, f"cluster-{width}-{scheme}")
                    other.context.close()
        expect(alarm).to_be_visible()
        expect(rows).to_have_count(2)  # as it told last
        page.context.close()

    def silence(self):
        page = self.open("")
        alarm = page.locator(".alarms li").filter(has_text="n2")
        expect(page.locator(".tile").first).to_be_visible()
        expect(alarm).to_have_count(0)
        self.world.stop("agent-n2", signal.SIGKILL)
        expect(alarm).to_be_visible()
        page.screenshot(path=PICTURES / "silent.png", full_page=True)
        node = page.locator("tr").filter(has_text="n2")
        expect(node).to_contain_text("silent")
        expect(node.locator("td").nth(2)).to_have_text("–")  # its power is unknown, not zero
        self.world.start_agent("n2")
        expect(alarm).to_have_count(0)
        # The node's own page tells both, the newest first.
        node.get_by_role("link").click()
        events = page.locator(".events .state")
        expect(events.first).to_contain_text("state: answers")
        expect(events.nth(1)).to_contain_text("state: silent: ")
        page.screenshot(path=PICTURES / "silent-events.png", full_page=True)
        page.context.close()

    def restart(self):
        page = self.open("nodes/n1")
        expect(page.locator(".plot canvas").first).to_be_visible()
        before = self.world.ask("/v1/nodes/n1/history")["rows"]
        page.expected += ["Failed to load resource", "ERR_"]
        self.world.stop("server")
        expect(page.locator(".link")).to_have_text("no connection, trying again")
        expect(page.locator(".banner")).to_be_visible()
        self.check("restart", page.locator("table").first.locator("tbody tr").count() == 8, "what was known stays on the page")
        page.screenshot(path=PICTURES / "away.png")
        self.world.start_server()
        expect(page.locator(".link")).to_have_text("live")
        expect(page.locator(".banner")).to_have_count(0)
        after = self.world.ask("/v1/nodes/n1/history")["rows"]
        lost = {row["time_s"] for row in before} - {row["time_s"] for row in after}
        self.check("restart", len(lost) == 0, f"the history has lost {len(lost)} rows")
        page.context.close()

    def hostile(self):
        # A name as long as this is refused; the longest that is taken are below.
        try:
            self.world.ask("/v1/jobs", {"id": "long", "name": "x" * 10000, "stages": 2, "microbatches": 4,
                                        "token": secrets.token_hex(20)})
            self.check("hostile", False, "a name of 10,000 characters is taken")
        except AssertionError as error:
            self.check("hostile", "at most 256" in str(error), str(error))
        for name, text in HOSTILE.items():
            self.world.ask("/v1/jobs", {"id": name, "name": text, "stages": 2, "microbatches": 4,
                                        "token": secrets.token_hex(20)})
        for view in ("", "jobs", *(f"jobs/{name}" for name in HOSTILE), "jobs/%3Cscript%3E", "nodes/%E0%A4%A"):
            for width in (390, 1400):
                page = self.open(view, width)
                page.expected += ["404", "400"]
                expect(page.locator("h1")).to_be_visible()
                time.sleep(1.5)
                self.check("hostile", page.evaluate("window.hostile === undefined"), f"{view}: a name was run")
                self.check("hostile", page.locator("main script, main img").count() == 0, f"{view}: a name is markup")
                wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
                self.check("hostile", wide <= 0, f"{view} at {width} px is {wide} px too wide")
                if view == "jobs":
                    page.screenshot(path=PICTURES / f"hostile-{width}.png", full_page=True)
                page.context.close()
        for name in HOSTILE:
            request = self.world.request(f"/v1/jobs/{name}", method="DELETE")
            self.check("hostile", request == 204, f"deleting {name} gives {request}")


def main():
    prepare(LONG_MS)
    with World() as world, sync_playwright() as playwright:
        world.start_training(JOB, "--windows", "1000", "--straggler", "1")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        wait_until("a plan", lambda: world.job(JOB)["state"] == "ready")
        status = Tests(world, browser).run(sys.argv[1:] or NAMES)
        browser.close()
    return status


if __name__ == "__main__":
    sys.exit(main())
