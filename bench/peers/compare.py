"""Compares Flyball's frontier with the published solver's on the same profile and prints Markdown.

Reads what `flyball plan ... --format json` and peer_lowtime.py wrote. Energies are compared net of blocking
(Perseus eq. 4: e - P t summed), the part that a plan decides once the iteration time is given. Bounds at the
fastest points are computed here as linear programs (lp_bound.py), so neither side is its own judge.
"""

from __future__ import annotations

import argparse
import json
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pipeline as pl
from lp_bound import RelaxedProgram

TIME_TOLERANCE = 1e-9  # s
ENERGY_TOLERANCE = 1e-9  # relative, of the larger of the two
BOUND_TOLERANCE = 1e-6  # relative
BOUND_SAMPLES = 9


@dataclass
class Side:
    """One planner's realised points, sorted by time: (time s, net energy J)."""

    points: list[tuple[float, float]]
    fastest_above: float = 0.0  # of true T_min, as a fraction
    gap: float = (
        0.0  # of the fastest point above the relaxed optimum at its time, as a fraction, blocking included
    )
    dominated: int = 0
    duplicates: int = 0


@dataclass
class Case:
    name: str
    operations: int
    t_min: float
    ours: Side
    peer: Side
    our_document: dict
    peer_document: dict
    python_document: dict | None
    lp_seconds: float = 0.0
    bound_excess: float = 0.0  # worst (our bound / LP - 1) over samples, signed
    bound_slack: float = 0.0  # worst (1 - our bound / LP) over samples, signed
    violations: list[str] = field(default_factory=list)


def count_dominated(points: list[tuple[float, float]]) -> tuple[int, int]:
    """How many points another one dominates (no slower, no more energy), and how many repeat another."""
    dominated = duplicates = 0
    best = float("inf")
    last = None
    for time, net in sorted(points):
        if (
            last is not None
            and time - last[0] <= TIME_TOLERANCE
            and abs(net - last[1]) <= slack(net, last[1])
        ):
            duplicates += 1
            continue
        if net >= best - slack(net, best):
            dominated += 1
            continue
        best, last = net, (time, net)
    return dominated, duplicates


def slack(a: float, b: float) -> float:
    finite = [abs(x) for x in (a, b) if x != float("inf")]
    return ENERGY_TOLERANCE * max(finite)


def violations_of(ours: list[tuple[float, float]], peer: list[tuple[float, float]]) -> list[str]:
    """Peer points for which no point of ours is as fast and needs no more net energy."""
    ours = sorted(ours)
    times = [time for time, _ in ours]
    least = []
    for _, net in ours:
        least.append(min(net, least[-1]) if least else net)
    found = []
    for time, net in sorted(peer):
        at = bisect_right(times, time + TIME_TOLERANCE)
        if at == 0:
            found.append(f"at {time:.6f} s: no point of ours is so fast (our fastest {times[0]:.6f} s)")
        elif least[at - 1] > net + slack(net, least[at - 1]):
            excess = least[at - 1] - net
            found.append(
                f"at {time:.6f} s: ours {least[at - 1]:.4f} J net, peer {net:.4f} J "
                f"({excess:.4f} J more, {100 * excess / abs(net):.4f} %)"
            )
    return found


