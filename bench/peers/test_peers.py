"""Checks of the comparison itself: python -m unittest discover bench/peers (in build/peers-venv)."""

import itertools
import json
import sys
import tempfile
import unittest
from pathlib import Path

import compare
import numpy as np
import pipeline as pl
import run_flyball
from discrete_bound import Program, choices_of
from lp_bound import RelaxedProgram

POWER = 75.0


def small_profile() -> pl.Profile:
    """Two stages; convex, so that every option lies on the hull."""

    def options(scale: float) -> list[pl.Option]:
        return [
            pl.Option(1410, 0.010 * scale, 4.0 * scale),
            pl.Option(1200, 0.012 * scale, 3.4 * scale),
            pl.Option(1000, 0.015 * scale, 3.2 * scale),
        ]

    return {
        (0, "forward"): options(1.0),
        (0, "backward"): options(2.0),
        (1, "forward"): options(1.3),
        (1, "backward"): options(2.2),
    }


class Pipeline(unittest.TestCase):
    def test_order_of_three_stages_and_four_microbatches(self):
        def text(stage: int) -> str:
            return " ".join(f"{name[0]}{m}" for name, m in pl.stage_order_1f1b(stage, 3, 4))

        self.assertEqual(text(0), "f0 f1 f2 b0 f3 b1 b2 b3")
        self.assertEqual(text(1), "f0 f1 b0 f2 b1 f3 b2 b3")
        self.assertEqual(text(2), "f0 b0 f1 b1 f2 b2 f3 b3")

    def test_fewer_microbatches_than_stages(self):
        self.assertEqual(
            pl.stage_order_1f1b(0, 4, 2), [("forward", 0), ("forward", 1), ("backward", 0), ("backward", 1)]
        )

    def test_balanced_makespan(self):
        # N equal stages: (M + N - 1) (t_f + t_b).
        for stages, microbatches in ((1, 3), (2, 2), (4, 8), (4, 2)):
            shape = pl.build_1f1b(stages, microbatches)
            times = np.array([[1.0 if op.instruction == "forward" else 2.0] for op in shape.operations])
            self.assertAlmostEqual(pl.makespan(shape, times)[0], (microbatches + stages - 1) * 3.0)

    def test_replay_counts_blocking(self):
        profile = small_profile()
        shape = pl.build_1f1b(2, 1)
        clocks = np.full((4, 1), 1410)
        real = pl.replay(shape, profile, clocks, POWER)
        # 10 + 13 + 22 + 20 ms on one path; each stage blocks while the other computes.
        self.assertAlmostEqual(real["time"][0], 0.065)
        self.assertAlmostEqual(real["energy"][0], 4.0 * 6.5 + POWER * 0.065)

    def test_hull_leaves_out_what_lies_above_it(self):
        options = [
            pl.Option(3, 1.0, 10.0),
            pl.Option(2, 2.0, 9.5),
            pl.Option(1, 3.0, 4.0),
            pl.Option(0, 4.0, 5.0),
        ]
        self.assertEqual(pl.lower_hull(options, 0.0), [(1.0, 10.0), (3.0, 4.0)])


class Bound(unittest.TestCase):
    def test_bound_is_tight_at_the_ends_and_below_every_plan(self):
        profile = small_profile()
        shape = pl.build_1f1b(2, 2)
        program = RelaxedProgram(shape, profile, POWER)
        n = len(shape.operations)
        clocks = np.array(list(itertools.product((1410, 1200, 1000), repeat=n))).T
        real = pl.replay(shape, profile, clocks, POWER)
        t_min = pl.fastest_makespan(shape, profile)
        self.assertAlmostEqual(real["time"].min(), t_min)
        for time in np.linspace(t_min, real["time"].max(), 7):
            bound = program.solve(time * (1 + 1e-12))["net_energy"]
            best = real["net_energy"][real["time"] <= time + 1e-12].min()
            self.assertLessEqual(bound, best + 1e-7)
        self.assertAlmostEqual(
            bound, real["net_energy"].min()
        )  # At the slowest time nothing is traded any more.

    def test_relaxation_mixes_two_clocks(self):
        # Half of the forward's first stretch is allowed: half-way between two options.
        profile = {
            (0, "forward"): small_profile()[0, "forward"],
            (0, "backward"): [pl.Option(1410, 0.02, 8.0)],
        }
        program = RelaxedProgram(pl.build_1f1b(1, 1), profile, POWER)
        self.assertAlmostEqual(program.solve(0.031)["net_energy"], 3.7 - POWER * 0.011 + 8.0 - POWER * 0.02)


