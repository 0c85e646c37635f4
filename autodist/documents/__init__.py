"""Files that people write: YAML as plain data, with the place of every key and all mistakes at once; whole files."""

from autodist.documents._disk import to_disk, tree_to_disk
from autodist.documents._document import Document, Kind, Path, Position, key_path, shown
from autodist.documents._scalar import number as yaml_number
from autodist.documents._scalar import text as yaml_text
from autodist.documents._whole_file import whole_file
from autodist.documents._yaml import load, read_text

__all__ = [
    "Document",
    "Kind",
    "Path",
    "Position",
    "key_path",
    "load",
    "read_text",
    "shown",
    "to_disk",
    "tree_to_disk",
    "whole_file",
    "yaml_number",
    "yaml_text",
]