def compare(name: str, profile_path: str, our_path: str, peer_path: str, python_path: str | None) -> Case:
    our_document, peer_document = load(our_path), load(peer_path)
    python_document = load(python_path) if python_path else None
    inputs = peer_document["inputs"]
    if inputs["profile_sha256"] != pl.digest(profile_path):
        raise pl.InputError(f"{peer_path}: made from another profile than {profile_path}; run the peer again")
    if not peer_document["points"] or not our_document.get("frontier"):
        raise pl.InputError(f"{name}: a frontier without points cannot be compared")
    power, stages = inputs["blocking_power_w"], peer_document["stages"]
    blocking = power * stages
    profile = pl.read_profile(profile_path)
    shape = pl.build_1f1b(pl.count_stages(profile), inputs["microbatches"])
    program = RelaxedProgram(shape, profile, power)
    t_min = pl.fastest_makespan(shape, profile)

    frontier = sorted(our_document["frontier"], key=lambda p: p["time"])
    ours = Side([(p["time"], p["energy"] - blocking * p["time"]) for p in frontier])
    peer = Side(sorted((p["time"], p["net_energy"]) for p in peer_document["points"]))
    case = Case(name, len(shape.operations), t_min, ours, peer, our_document, peer_document, python_document)

    for side in (ours, peer):
        time, net = min(side.points)
        bound = program.solve(max(time, t_min * (1 + 1e-12)))
        case.lp_seconds = max(case.lp_seconds, bound["seconds"])
        side.fastest_above = time / t_min - 1
        side.gap = (net + blocking * time) / bound["energy"] - 1
        side.dominated, side.duplicates = count_dominated(side.points)

    steps = min(BOUND_SAMPLES, len(frontier))
    case.bound_excess = case.bound_slack = -float("inf")
    for k in range(steps):
        point = frontier[k * (len(frontier) - 1) // max(1, steps - 1)]
        bound = program.solve(max(point["time"], t_min * (1 + 1e-12)))["energy"]
        case.bound_excess = max(case.bound_excess, point["lower_bound"] / bound - 1)
        case.bound_slack = max(case.bound_slack, 1 - point["lower_bound"] / bound)
    case.violations = violations_of(ours.points, peer.points)
    return case


def load(path: str) -> dict:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise pl.InputError(f"{path}: cannot be read ({error.strerror})") from error
    except json.JSONDecodeError as error:
        raise pl.InputError(f"{path}:{error.lineno}:{error.colno}: not JSON ({error.msg})") from error


def table(headings: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def speed_row(case: Case) -> list[str]:
    planning = median(case.our_document["planning_seconds"])
    command = median(case.our_document["command_seconds"])
    peer = case.peer_document
    compiled, peer_command = peer["solve_seconds_whole"], peer["command_seconds_whole"]
    python, how = None, ""
    if "python_sample" in peer:
        python, how = peer["python_sample"]["estimated_python_seconds"], " (sampled)"
    if case.python_document is not None and (python is None or case.python_document["finished"]):
        python = case.python_document["solve_seconds_whole"]
        how = "" if case.python_document["finished"] else " (extrapolated)"
    extrapolated = " (extrapolated)" if peer["solve_seconds_extrapolated"] else ""
    return [
        case.name,
        str(case.operations),
        f"{planning:.4f}",
        f"{command:.3f}",
        f"{compiled:.2f}{extrapolated}",
        f"{peer_command:.2f}{extrapolated}",
        ratio(compiled, planning),
        ratio(peer_command, command),
        "-" if python is None else f"{python:.0f}{how}",
        "-" if python is None else ratio(python, planning),
        f"{case.lp_seconds:.3f}",
        f"{case.our_document['stats']['peak_rss_mb']:.0f} / {peer['peak_rss_mb']:.0f}",
    ]


def ratio(theirs: float, ours: float) -> str:
    return f"{theirs / ours:.0f}" if ours > 0 else "-"


def quality_row(case: Case) -> list[str]:
    ours, peer = case.ours, case.peer
    return [
        case.name,
        f"{len(ours.points)} / {len(peer.points)}",
        f"{case.t_min:.6f}",
        f"{100 * ours.fastest_above:+.3f} / {100 * peer.fastest_above:+.3f}",
        f"{100 * ours.gap:.3f} / {100 * peer.gap:.3f}",
        f"{ours.dominated} + {ours.duplicates} / {peer.dominated} + {peer.duplicates}",
        f"{case.bound_excess:+.1e} / {case.bound_slack:+.1e}",
        str(len(case.violations)),
    ]


def report(cases: list[Case], most: int) -> str:
    version = cases[0].peer_document["version"]
    text = [
        f"Times on one core, lowtime {version} on {cases[0].peer_document['machine']['processor']}, "
        f"medians of Flyball's {len(cases[0].our_document['command_seconds'])} runs:",
        "",
        table(
            [
                "workload",
                "computations",
                "Flyball: planning, wall clock, s",
                "whole command, processor, s",
                "lowtime: solving, processor, s",
                "whole command, processor, s",
                "ratio, planning's wall clock",
                "ratio, processor time of the commands",
                "lowtime in pure Python, s",
                "ratio",
                "one T as an LP, s",
                "peak memory, MB (Flyball / lowtime)",
            ],
            [speed_row(case) for case in cases],
        ),
        "",
        "Frontier, realised with measured options (Flyball / lowtime):",
        "",
        table(
            [
                "workload",
                "points",
                "true T_min, s",
                "fastest point above T_min, %",
                "its energy above the bound, %",
                "dominated + repeated points",
                "Flyball's bound over / under the LP, worst, relative",
                "lowtime points not matched",
            ],
            [quality_row(case) for case in cases],
        ),
    ]
    for case in cases:
        if not case.peer_document["finished"]:
            text += [
                "",
                f"{case.name}: lowtime was stopped at {case.peer_document['points_done']} of "
                f"{case.peer_document['points_expected']} points; its row covers those alone.",
            ]
        if case.bound_excess > BOUND_TOLERANCE:
            text += ["", f"{case.name}: our lower bound exceeds the LP's optimum; it is not a lower bound."]
        if case.violations:
            text += [
                "",
                f"{case.name}: {len(case.violations)} lowtime points that no point of ours matches:",
                "",
            ]
            text += [f"- {line}" for line in case.violations[:most]]
            if len(case.violations) > most:
                text.append(f"- and {len(case.violations) - most} more")
    return "\n".join(text)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--case",
        nargs=4,
        action="append",
        required=True,
        metavar=("NAME", "PROFILE", "OURS", "PEER"),
        help="name, profile CSV, our JSON, the peer's JSON; may be repeated",
    )
    parser.add_argument(
        "--python",
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "PEER"),
        help="the peer's pure-Python run for a case",
    )
    parser.add_argument("--violations", type=int, default=20, help="how many to list per case (default 20)")
    parser.add_argument(
        "--strict", action="store_true", help="exit status 1 if a lowtime point is not matched"
    )
    args = parser.parse_args(argv)
    python = dict(args.python)
    cases = [compare(*case, python.get(case[0])) for case in args.case]
    print(report(cases, args.violations))
    failed = any(case.violations or case.bound_excess > BOUND_TOLERANCE for case in cases)
    return 1 if args.strict and failed else 0


if __name__ == "__main__":
    pl.run_main(main)
