#!/usr/bin/env python3
"""Draws the tables that bench/window_error prints as an SVG picture.

Usage: build/bench/bench/window_error | bench/window_error_picture.py docs/pictures/window-error.svg
"""
import math
import re
import sys

WIDTH, HEIGHT, LEFT, TOP = 330, 220, 46, 34
COLOURS = ["#2a78d6", "#d95f02", "#1b9e77"]
STYLE = """<style>
text { font: 12px system-ui, sans-serif; fill: #333 } .axis { stroke: #888; fill: none } .grid { stroke: #ddd }
.line { fill: none; stroke-width: 2 }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .grid { stroke: #444 } }
</style>"""


def tables(text):
    """(title, devices, [(window in ms, [error in per cent of each device])]) of every table."""
    for block in re.split(r"\n\n(?=[a-z])", "\n\n" + text.strip())[1:]:
        lines = [line for line in block.splitlines() if line.strip()]
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:] if not line.startswith("|-")]
        values = [(float(row[0].split()[0]), [float(cell.split("/")[1]) for cell in row[1:]]) for row in rows[1:]]
        yield lines[0].split(":")[0], rows[0][1:], values


def x_of(milliseconds):
    return LEFT + math.log10(milliseconds) / 3 * WIDTH


def y_of(percent):
    low, high = -1, 2  # 0.1 % to 100 %
    return TOP + HEIGHT * (high - max(low, min(high, math.log10(max(percent, 1e-9))))) / (high - low)


def panel(title, devices, values, offset):
    parts = [f'<g transform="translate({offset},0)"><text x="{LEFT}" y="18">{title}</text>']
    for percent in (0.1, 1, 10, 100):
        y = y_of(percent)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{LEFT + WIDTH}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{percent:g} %</text>')
    for milliseconds, label in ((1, "1 ms"), (10, "10 ms"), (100, "100 ms"), (1000, "1 s")):
        parts.append(f'<text x="{x_of(milliseconds):.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{label}</text>')
    for d, device in enumerate(devices):
        points = " ".join(f"{x_of(ms):.1f},{y_of(errors[d]):.1f}" for ms, errors in values)
        parts.append(f'<polyline class="line" stroke="{COLOURS[d]}" points="{points}"/>')
        y = TOP + HEIGHT - 46 + 16 * d
        parts.append(f'<path class="line" stroke="{COLOURS[d]}" d="M{LEFT + 12} {y - 4}h18"/>')
        parts.append(f'<text x="{LEFT + 36}" y="{y}">{device}</text>')
    parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{TOP + HEIGHT}H{LEFT + WIDTH}"/></g>')
    return "\n".join(parts)


def main():
    panels = [panel(*table, offset=i * (WIDTH + 80)) for i, table in enumerate(tables(sys.stdin.read()))]
    width = len(panels) * (WIDTH + 80)
    with open(sys.argv[1], "w", encoding="utf-8") as picture:
        picture.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT + 62}" width="{width}">\n')
        picture.write(STYLE + "\n" + "\n".join(panels) + "\n</svg>\n")


if __name__ == "__main__":
    main()