class DiscreteBound(unittest.TestCase):
    def test_is_the_best_of_all_plans(self):
        profile = small_profile()
        shape = pl.build_1f1b(2, 2)
        choices = [choices_of(profile[op.stage, op.instruction], POWER) for op in shape.operations]
        clocks = np.array(list(itertools.product((1410, 1200, 1000), repeat=len(choices)))).T
        real = pl.replay(shape, profile, clocks, POWER)
        t_min = pl.fastest_makespan(shape, profile)
        for stretch in (1.02, 1.06, 1.2):
            longest = stretch * t_min
            best = real["energy"][real["time"] <= longest + 1e-9].min()
            program = Program(shape, choices, longest, 2 * POWER)
            relaxed, raised = program.relaxed()
            bound, found = program.discrete(60.0)
            self.assertLessEqual(relaxed, best + 1e-7)
            self.assertAlmostEqual(bound, best, delta=1e-5 * best)
            self.assertAlmostEqual(found, best, delta=1e-5 * best)
            # What is left out where a plan as good as the best is known is in no such plan.
            room = best - relaxed + 1e-6
            left = [[c for c, more in zip(of, by) if more <= room] for of, by in zip(choices, raised)]
            self.assertAlmostEqual(Program(shape, left, longest, 2 * POWER).discrete(60.0)[1], best, delta=1e-5 * best)


class Accounts(unittest.TestCase):
    def test_child_is_charged_for_what_it_computes(self):
        # The child's own account of its time, which it prints, is a part of what the system charges to it.
        code = """
import json, time
while time.process_time() < 0.1: pass
print(json.dumps({"stats": {"solve_seconds": time.process_time()}}))"""
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "o.json"
            run_flyball.main(["--runs", "2", "--out", str(out), "--", sys.executable, "-c", code])
            document = json.loads(out.read_text())
        self.assertEqual(len(document["command_seconds"]), 2)
        for whole, inside in zip(document["command_seconds"], document["planning_seconds"]):
            self.assertGreaterEqual(whole, inside - 0.011)  # accounts may be kept by ticks of 10 ms
        with self.assertRaises(pl.InputError):
            run_flyball.run_once(["false"])


class Comparison(unittest.TestCase):
    def test_dominated_and_repeated(self):
        points = [(1.0, 10.0), (1.1, 10.0), (1.2, 9.0), (1.2, 9.0), (1.3, 9.5), (1.4, 8.0)]
        self.assertEqual(compare.count_dominated(points), (2, 1))

    def test_violations(self):
        ours = [(1.0, 10.0), (1.2, 9.0)]
        self.assertEqual(compare.violations_of(ours, [(1.0, 10.0), (1.1, 10.5), (1.3, 9.0)]), [])
        found = compare.violations_of(ours, [(0.9, 20.0), (1.1, 9.9), (1.2, 8.9)])
        self.assertEqual(len(found), 3)
        self.assertIn("no point of ours is so fast", found[0])

    def test_report_from_files(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            profile = small_profile()
            (root / "p.csv").write_text(
                "# made by hand\nstage,instruction,frequency,time,energy\n"
                + "".join(
                    f"{stage},{name},{o.frequency},{o.time},{o.energy}\n"
                    for (stage, name), options in profile.items()
                    for o in options
                )
            )
            shape = pl.build_1f1b(2, 2)
            program = RelaxedProgram(shape, profile, POWER)
            fast = pl.replay(shape, profile, np.full((8, 1), 1410), POWER)
            time, energy = float(fast["time"][0]), float(fast["energy"][0])
            bound = program.solve(time * (1 + 1e-12))["energy"]
            ours = {
                "frontier": [{"time": time, "energy": energy, "lower_bound": bound}],
                "stats": {"solve_seconds": 0.001, "peak_rss_mb": 5.0},
                "planning_seconds": [0.0009, 0.001, 0.003],
                "command_seconds": [0.004, 0.002, 0.005],
            }
            peer = {
                "version": "0",
                "inputs": {
                    "profile_sha256": pl.digest(root / "p.csv"),
                    "blocking_power_w": POWER,
                    "microbatches": 2,
                },
                "machine": {"processor": "test"},
                "stages": 2,
                "finished": True,
                "solve_seconds_whole": 1.0,
                "command_seconds_whole": 3.0,
                "solve_seconds_extrapolated": False,
                "peak_rss_mb": 50.0,
                "points": [{"time": time, "net_energy": energy - POWER * 2 * time - 1.0}],
            }
            (root / "o.json").write_text(json.dumps(ours))
            (root / "q.json").write_text(json.dumps(peer))
            case = compare.compare(
                "hand", str(root / "p.csv"), str(root / "o.json"), str(root / "q.json"), None
            )
            self.assertAlmostEqual(case.ours.gap, energy / bound - 1)
            self.assertAlmostEqual(case.peer.gap, (energy - 1.0) / bound - 1)
            self.assertLess(abs(case.bound_excess), 1e-9)
            self.assertEqual(len(case.violations), 1)
            text = compare.report([case], 5)
            # Medians of 1 and 4 ms: 1 s of solving and 3 s of the whole command are 1,000 and 750 times longer.
            self.assertIn("| hand | 8 | 0.0010 | 0.004 | 1.00 | 3.00 | 1000 | 750 |", text)
            ours["frontier"][0]["lower_bound"] = bound * 1.001
            (root / "o.json").write_text(json.dumps(ours))
            case = compare.compare(
                "hand", str(root / "p.csv"), str(root / "o.json"), str(root / "q.json"), None
            )
            self.assertIn("it is not a lower bound", compare.report([case], 5))


if __name__ == "__main__":
    unittest.main()
