"""The command line: each command parses, calls one function and renders its result."""

from autodist.cli._main import main

__all__ = ["main"]
