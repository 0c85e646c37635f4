"""What was found at each place, kept in a file beside the scripts."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

from .corpus import Place, Script
from .runs import Result

PATH = Path(__file__).with_name("results.json")


class Records:
    """Results by script and place; those of scripts that were changed since don't count."""

    def __init__(self, found: dict[str, dict[str, Result]]) -> None:
        self._found = found

    @classmethod
    def read(cls) -> Records:
        """Those of the file, if it is there."""
        return cls(json.loads(PATH.read_text() or "{}") if PATH.is_file() else {})

    def of(self, script: Script, place: Place) -> Result | None:
        """The result of the script as it is now."""
        result = self._found.get(script.name, {}).get(place.name)
        return result if result is not None and result["script"] == script.digest else None

    def has(self, script: Script, place: Place) -> bool:
        """Whether there is one."""
        return self.of(script, place) is not None

    def keep(self, script: Script, place: Place, result: Result) -> None:
        """Take a result, and write the file."""
        with PATH.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # others may be recording too
            self._found = json.loads(PATH.read_text() or "{}")
            self._found.setdefault(script.name, {})[place.name] = result | {"script": script.digest}
            PATH.write_text(json.dumps(self._found, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
