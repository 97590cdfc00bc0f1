#!/usr/bin/env python3
"""The tables of MC2 (2024), computed with flyball forecast, beside the printed figures.

    python3 bench/forecast_tables.py --program build/flyball                                   # print
    python3 bench/forecast_tables.py --program build/flyball --write docs/forecast-tables.md   # rewrite in place
    python3 bench/forecast_tables.py --program build/flyball --check docs/forecast-tables.md   # fail where they differ

Only the printed figures are stored here. In the document the table stands between `<!-- table -->` and
`<!-- end of table -->`; only what is between is rewritten. Standard library only.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import document_table

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples" / "forecast"
ACTIVE = '# active = ["processor", "memory"]'  # in vit-mt128.toml

AGREES = "agrees to rounding"


def forecast(program: Path, run: Path, epochs: int = 1) -> dict:
    command = [str(program), "forecast", str(run), "--epochs", str(epochs), "--format", "json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def part(result: dict, *names: str) -> float:
    return sum(group["parts"].get(name, 0.0) for group in result["stages"].values() for name in names)


def printed_preprocessing(result: dict) -> float:
    """The printed rows count the model's way in and out to preprocessing."""
    return result["stages"]["preprocess"]["kwh"] + part(result, "model_in_out")


def vgg(program: Path, name: str, printed: tuple, total: float, hundred: float, why_total: str):
    one = forecast(program, EXAMPLES / f"{name}.toml")
    many = forecast(program, EXAMPLES / f"{name}.toml", 100)
    yield "preprocessing, model in and out", printed[0], printed_preprocessing(one), 4, (
        AGREES if round(printed_preprocessing(one), 4) == printed[0] else "printed one unit lower in the last place")
    yield "forward and backward", printed[1], part(one, "forward", "backward"), 4, AGREES
    yield "communication, update, wait", printed[2], one["stages"]["communicate"]["kwh"], 4, AGREES
    yield "total", total, one["total_kwh"], 4, why_total
    yield "100 epochs", hundred, many["total_kwh"], 2, "loading and preprocessing charged once, as printed"


def vit(program: Path):
    run = EXAMPLES / "vit-mt128.toml"
    one = forecast(program, run)
    yield "data set-up", 0.065546674, part(one, "set_dataset"), 4, "printed with an active processor, eq. 42 has it idle"
    for name, printed in (("load_data", 0.003275884), ("preprocess", 0.00874608), ("model_in_out", 0.00294816),
                          ("forward", 0.672223157), ("backward", 1.552972412), ("communication", 0.10202448),
                          ("update", 0.080256)):
        yield name.replace("_", " "), printed, part(one, name), 4, AGREES
    yield "wait", None, part(one, "wait"), 4, "not printed, but in the printed total"
    yield "total, eq. 42", 2.5120, one["total_kwh"], 4, "the data set-up"
    text = run.read_text(encoding="utf-8")
    if ACTIVE not in text:
        sys.exit(f"{run}: the line '{ACTIVE}' is gone")
    with tempfile.TemporaryDirectory() as folder:
        changed = Path(folder) / "vit.toml"
        changed.write_text(text.replace(ACTIVE, ACTIVE[2:]), encoding="utf-8")
        yield "total, data set-up as printed", 2.5120, forecast(program, changed)["total_kwh"], 4, AGREES


def disk_and_network(program: Path):
    """What section 3.3.1 leaves out of table 7, for 100 epochs: 5.6 W a disk and 10 W a network device, while they work.

    Unlike there, and as the printed share of time has it (below 8 %), the data set is indexed and loaded in every epoch.
    """
    text = (EXAMPLES / "vgg16-mt128.toml").read_text(encoding="utf-8")
    for stage in ("set_dataset", "load_data"):
        text = re.sub(rf'(\[nodes\.stage\.{stage}\]\nseconds = [\d.]+\nper = )"run"', r'\1"epoch"', text)
    powers = "memory = { active = 75, idle = 18.75 }\n"
    if powers not in text or text.count('per = "run"') != 2:
        sys.exit(f"{EXAMPLES}/vgg16-mt128.toml: its stages or powers have changed")
    more = "disk = { active = 5.6, idle = 0 }\nnetwork = { active = 10, idle = 0 }\n"
    with tempfile.TemporaryDirectory() as folder:
        changed = Path(folder) / "vgg.toml"
        changed.write_text(text.replace(powers, powers + more), encoding="utf-8")
        components = forecast(program, changed, 100)["components"]
    exchanged = "as if printed the other way round: {} kWh are {} W x {} of 100 x 60.28 s x 128"
    yield "network, 100 epochs", 0.096, components["network"], 3, exchanged.format("0.077", "10", "3.6 %")
    yield "disks, 100 epochs", 0.077, components["disk"], 3, exchanged.format("0.096", "5.6", "8 %")


def resnet(program: Path):
    one = forecast(program, EXAMPLES / "resnet50-mt128.toml")
    for name, printed, computed in (
        ("preprocessing, model in and out", 6.28, printed_preprocessing(one)),
        ("forward and backward", 64.69, part(one, "forward", "backward")),
        ("communication, update, wait", 6.47, one["stages"]["communicate"]["kwh"]),
        ("total", 77.44, one["total_kwh"]),
    ):
        share = 100 * printed / computed
        yield name, printed, computed, 2, (
            AGREES if share > 99.9 else f"not explained: printed are {share:.1f} % of eq. 42 on tables 3 and 9")


def table(program: Path) -> str:
    cases = {
        "VGG16, 128 MT nodes": vgg(program, "vgg16-mt128", (0.0205, 0.2399, 0.0139), 0.2743, 25.39,
                                   "printed is the sum of the rounded rows"),
        "the same, disks and network": disk_and_network(program),
        "VGG16, 32 FT nodes": vgg(program, "vgg16-ft32", (0.0023, 0.1507, 0.0070), 0.1600, 15.77, AGREES),
        "ViT, 128 MT nodes": vit(program),
        "ResNet50, 128 MT nodes": resnet(program),
    }
    lines = ["| case | quantity | printed kWh | computed kWh | difference % | why |",
             "| --- | --- | --: | --: | --: | --- |"]
    for case, rows in cases.items():
        for quantity, printed, computed, decimals, why in rows:
            shown = "" if printed is None else f"{printed:.{decimals}f}"
            change = "" if printed is None else f"{100 * (computed / printed - 1):+.2f}"
            lines.append(f"| {case} | {quantity} | {shown} | {computed:.{decimals}f} | {change} | {why} |")
            case = ""
    return "\n".join(lines)


if __name__ == "__main__":
    document_table.run("bench/forecast_tables.py", __doc__, table)
