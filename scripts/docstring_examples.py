"""An extension of griffe, which reads docstrings for the site: sections named `Example` are code, as `Examples` are."""

from __future__ import annotations

from typing import Any

import griffe


class DocstringExamples(griffe.Extension):
    """Renames the sections."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """See the base class."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
