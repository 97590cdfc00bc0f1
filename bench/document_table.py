"""The command of a script that computes one table and keeps it in a document, between `<!-- table -->` and
`<!-- end of table -->`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

PLACE = re.compile(r"(<!-- table -->\n).*?(<!-- end of table -->)", re.DOTALL)


def run(script: str, description: str, table: Callable[[Path], str]) -> None:
    """Prints the table that a program's results make, writes it into a document, or ends with status 1 where the
    document has another one."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=Path("build/flyball"), help="default: build/flyball")
    target = parser.add_mutually_exclusive_group()
    target.add_argument("--write", type=Path, metavar="FILE", help="rewrite the table of this document")
    target.add_argument("--check", type=Path, metavar="FILE", help="exit 1 when this document's table differs")
    options = parser.parse_args()
    program = options.program.resolve()
    if not program.is_file():
        sys.exit(f"{options.program}: no such program; build it with make build, or name it with --program")
    made = table(program)
    path = options.write or options.check
    if not path:
        print(made)
        return
    document = path.read_text(encoding="utf-8")
    if len(PLACE.findall(document)) != 1:
        sys.exit(f"{path}: <!-- table --> and <!-- end of table --> must stand once each")
    filled = PLACE.sub(lambda place: f"{place[1]}\n{made}\n\n{place[2]}", document)
    if options.write and filled != document:
        path.write_text(filled, encoding="utf-8")
    if options.check and filled != document:
        sys.exit(f"{path}: its table is out of date; run {script} --write {path}")
