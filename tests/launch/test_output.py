import os

from hypothesis import given
from hypothesis import strategies as st

from autodist.launch._worker_output import LineSplitter, OutputPump
from autodist.launch.run_files._run_directory import RunDirectory

PIECES = st.lists(st.sampled_from(["a", "bc", " ", "\n", "\r", "\b\b", "\r\n", "é", "日本", "1/2 ==", "\x1b[1m"]))


def lines(data, sizes=()):
    splitter, found = LineSplitter(is_error=False), []
    for size in sizes:
        found += splitter.feed(data[:size])
        data = data[size:]
    found += splitter.feed(data)
    found += splitter.close()
    return [line.text for line in found if not line.is_update]


@given(PIECES, st.lists(st.integers(1, 5)))
def test_pieces_do_not_matter(pieces, sizes):
    data = "".join(pieces).encode()
    assert lines(data, sizes) == lines(data)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]))))
def test_lines_without_control_characters_stay_as_they_are(texts):
    data = "".join(f"{text}\n" for text in texts).encode()
    assert lines(data) == texts


def test_updates_replace_one_another():
    splitter = LineSplitter(is_error=True)
    assert list(splitter.feed(b"Epoch 1\n")) != []
    updates = [line for part in (b"\b\b\b\r1/3", b"\b\b\b\r2/3", b"\b\b\b\r3/3") for line in splitter.feed(part)]
    assert [(line.text, line.is_update, line.is_error) for line in updates] == [
        ("1/3", True, True), ("2/3", True, True), ("3/3", True, True),
    ]  # fmt: skip
    assert [line.text for line in splitter.feed(b"\n")] == ["3/3"]


def test_windows_line_ends_and_invalid_utf8():
    assert lines(b"one\r\ntwo\r\n") == ["one", "two"]
    assert lines(b"\xff\n") == ["�"]


def test_endless_line_is_cut():
    splitter = LineSplitter(is_error=False)
    found = [line for _ in range(50) for line in splitter.feed(b"x" * 10_000)]
    found += splitter.close()
    assert sum(len(line.text) for line in found) == 500_000
    assert max(len(line.text) for line in found) <= 100_000


def test_log_that_cannot_be_written_does_not_stop_the_run(tmp_path):
    seen = []
    directory = RunDirectory.create(tmp_path / "run")
    os.symlink("/dev/full", directory.log(0))
    pump = OutputPump(directory, 1, lambda rank, line: seen.append(line.text))
    pump.feed(0, b"one\ntwo\n", is_error=False)
    pump.finish(5.0)
    assert [text for text in seen if not text.startswith("autodist: ")] == ["one", "two"]
    assert "the log can't be written any more" in "".join(seen)
