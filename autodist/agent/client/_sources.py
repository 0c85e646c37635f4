"""The text that an agent is started with: a short command, and what is sent to its standard input.

Nothing of AutoDist needs to be there: the modules of the agent travel as texts and are imported from memory. What runs
before the interpreter's version is known is written so that every Python since 2.7 can read it.
"""

from __future__ import annotations

import dataclasses
import importlib.resources
import json
from functools import cache

from autodist.agent._settings import Settings

__all__ = ["COMMAND", "OLDEST_PYTHON", "first_input", "sources"]

OLDEST_PYTHON = (3, 10)

COMMAND = 'import os,sys;i=os.fdopen(0,"rb",0);exec(i.readline())'
"""Runs the first line of standard input, and reads not one byte beyond it. One line and no single quote or exclamation
mark: any shell can quote it."""

_FILES = ("_processes", "_settings")
_FOLDERS = ("protocol", "holder", "machine")
"""The packages that are sent; their modules import the standard library and each other only."""
_SHARED = ("congestion", "tcp_table")
"""Modules of AutoDist that are sent as well: they import the standard library only."""

_FIRST = """
import sys
sys.path[:] = [entry for entry in sys.path if entry]  # what lies in the directory of the login must not be imported
import json, os
marker, oldest = MARKER, OLDEST
if sys.version_info < oldest:
    told = {"python": "%d.%d.%d" % tuple(sys.version_info[:3]), "executable": sys.executable}
    os.write(1, (marker + json.dumps(told) + "\\n").encode("ascii"))
    os._exit(0)

size, text = int(i.readline()), b""
while len(text) < size:
    piece = i.read(size - len(text))
    if not piece:
        os._exit(1)
    text += piece
sent = json.loads(text.decode("ascii"))

import importlib.util, types

class Sent:
    def find_spec(self, name, path=None, target=None):
        if name not in sent["modules"]:
            return None
        is_package = any(other.startswith(name + ".") for other in sent["modules"])
        return importlib.util.spec_from_loader(name, self, origin="<%s>" % name, is_package=is_package)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        name = module.__name__
        exec(compile(sent["modules"][name], "<%s>" % name, "exec"), module.__dict__)

    def get_source(self, name):
        return sent["modules"].get(name)

for name in ("autodist", "autodist.agent"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = []
sys.meta_path.insert(0, Sent())
from autodist.agent.holder._guard import main
from autodist.agent._settings import Settings
main(Settings(**sent["settings"]))
"""


def first_input(settings: Settings) -> bytes:
    """Return what the agent's standard input begins with."""
    first = _FIRST.replace("MARKER", repr(settings.marker)).replace("OLDEST", repr(OLDEST_PYTHON))
    sent = json.dumps({"modules": sources(), "settings": dataclasses.asdict(settings)}).encode("ascii")
    return f"exec({first!r})\n{len(sent)}\n".encode("ascii") + sent


@cache
def sources() -> dict[str, str]:
    """Return the text of each module that is sent, by its name."""
    package = importlib.resources.files("autodist.agent")
    found = {f"autodist.agent.{name}": package.joinpath(f"{name}.py") for name in _FILES}
    for folder in _FOLDERS:
        files = [file for file in package.joinpath(folder).iterdir() if file.name.endswith(".py")]
        names = [f"autodist.agent.{folder}.{file.name.removesuffix('.py')}" for file in files]
        found.update(zip((name.removesuffix(".__init__") for name in names), files, strict=True))
    found |= {f"autodist.{name}": importlib.resources.files("autodist") / f"{name}.py" for name in _SHARED}
    return {name: file.read_text("utf-8") for name, file in found.items()}
