"""Plans, emulations, partitions and forecasts from Python: each function runs the command of its name in the package's own
program, and gives what that says with `--format json`.

Options are keyword arguments by the program's names, with `_` for `-`: `memory_limit=6` is `--memory-limit 6`, True an
option without a value, a list what stands between commas, a dict an option that is given once for each key. `flyball help
plan` lists them with their defaults. What the program refuses is a flyball.UsageError (a ValueError) or, where a file or
table is at fault, a flyball.InputError (a RuntimeError), in its own words; other failures are a flyball.DeviceError.

A table is a DataFrame of pandas or Polars, a structured array of NumPy, or a dict of columns, and may be given in place of
any file of CSV. Tables that are returned are DataFrames, or structured arrays where pandas is not installed. All may be
called from several threads; Ctrl-C ends the program, too.
"""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Union

from flyball import _native
from flyball._command import Run
from flyball._notebook import LARGEST_PAGE, framed
from flyball._tables import table_of, table_of_rows

PathName = Union[str, "os.PathLike[str]"]


class Result(Mapping[str, Any]):
    """The object that the command prints with `--format json`; its page of the manual says what is in it."""

    def __init__(self, text: str) -> None:
        self.json = text
        """The object as text."""
        try:
            self._document: dict[str, Any] = json.loads(text)
        except json.JSONDecodeError:
            raise _native.UsageError(f"with these options the program prints no result, but:\n{text[:2000]}") from None

    def __getitem__(self, key: str) -> Any:
        return self._document[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._document)

    def __len__(self) -> int:
        return len(self._document)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {', '.join(self)}>"

    def table(self, key: str) -> Any:
        """One of the object's lists as a table: result.table("emulations"). What nests has names such as
        `pipeline_saving_pct`. Raises KeyError where there is no such list."""
        rows = self._document[key]
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise KeyError(f"{key} is no list of objects")
        return table_of_rows(rows)


class Plan(Result):
    """What flyball.plan() gives: the frontier of an iteration's time and energy, and the plan that was chosen on it.

    As a mapping it is the object of `flyball plan --format json`, in seconds and joules: plan["selected"]["energy"].
    Energies are those of one iteration of one pipeline with one GPU per stage. In a notebook it shows its report.
    """

    def __init__(self, text: str, folder: Path) -> None:
        super().__init__(text)
        self.plan_json = (folder / "plan.json").read_text(encoding="utf-8")
        """The plan file (docs/formats/plan.md): every point, with clock changes that are free."""
        reduced = folder / "plan-switching.json"
        self.reduced_json = reduced.read_text(encoding="utf-8") if reduced.exists() else None
        """The chosen plan with few clock changes, as a plan file; None where changes are free."""
        self.page = (folder / "report.html").read_text(encoding="utf-8")
        """The report, as a page that needs no network."""

    def __repr__(self) -> str:
        chosen = self["selected"]
        reduced = self.get("switching", {}).get("reduced")
        few = f"; with {reduced['switches']} clock changes {reduced['saving_pct']:.2f} %" if reduced else ""
        slower = round(chosen["slowdown_pct"], 2) + 0.0  # and no -0.00
        return (f"{self['planner']}: {chosen['time']:.4f} s, {chosen['energy']:.1f} J per iteration, {slower:.2f} % slower "
                f"than maximum clocks, saves {chosen['saving_pct']:.2f} %{few}")

    @cached_property
    def frontier(self) -> Any:
        """A row for each point, in rising time: time_s, energy_j, and lower_bound_j, which no plan that takes no longer
        can beat; NaN where the planner has no bound."""
        points = self["frontier"]
        bounds = [point["lower_bound"] for point in points]
        return table_of({
            "time_s": [point["time"] for point in points],
            "energy_j": [point["energy"] for point in points],
            "lower_bound_j": [float("nan") if bound is None else bound for bound in bounds],
        })

    @cached_property
    def clocks(self) -> Any:
        """The plan to run, a row for each operation of an iteration, as in schedule(). Where clock changes cost
        something, it is the plan with few of them (`reduced` in the program's table)."""
        return self.schedule()

    def schedule(self, stage: int | None = None, *, point: int | None = None) -> Any:
        """The operations of an iteration, each stage's in the order in which it runs them: stage, instruction,
        microbatch (-1: of the whole iteration), chunk, clock_mhz (0: as it is), time_s, energy_j.

        stage: of this one alone. point: by the plan of this row of the frontier, for clock changes that are free; None
        is the plan to run. Raises UsageError for a stage or a point that is not there.
        """
        plan = self._frontier_file if point is not None or self._reduced_file is None else self._reduced_file
        point = plan["selected"] if point is None else point
        for name, value, count in ("stage", stage, plan["stages"]), ("point", point, len(plan["points"])):
            if value is not None and not 0 <= value < count:
                raise _native.UsageError(f"plan: {name} {value} is not there; there are 0 to {count - 1}")
        operations = plan["operations"]
        kinds = {(kind["stage"], kind["instruction"]): kind for kind in plan["types"]}
        rows = []
        for i, option in enumerate(_options_at(plan, point)):
            operation = operations[i]
            if stage is None or operation["stage"] == stage:
                options = kinds[operation["stage"], operation["instruction"]]["options"]
                rows.append((operation, next(one for j, one in enumerate(options)
                                             if option in ((one["clock_mhz"], None), (one["clock_mhz"], j)))))
        rows.sort(key=lambda row: row[0]["stage"])
        return table_of({
            "stage": [operation["stage"] for operation, _ in rows],
            "instruction": [operation["instruction"] for operation, _ in rows],
            "microbatch": [operation.get("microbatch", -1) for operation, _ in rows],
            "chunk": [operation.get("chunk", 0) for operation, _ in rows],
            "clock_mhz": [option["clock_mhz"] for _, option in rows],
            "time_s": [option["time_s"] for _, option in rows],
            "energy_j": [option["energy_j"] for _, option in rows],
        })

    @cached_property
    def _frontier_file(self) -> dict[str, Any]:
        return dict(json.loads(self.plan_json))

    @cached_property
    def _reduced_file(self) -> dict[str, Any] | None:
        return None if self.reduced_json is None else dict(json.loads(self.reduced_json))

    def save(self, path: PathName, *, reduced: bool = False) -> None:
        """Writes the plan file, which sessions, `flyball emulate --plan` and `flyball forecast --plan` read. reduced: the
        chosen plan with few clock changes in place of the frontier; UsageError where changes are free."""
        text = self.reduced_json if reduced else self.plan_json
        if text is None:
            raise _native.UsageError("plan: clock changes are free in this plan, so that none is reduced")
        Path(path).write_text(text, encoding="utf-8")

    def report(self, path: PathName) -> None:
        """Writes the report: pictures and tables in one file of HTML."""
        Path(path).write_text(self.page, encoding="utf-8")

    def _repr_html_(self) -> str:
        """In a notebook: the report in a frame of its own, or one line where it is too large for that."""
        if len(self.page) <= LARGEST_PAGE:
            return framed(self.page, "plan")
        return f"<p>{html.escape(repr(self))}</p>"


