"""Tables between Python and the program: data frames where pandas is installed, structured NumPy arrays where it is not;
and anything with columns as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flyball import _native


def is_table(value: Any) -> bool:
    """A data frame of pandas or Polars, a structured array of NumPy, or a dict of columns."""
    if isinstance(value, Mapping):
        return all(isinstance(column, Iterable) and not isinstance(column, (str, bytes)) for column in value.values())
    return hasattr(value, "columns") or bool(getattr(getattr(value, "dtype", None), "names", None))


def write_table(table: Any, path: Path) -> None:
    """As CSV, with a header. Raises UsageError for columns of different lengths."""
    if hasattr(table, "to_csv"):  # pandas
        table.to_csv(path, index=False)
        return
    if hasattr(table, "write_csv"):  # Polars
        table.write_csv(path)
        return
    columns = table if isinstance(table, Mapping) else {name: table[name] for name in table.dtype.names}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise _native.UsageError(f"the columns of a table must be of one length; these are of {lengths}")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values()))


def table_of(columns: Mapping[str, Sequence[Any]]) -> Any:
    """A DataFrame, or a structured array where pandas is not installed."""
    try:
        import pandas
    except ImportError:
        import numpy as np

        arrays = [np.asarray(column) for column in columns.values()]
        table = np.empty(len(arrays[0]) if arrays else 0, [(name, array.dtype) for name, array in zip(columns, arrays)])
        for name, array in zip(columns, arrays):
            table[name] = array
        return table
    return pandas.DataFrame(dict(columns))


def table_of_rows(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Rows of one object each: what nests gets names such as `pipeline_saving_pct`. Of a column of numbers, what is
    missing is NaN; of others None."""
    flat = [dict(_flat(row)) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    return table_of({name: _with_gaps([row.get(name) for row in flat]) for name in names})


def _with_gaps(cells: list[Any]) -> list[Any]:
    if not any(isinstance(cell, float) for cell in cells):
        return cells
    return [float("nan") if cell is None else cell for cell in cells]


def _flat(row: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}_")
        else:
            yield prefix + name, value


def table_of_csv(text: str) -> Any:
    """Columns in which every cell is a number are numbers. Lines of comments are left out."""
    header, *rows = csv.reader(line for line in text.splitlines() if not line.startswith("#"))
    return table_of({name: _numbers([row[i] for row in rows]) for i, name in enumerate(header)})


def _numbers(cells: list[str]) -> list[Any]:
    for kind in (int, float):
        try:
            return [kind(cell) for cell in cells]
        except ValueError:
            continue
    return list(cells)
