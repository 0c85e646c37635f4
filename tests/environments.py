"""Environments of Python that lack some packages of this one."""

import sys
import sysconfig
import venv
from pathlib import Path


class PartialEnvironment:
    """An interpreter with the packages of this one, but for some; a script of a test lies next to it.

    Args:
        directory: Where it is made.
        hidden: What the names of the packages that it lacks begin with.
        script: What `train.py` has.
    """

    def __init__(self, directory: Path, hidden: tuple[str, ...], script: str) -> None:
        venv.create(directory / "venv", with_pip=False)
        self.directory = directory
        self.python = directory / "venv" / "bin" / "python"
        minor = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.packages = directory / "venv" / "lib" / minor / "site-packages"
        for entry in Path(sysconfig.get_path("purelib")).iterdir():
            if not entry.name.startswith((*hidden, "__editable__")) and entry.suffix != ".pth":
                (self.packages / entry.name).symlink_to(entry)
        (directory / "train.py").write_text(script)
