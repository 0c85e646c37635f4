"""Files in which commands leave their results."""

import pytest

from autodist.cli.options import written
from autodist.errors import UsageError


def test_what_can_not_be_written_is_shown_before_it_is_refused(tmp_path):
    """A file in the way of a directory, as a disk that has become full in a search of hours."""
    (tmp_path / "file").write_text("")
    shown = []
    with pytest.raises(UsageError) as caught, written(tmp_path / "file" / "best.json", "{}", "it is kept") as saved:
        shown.append(saved)
    assert shown == [None]
    assert "best.json` can't be written" in caught.value.message
    assert caught.value.hint == "it is kept"
    with written(tmp_path / "new" / "best.json", "{}") as saved:
        shown.append(saved)
    assert shown[1].read_text() == "{}"
