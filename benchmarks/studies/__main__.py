"""Repeat figures and tables of the thesis: `python -m benchmarks.studies --help`."""

from __future__ import annotations

import argparse
import sys

from . import algorithms, architectures, instantiations, merging, progress, scaling, transfer
from ._base import Study
from ._page import keep, table_of, write_page

STUDIES: tuple[type[Study], ...] = (
    *scaling.STUDIES,
    *architectures.STUDIES,
    *merging.STUDIES,
    *instantiations.STUDIES,
    *algorithms.STUDIES,
    *transfer.STUDIES,
    *progress.STUDIES,
)


def main() -> int:
    """Run the chosen studies, and write what they found into the page."""
    by_name = {study.name: study for study in STUDIES}
    told = "\n".join(f"  {study.name:14} {study.title} ({study.needs})" for study in STUDIES)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.studies",
        description=f"Repeat figures and tables of the thesis.\n\n{told}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*by_name, []], help="which; default: all")
    for name in parser.parse_args().names or by_name:
        print(f"{name}: {by_name[name].title}", file=sys.stderr, flush=True)
        findings = by_name[name]().run()
        keep(by_name[name], findings)
        print(f"{table_of(findings)}\n", flush=True)
    write_page(STUDIES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
