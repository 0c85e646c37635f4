"""Programs of C++ with the library's sources, built for tests."""

import os
import shlex
import subprocess
from pathlib import Path

import autodist.transport

SOURCES = Path(autodist.transport.__file__).parent / "native"


def built(to: Path, source: str, *flags: str, of: tuple[str, ...], compiler: str | None = None) -> Path:
    """Compile a file of this folder together with some of the library's."""
    files = [Path(__file__).with_name(source), *(SOURCES / name for name in of)]
    program = to / Path(source).stem
    compilers = shlex.split(compiler or os.environ.get("CXX", "c++"))
    command = [*compilers, "-std=c++17", "-pthread", f"-I{SOURCES}", *flags, "-o", program, *files]
    subprocess.run(command, check=True, timeout=250)
    return program
