"""A command whose many options are shown in groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

import click

_LEAST_RATIO = 0.8


class SectionedCommand(click.Command):
    """A click command whose help has its options under titles.

    Args:
        sections: Names of options, without dashes, by title; those that are in no section come first.
    """

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, group by group."""
        rows: dict[str, list[tuple[str, str]]] = {"Options": [], **{title: [] for title in self.sections}}
        titles = {name: title for title, names in self.sections.items() for name in names}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                rows[titles.get(_long_name(parameter), "Options")].append(record)
        for title, records in rows.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class ScriptCommand(SectionedCommand):
    """A command that runs a script: says where the options of the script are."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            message = f"{error.message.rstrip('.')}; options of the script follow `--`."
            raise click.NoSuchOption(error.option_name, message, _near(error), error.ctx) from None


def _near(error: click.NoSuchOption) -> list[str]:
    """The options that may have been meant: an option of the script is often a little like one of ours."""
    near = ((SequenceMatcher(None, name, error.option_name).ratio(), name) for name in error.possibilities or ())
    return [name for ratio, name in near if ratio > _LEAST_RATIO]


def _long_name(parameter: click.Parameter) -> str:
    return max(parameter.opts, key=len).lstrip("-")