def _options_at(plan: dict[str, Any], point: int) -> list[tuple[float, int | None]]:
    """Of each operation at a point: the clock, and where several options have one clock the option's place."""
    first = plan["points"][0]
    places = first.get("options", [None] * len(plan["operations"]))
    found = list(zip(first["clocks_mhz"], places))
    for later in plan["points"][1 : point + 1]:
        for operation, clock, *place in later["edits"]:
            found[operation] = (clock, place[0] if place else None)
    return found


def plan(profile: Any, **options: Any) -> Plan:
    """Plans an iteration: `flyball plan` (docs/manual/plan.md).

        plan = flyball.plan("profile.csv", microbatches=32, planner="joint", memory_limit=6)
        plan["selected"]["saving_pct"], plan.frontier, plan.clocks
        plan.save("plan.json")

    profile: a file or a table with the columns stage, instruction, frequency (MHz), time (s), energy (J). out: a folder
    for all files that the program writes. Takes milliseconds to seconds (docs/performance.md).
    """
    with Run() as run:
        folder = options.pop("out", None) or run.folder / "out"
        return Plan(run("plan", {"profile": profile}, {**options, "out": folder, "format": _json(options)}), Path(folder))


def emulate(profile: Any = None, **options: Any) -> Result:
    """What planning saves in a job of many pipelines: `flyball emulate` (docs/manual/emulate.md). Joules per iteration.

        flyball.emulate("profile.csv", microbatches=32, pipelines=16, straggler=[1.1, 1.2]).table("emulations")
        flyball.emulate("profile.csv", microbatches=32, plan=plan)["saving_pct"]

    profile: as for plan(); None with `against`, recorded runs. plan: a Plan, or a file.
    """
    return _result("emulate", {"profile": profile}, options)


def partition(latencies: Any, **options: Any) -> Result:
    """Layers to stages of least imbalance: `flyball partition` (docs/manual/partition.md).

        flyball.partition({"layer": ["embedding", "block", "head"], "time": [0.1, 0.3, 0.2]}, stages=2)["bounds"]

    latencies: a file or a table with the columns layer and time (s), in the model's order.
    """
    return _result("partition", {"latencies": latencies}, options)


def forecast(run: PathName | None = None, **options: Any) -> Result:
    """What a training run will take: `flyball forecast` (docs/manual/forecast.md). Seconds and joules as there.

        flyball.forecast("run.toml", epochs=100, price=0.25)
        flyball.forecast(plan=plan, iterations=250000, carbon=380)
        flyball.forecast(gpu="h100", gpus=512, params="70B", tokens="2T")["site_kwh"]["middle"]

    run: a RUN.toml. Without it, and without `plan` and `cluster`, it is `flyball forecast estimate`, from GPU, parameters
    and tokens.
    """
    estimated = run is None and options.get("plan") is None and options.get("cluster") is None
    return _result("forecast estimate" if estimated else "forecast", {"run": run}, options)


def _result(command: str, arguments: Mapping[str, Any], options: Mapping[str, Any]) -> Result:
    with Run() as run:
        return Result(run(command, arguments, {**options, "format": _json(options)}))


def _json(options: Mapping[str, Any]) -> str:
    if options.get("format", "json") != "json":
        raise _native.UsageError(f"format is json here; for {options['format']!r} use the command flyball")
    return "json"
