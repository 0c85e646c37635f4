"""``autodist plot``: pictures of searches."""

from __future__ import annotations

import click

from autodist.cli._trials_command import open_store, store_option, the_study
from autodist.cli.options import debug_option


@click.command("plot", epilog="Example: autodist plot --study 1 --study 2 --out seeds.html")
@store_option
@click.option(
    "--study",
    "studies",
    metavar="N",
    type=int,
    multiple=True,
    help="Number of the search. Repeatable. Default: the last.",
)
@click.option(
    "--out", metavar="FILE", default="search.html", show_default=True, help="A page (.html) or an image (.png)."
)
@debug_option
def plot(store: str, studies: tuple[int, ...], out: str) -> None:
    """Draw a search: its progress, what the simulator knew, the best strategy, and which choices matter.

    Several searches of one graph on one cluster are drawn together, with the mean of those by one searcher. Needs
    matplotlib: pip install "autodist-tf[plots]".
    """
    from autodist.report import output_console
    from autodist.report.plots import Searched, check_drawable, picture_of, save_picture
    from autodist.search import graph_of

    check_drawable(out)
    with open_store(store) as opened:
        chosen = [the_study(opened, number) for number in dict.fromkeys(studies or (None,))]
        searches = [Searched(study, tuple(opened.trials(study))) for study in chosen]
        graph = graph_of(opened, chosen[0])
    save_picture(picture_of(searches, graph), out)
    output_console().print(f"saved {out}")
