"""``autodist clean``: what AutoDist has written here goes away."""

from __future__ import annotations

from pathlib import Path

import click

from autodist.cli.options import debug_option
from autodist.wording import counted


@click.command("clean", epilog="Example: autodist clean --keep 5 --yes")
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@click.option("--keep", metavar="N", type=click.IntRange(0), default=0, show_default=True, help="Newest runs to leave.")
@click.option("--cache", is_flag=True, help="Remove the profiles in the user's cache as well.")
@click.option("-y", "--yes", is_flag=True, help="Remove it. Without this, only say what would be removed.")
@debug_option
def clean(runs: tuple[str, ...], keep: int, cache: bool, yes: bool) -> None:
    """Remove the files of runs that have ended, below ./runs; with RUNs, those of these only.

    Only files that AutoDist has written and knows by name are removed. What a script has put into a run's directory
    stays, and so do strategies that searches have found, trials, runs that go on, and all that is on other machines:
    runs leave nothing there but the script's own files.
    """
    from autodist.launch import find_run, list_runs, read_status
    from autodist.report import output_console, show_warning
    from autodist.simulator import ProfileCache

    found = [read_status(find_run(run)) for run in runs] or list_runs(
        on_error=lambda error: show_warning(error.message)
    )
    console = output_console()
    num_files = size_bytes = 0
    for run in found[0 if runs else keep :]:
        if not run.is_over:
            console.print(f"stays: {run.run_dir.name}, which is {run.state.value}")
            continue
        number, size, left = _cleaned(run.run_dir, is_meant=yes)
        num_files, size_bytes = num_files + number, size_bytes + size
        others = f"; {counted(left, 'file')} of others stay{'s' if left == 1 else ''}" if left else ""
        console.print(f"{'removed' if yes else 'would remove'}: {run.run_dir.name}, {counted(number, 'file')}{others}")
    if cache:
        directory = ProfileCache.of_user().directory
        number, size = _removed(sorted(directory.glob("*.json")), is_meant=yes)
        num_files, size_bytes = num_files + number, size_bytes + size
        console.print(f"{'removed' if yes else 'would remove'}: {counted(number, 'profile')} in {directory}")
    console.print(f"{counted(num_files, 'file')}, {size_bytes / 1e6:.1f} MB{'' if yes else '; `--yes` removes them'}")


def _cleaned(run_dir: Path, *, is_meant: bool) -> tuple[int, int, int]:
    """Remove a run's files; returns their number and bytes, and how many files of others there are."""
    from autodist.launch import files_of_run

    ours = list(files_of_run(run_dir))
    everything = [path for path in run_dir.rglob("*") if path.is_file() or path.is_symlink()]
    number, size = _removed(ours, is_meant=is_meant)
    if is_meant:
        _remove_folders(run_dir, ours)
        latest = run_dir.parent / "latest"
        if latest.is_symlink() and not latest.exists():
            latest.unlink()
    return number, size, len(everything) - len(ours)


def _remove_folders(run_dir: Path, files: list[Path]) -> None:
    """Remove a run's directory and the folders of its files, unless others have something in them."""
    folders = {run_dir, run_dir / "logs", *(folder for path in files for folder in path.parents)}
    for folder in sorted(folders, reverse=True):  # what is in a folder comes before it
        if folder.is_relative_to(run_dir) and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _removed(paths: list[Path], *, is_meant: bool) -> tuple[int, int]:
    sizes = [path.stat().st_size for path in paths]
    if is_meant:
        for path in paths:
            path.unlink()
    return len(paths), sum(sizes)
