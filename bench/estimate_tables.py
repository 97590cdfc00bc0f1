#!/usr/bin/env python3
"""flyball forecast estimate beside published trainings, none of which its spreads were taken from.

    python3 bench/estimate_tables.py --program build/flyball                                        # print
    python3 bench/estimate_tables.py --program build/flyball --write docs/forecast-estimates.md     # rewrite in place
    python3 bench/estimate_tables.py --program build/flyball --check docs/forecast-estimates.md  # fail on differences

Only the printed figures are stored here. The estimates get the GPU, the parameters and the tokens, nothing else; a
site's PUE where the printed energy has it. The factors are those of decision 113: with a figure beyond, it exits 1.
Standard library only.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import document_table


HOURS_FACTOR = 2.5
ENERGY_FACTOR = 3.0

LLAMA1 = "Touvron et al. 2023, arXiv 2302.13971, tables 2 and 15"
LLAMA2 = "Llama 2 model card, July 2023; parameters: its weights"
LLAMA3 = "Llama 3 model card, April 2024; 15T+ tokens"
LLAMA31 = "Llama 3.1 model card, July 2024; 15T+ tokens"
OLMO2 = "OLMo team 2025, arXiv 2501.00656, table 19: GPUs, measured"

# name, GPU, parameters of a token, tokens, printed GPU-hours, source
HOURS = [
    ("LLaMA 7B", "a100", 6.7e9, 1.0e12, 82432, LLAMA1),
    ("LLaMA 13B", "a100", 13.0e9, 1.0e12, 135168, LLAMA1),
    ("LLaMA 33B", "a100", 32.5e9, 1.4e12, 530432, LLAMA1),
    ("LLaMA 65B", "a100", 65.2e9, 1.4e12, 1022362, LLAMA1),
    ("Llama 2 7B", "a100", 6738417664, 2.0e12, 184320, LLAMA2),
    ("Llama 2 13B", "a100", 13015866880, 2.0e12, 368640, LLAMA2),
    ("Llama 2 34B", "a100", 34e9, 2.0e12, 1038336, "Touvron et al. 2023, arXiv 2307.09288, tables 1 and 2; 34B nominal"),
    ("Llama 2 70B", "a100", 68976653312, 2.0e12, 1720320, LLAMA2),
    ("Llama 3 8B", "h100", 8030261248, 15e12, 1.3e6, LLAMA3),
    ("Llama 3 70B", "h100", 70553706496, 15e12, 6.4e6, LLAMA3),
    ("Llama 3.1 8B", "h100", 8030261248, 15e12, 1.46e6, LLAMA31),
    ("Llama 3.1 70B", "h100", 70553706496, 15e12, 7.0e6, LLAMA31),
    ("Llama 3.1 405B", "h100", 405853388800, 15.6e12, 30.84e6, "Llama 3.1 model card, July 2024; arXiv 2407.21783"),
    ("BLOOM 176B", "a100", 176247e6, 366e9, 1082990, "BigScience 2022, arXiv 2211.05100; Luccioni et al. 2022"),
    ("StarCoderBase 15.5B", "a100", 15.5e9, 1.0e12, 320256, "Li et al. 2023, arXiv 2305.06161, section 5.7"),
    ("SmolLM3 3B", "h100", 3075098624, 11.2e12, 384 * 24 * 24, "huggingface.co/blog/smollm3, 2025: 24 days on 384 GPUs"),
    ("DeepSeek-V3, 37B active", "h800", 37e9, 14.8e12, 2.664e6, "arXiv 2412.19437, table 1: pre-training, in 8 bits"),
]

# name, GPU, parameters, tokens, PUE in the printed figure, JSON's key, printed MWh, source
ENERGIES = [
    ("OLMo 2 7B", "h100", 7298617344, 4.05e12, None, "gpu_kwh", 131.0, OLMO2),
    ("OLMo 2 13B", "h100", 13716198400, 5.6e12, None, "gpu_kwh", 257.0, OLMO2),
    ("OLMo 7B, 2T tokens or more", "a100", 6.9e9, 2.0e12, None, "gpu_kwh", 104.0,
     "Groeneveld et al. 2024, arXiv 2402.00838, table 6: GPUs, measured"),
    ("GPT-3 175B", "v100", 175e9, 300e9, 1.10, "site_kwh", 1287.0,
     "Patterson et al. 2021, arXiv 2104.10350, table 4: 330 W a GPU with its host, measured; 10,000 GPUs, assumed"),
    ("BLOOM 176B", "a100", 176247e6, 366e9, 1.20, "site_kwh", 109.0 * (118 * 24 + 5.7) / 1e3,
     "Luccioni et al. 2022, arXiv 2211.02001, section 4.3: 109 kW on average with network and cooling, 118 days"),
]


def estimate(program: Path, gpu: str, parameters: float, tokens: float, pue: float | None) -> dict:
    command = [str(program), "forecast", "estimate", "--gpu", gpu, "--gpus", "1024", "--params", repr(float(parameters)),
               "--tokens", repr(float(tokens)), "--format", "json"]
    if pue:
        command += ["--pue", str(pue)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def three(value: float) -> str:
    return f"{float(f'{value:.3g}'):,.0f}"


def row(name: str, what: str, printed: float, made: dict, source: str, factor: float, beyond: list[str]) -> str:
    error = made["middle"] / printed
    if max(error, 1 / error) > factor:
        beyond.append(f"{name}, {what}: a factor of {max(error, 1 / error):.2f}")
    held = "yes" if made["low"] <= printed <= made["high"] else "no"
    return (f"| {name} | {what} | {three(printed)} | {three(made['low'])} | {three(made['middle'])} "
            f"| {three(made['high'])} | {100 * (error - 1):+.0f} | {held} | {source} |")


def table(program: Path) -> tuple[str, list[str]]:
    beyond: list[str] = []
    lines = ["| run | quantity | printed | low | middle | high | error % | in range | source |",
             "| --- | --- | --: | --: | --: | --: | --: | --- | --- |"]
    errors = []
    for name, gpu, parameters, tokens, printed, source in HOURS:
        made = estimate(program, gpu, parameters, tokens, None)["gpu_hours"]
        lines.append(row(name, "GPU-hours", printed, made, source, HOURS_FACTOR, beyond))
        errors.append(made["middle"] / printed)
    energy_errors = []
    for name, gpu, parameters, tokens, pue, key, printed, source in ENERGIES:
        made = {end: kwh / 1e3 for end, kwh in estimate(program, gpu, parameters, tokens, pue)[key].items()}
        what = {"gpu_kwh": "MWh of GPUs", "site_kwh": "MWh of the site"}[key]
        lines.append(row(name, what, printed, made, source, ENERGY_FACTOR, beyond))
        energy_errors.append(made["middle"] / printed)
    lines.append("")
    for what, found, factor in (("GPU-hours", errors, HOURS_FACTOR), ("Energies", energy_errors, ENERGY_FACTOR)):
        worst = max(max(error, 1 / error) for error in found)
        typical = math.exp(sum(abs(math.log(error)) for error in found) / len(found))
        lines.append(f"{what}: {len(found)} figures, off by a factor of {typical:.2f} in the geometric mean and "
                     f"{worst:.2f} at most; stated beforehand: {factor:g}.")
    held = sum("| yes |" in line for line in lines)
    lines.append(f"The 90 % ranges hold {held} of {len(errors) + len(energy_errors)} figures.")
    return "\n".join(lines), beyond


def main() -> None:
    beyond: list[str] = []

    def judged(program: Path) -> str:
        made, found = table(program)
        beyond.extend(found)
        return made

    document_table.run("bench/estimate_tables.py", __doc__, judged)
    if beyond:
        sys.exit("beyond the factor that was stated beforehand:\n" + "\n".join(beyond))


if __name__ == "__main__":
    main()
