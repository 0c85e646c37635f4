"""Record what becomes of the scripts, or write the page that shows it: `python -m tests.wild --record`, `--page`."""

import argparse
import re
import tempfile
from pathlib import Path

from . import page
from .corpus import PLACES, scripts
from .records import Records
from .runs import Runs, outcome


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="run what has no result yet, or was changed since")
    parser.add_argument("--page", action="store_true", help=f"write {page.PATH}")
    parser.add_argument("--only", default="", help="names of scripts match this regular expression")
    parser.add_argument("--place", action="append", choices=[p.name for p in PLACES], help="repeatable; default: all")
    parser.add_argument("--again", action="store_true", help="run what has a result as well")
    parser.add_argument(
        "--scratch", type=Path, help="where runs keep their files; what one device has found is taken from there"
    )
    arguments = parser.parse_args()
    if arguments.record:
        with tempfile.TemporaryDirectory() as scratch:
            record(arguments, arguments.scratch or Path(scratch))
    if arguments.page:
        page.PATH.write_text(page.text(scripts(), Records.read()))


def record(arguments, scratch):
    runs, records = Runs(scratch), Records.read()
    for place in PLACES:
        if arguments.place and place.name not in arguments.place:
            continue
        chosen = [s for s in scripts() if re.search(arguments.only, s.name)]
        wanted = [s for s in chosen if arguments.again or not records.has(s, place)]
        for script, result in runs.results(wanted, place):
            records.keep(script, place, result)
            print(f"{place.name}: {script.name}: {shown(script, result)}", flush=True)


def shown(script, result):
    found = outcome(script, result)
    if found == "right":
        return f"right {result['difference']}" + "".join(f"\n    said: {line}" for line in result["words"])
    return f"{found.upper()} {result.get('difference', '')} {result.get('where', '')} {result['words']}"


if __name__ == "__main__":
    main()
