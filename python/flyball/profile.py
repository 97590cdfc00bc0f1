"""Profiles: what they hold, fitted to recorded runs, or synthetic: `flyball profile` (docs/manual/profile.md). Options and
errors are as in flyball.planning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flyball._command import Run
from flyball._tables import table_of_csv
from flyball.planning import PathName, Result, _json, _result

__all__ = ["Fit", "fit", "show", "synth"]


class Fit(Result):
    """What fit() gives; result["fitted"] says what was found, and how well."""

    def __init__(self, text: str, folder: Path) -> None:
        super().__init__(text)
        self.profile = table_of_csv((folder / "profile.csv").read_text(encoding="utf-8"))
        """The profile, as flyball.plan() takes it: stage, instruction, frequency (MHz), time (s), energy (J), ..."""
        self.pipeline = (folder / "pipeline.toml").read_text(encoding="utf-8")
        """The pipeline file, for flyball.plan(..., pipeline=FILE)."""


def show(profile: Any) -> Result:
    """What a profile holds: result.table("operations") has a row for each operation, with its clocks and what it can save."""
    return _result("profile show", {"profile": profile}, {})


def fit(*runs: PathName, **options: Any) -> Fit:
    """A profile and a pipeline file from folders of recorded runs (docs/formats/runs.md). out: a folder to keep both."""
    with Run() as run:
        folder = options.pop("out", None) or run.folder / "out"
        named = {str(i): each for i, each in enumerate(runs)}
        return Fit(run("profile fit", named, {**options, "out": folder, "format": _json(options)}), Path(folder))


def synth(**options: Any) -> Any:
    """A synthetic profile, as a table that flyball.plan() takes; no measurement.

    flyball.profile.synth(gpu="a40", workload="bloom-3b", stages=8)
    """
    if options.get("list") or options.get("out"):
        return _result("profile synth", {}, options)
    with Run() as run:
        return table_of_csv(run("profile synth", {}, options))
