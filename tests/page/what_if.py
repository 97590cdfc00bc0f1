"""The view of the planning server's page that plans what somebody wants to look at."""

import json
import subprocess

from playwright.sync_api import expect

from browser import WIDTHS
from world import BUILD

PROFILE = BUILD.parent / "examples" / "profiles" / "gpt3-1.3b-a100-4stage.csv"


def told_by(*command):
    said = subprocess.run([BUILD / "flyball", *command, "--format", "json"], check=True, capture_output=True)
    return json.loads(said.stdout)


def schedules():
    """Those that the program knows, by the message's description."""
    message = told_by("messages", "WhatIfRequest")
    return message["properties"]["schedule"]["oneOf"][0]["enum"]


def planners():
    plan = told_by("plan", PROFILE, "--microbatches", "2", "--planner", "all")
    return [one["planner"] for one in plan["planners"]]


class WhatIfTests:
    """Tests of a class that has a job's name (`job`), a hostile text (`script`), and open()."""

    # From a job's view to what other numbers and planners would do; the frontier is clicked, the timeline follows.
    def what_if(self):
        page = self.open(f"jobs/{self.job}")
        page.orders.append(f"POST {self.world.address}/v1/what-if")
        page.get_by_role("link", name="What other planners").click()
        expect(page.locator("h1")).to_have_text("What if")
        heading = page.locator(".timelines h3").nth(1)
        expect(heading).to_contain_text("perseus: ")
        expect(page.locator(".picker option")).to_have_count(len(planners()))
        offered = page.locator("form.what-if select").nth(1).locator("option").evaluate_all(
            "all => all.map(one => one.value)")
        self.check("schedules", sorted(offered) == sorted(["", *schedules()]), f"the form has {offered}")
        first = heading.text_content()
        plot = page.locator(".frontier-chart .plot")
        box = plot.bounding_box()
        plot.click(position={"x": box["width"] * .8, "y": box["height"] * .8})
        expect(heading).not_to_have_text(first)
        page.get_by_role("button", name="Back to the chosen plan").click()
        expect(heading).to_have_text(first)
        # Without a mouse: along the frontier, and to another planner's.
        slider = page.locator(".picker input")
        slider.focus()
        page.keyboard.press("End")
        expect(heading).not_to_have_text(first)
        page.keyboard.press("Home")
        page.locator(".picker select").focus()
        page.keyboard.press("End")
        expect(heading).to_contain_text(planners()[-1] + ": ")
        page.keyboard.press("Home")
        expect(heading).to_contain_text(planners()[0] + ": ")
        page.get_by_label("Microbatches").fill("40")
        page.keyboard.press("Enter")
        expect(heading).not_to_have_text(first)
        page.get_by_role("searchbox", name="Look for operations").fill("B39")
        expect(page.locator(".said")).to_contain_text("found")
        # The promise of the page: a point's timeline is there within a tenth of a second.
        self.goal("another plan's timeline", page.evaluate("""() => new Promise(done => {
          const slider = document.querySelector('.picker input');
          const begin = performance.now();
          slider.value = slider.max;
          slider.dispatchEvent(new Event('input'));
          requestAnimationFrame(() => setTimeout(() => done(performance.now() - begin)));
        })"""), 100)
        page.get_by_label("Chunks").fill("7")
        page.expected.append("400")
        page.keyboard.press("Enter")
        expect(page.locator(".alarm[role=status]")).to_contain_text("has not planned this")
        page.context.close()

    # A profile of one's own, at three widths, dark and light, and one that is none.
    def what_if_file(self):
        for width in WIDTHS:
            for scheme in ("light", "dark"):
                page = self.open("what-if", width, scheme)
                page.orders.append(f"POST {self.world.address}/v1/what-if")
                page.get_by_label("or a profile (CSV)").set_input_files(PROFILE)
                page.get_by_label("Microbatches").fill("8")
                page.get_by_role("button", name="Plan", exact=True).click()
                expect(page.locator(".picker option")).to_have_count(len(planners()))
                self.looked_at(page, f"what-if-{width}-{scheme}")
                if width == 390:
                    page.expected.append("400")
                    page.get_by_label("or a profile (CSV)").set_input_files(
                        {"name": "a.csv", "mimeType": "text/csv", "buffer": self.script.encode()})
                    page.get_by_role("button", name="Plan", exact=True).click()
                    expect(page.locator(".alarm[role=status]")).to_contain_text("the profile")
                    self.check("hostile", page.evaluate("window.hostile") is None, "a file has run as a script")
                page.context.close()
