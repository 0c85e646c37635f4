"""How things look, without processes."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from autodist.chatter import telling_lines
from autodist.report import FailureKind, FailureReport, OutputLine, RunConsole, RunInfo, RunResult
from autodist.report._escapes import only_colours, plain


def console(*, is_terminal=False, file=None):
    return Console(
        file=file or io.StringIO(), force_terminal=is_terminal, color_system="standard" if is_terminal else None,
        no_color=False, markup=False, highlight=False, emoji=False, soft_wrap=True,
    )  # fmt: skip


def show(*lines, is_terminal=False, **settings):
    output, errors = console(is_terminal=is_terminal), console(is_terminal=is_terminal)
    shown = RunConsole(output=output, errors=errors, **settings)
    for rank, line in lines:
        shown.line(rank, line)
    return output.file.getvalue(), errors.file.getvalue()


def test_colours_on_a_terminal_only():
    line = OutputLine("a [bold]\x1b[31mred\x1b[2K")
    assert show((1, line)) == ("[1] a [bold]red\n", "")
    output, _ = show((1, line), is_terminal=True)
    assert output == "\x1b[32m[1]\x1b[0m a [bold]\x1b[31mred\x1b[0m\n"


def test_progress_is_shown_now_and_then():
    times = iter([0.0, 1.0, 1.9, 2.5, 5.0, 5.1])
    updates = [(0, OutputLine(f"{i}/6", is_update=True)) for i in range(5)]
    output, _ = show((0, OutputLine("Epoch 1")), *updates, clock=lambda: next(times))
    assert output == "[0] Epoch 1\n[0] 2/6\n[0] 3/6\n"


def test_chatter_is_for_the_verbose():
    chatter = (0, OutputLine("I0000 00:00:1795187763.226950    8095 port.cc:153] oneDNN", is_error=True))
    assert show(chatter) == ("", "")
    assert "oneDNN" in show(chatter, is_verbose=True)[1]
    given_up = (0, OutputLine("E0000 00:00:1795794954.79 11 meta_optimizer.cc:967] remapper failed: x", is_error=True))
    assert show(given_up) == ("", "")
    font = (0, OutputLine("Matplotlib is building the font cache; this may take a moment.", is_error=True))
    assert show(font) == ("", "")


def test_what_all_but_the_chief_leave_to_it_is_said_once():
    said = ["`CSVLogger.on_train_begin` writes nothing on worker {}: the chief (worker 0) writes the file"]
    said += ["`CSVLogger.on_epoch_end` writes nothing on worker {}: the chief (worker 0) writes the file"]
    said += ["`Model.save` writes nothing on worker {}: the chief (worker 0) writes the file"]
    lines = [(rank, OutputLine(text.format(rank), is_error=True)) for text in said for rank in (3, 1, 2)]
    assert show(*lines)[1].splitlines() == [f"[3] {said[0].format(3)}", f"[3] {said[2].format(3)}"]
    assert len(show(*lines, is_verbose=True)[1].splitlines()) == 9
    (line,) = [line for line in lines if "save" in line[1].text and line[0] == 1]
    assert show(line, ranks=[1]) == ("", f"[1] {line[1].text}\n")


def test_a_warning_of_python_is_shown_for_the_first_worker_that_has_it():
    warned = ["/lib/keras/iterator.py:74: UserWarning: `shuffle=True` is ignored", "  adapter = get_adapter(", "mine"]
    lines = [(rank, OutputLine(text, is_error=True)) for text in warned for rank in (1, 0)]
    lines += [(0, OutputLine(text.replace("74", "75"), is_error=True)) for text in warned[:2]]
    lines += [(1, OutputLine(warned[0], is_error=True))]
    assert show(*lines)[1].splitlines() == [
        *(f"[1] {text}" for text in warned[:2]), "[1] mine", "[0] mine",
        *(f"[0] {text.replace('74', '75')}" for text in warned[:2]), f"[1] {warned[0]}",
    ]  # fmt: skip
    assert len(show(*lines, is_verbose=True)[1].splitlines()) == 9


def test_a_strategy_is_shown_as_it_was_given(tmp_path):
    errors = console()
    shown = RunConsole(output=errors, errors=errors, names={"auto(trials='/tmp/x/trials.db')": "auto"})
    shown.run_started(RunInfo("r", tmp_path, ("h0",), None, 7, "auto(trials='/tmp/x/trials.db')"))
    shown.run_started(RunInfo("r", tmp_path, ("h0",), "PS", 7, "auto"))
    ends = [line.rpartition(", ")[2] for line in errors.file.getvalue().splitlines() if "worker" in line]
    assert ends == ["else auto", "strategy PS"]


def test_a_crash_is_reported_as_a_whole():
    dump = [
        *(
            "Fatal Python error: Aborted",
            "",
            "Thread 0x00f0 (most recent call first):",
            '  File "a.py", line 1 in wait',
        ),
        *("", "Current thread 0x00f1 (most recent call first):", '  File "train.py", line 7 in step', ""),
        "Extension modules: numpy._core (total: 1)",
    ]
    lines = [(0, OutputLine(text, is_error=True)) for text in (*dump, "after it")]
    assert show(*lines) == ("", "[0] after it\n")
    assert show(*lines, is_verbose=True)[1].count("\n") == len(lines)
    assert telling_lines(dump) == [dump[0], dump[5], dump[6]]


def test_stacks_of_a_worker_that_was_asked_for_them_are_in_its_log_alone():
    """As of one that has not begun in time: thousands of lines of imports, of which none says more than the error."""
    dump = [
        "Thread 0x00f0 (most recent call first):",
        *[f'  File "/usr/lib/python3.11/threading.py", line {number} in wait' for number in range(9)],
        "",
        "Current thread 0x00f1 (most recent call first):",
        '  File "/env/lib/python3.11/site-packages/scipy/stats/_continuous_distns.py", line 5788 in <module>',
        *['  File "<frozen importlib._bootstrap>", line 241 in _call_with_frames_removed'] * 50,
        '  File "/home/me/train.py", line 7 in <module>',
        "  ...",
    ]
    lines = [(0, OutputLine(text, is_error=True)) for text in ("before it", *dump, "after it")]
    assert show(*lines) == ("", "[0] before it\n[0] after it\n")
    assert telling_lines(dump) == [dump[11], dump[12], dump[-2]]


def test_characters_that_the_console_does_not_have():
    raw = io.BytesIO()
    output = console(file=io.TextIOWrapper(raw, encoding="ascii"))
    RunConsole(output=output, errors=output).line(0, OutputLine("━ 日本"))
    assert raw.getvalue() == b"[0] ? ??\n"


@given(st.text())
def test_plain_text_cannot_touch_the_terminal(text):
    assert not set(plain(text)) & {"\x1b", "\x07", "\r", "\b"}


@pytest.mark.parametrize("text", ["\x1b]0;title\x07a", "\x1b[?25la", "\x1b[10;3Ha", "\x1bMa", "\x00a", "\x1b7a\x1b8"])
def test_what_moves_the_cursor_is_removed(text):
    assert only_colours(text) == "a"


def result(tmp_path, duration_s=192.4, **failure):
    report = FailureReport(
        **{
            "kind": FailureKind.FAILED, "rank": 10, "host": "gpu-3", "pid": 4711, "exit_code": None,
            "signal": "SIGKILL", "message": "worker 10 ended with signal SIGKILL", "hint": "memory",
            "log_path": tmp_path / "10.log",
            "tail": ("one", "\x1b[31mtwo"), **failure,
        }
    )  # fmt: skip
    return RunResult(1, report, duration_s, tmp_path, 16)


def test_failure_block(tmp_path):
    errors = console()
    RunConsole(output=errors, errors=errors).run_ended(result(tmp_path))
    assert errors.file.getvalue() == (
        "\nrun failed after 3 min 12 s, exit code 1\n"
        "  first failure  worker 10 of 16 on gpu-3, pid 4711, signal SIGKILL\n"
        f"  its log        {tmp_path}/10.log\n"
        "  last lines     (2)\n    one\n    two\n"
        "\nerror: worker 10 ended with signal SIGKILL\n\nhint: memory\n"
    )


def test_header_and_ends(tmp_path):
    errors = console()
    shown = RunConsole(output=errors, errors=errors, is_verbose=True)
    shown.run_started(RunInfo("r", tmp_path, tuple(f"h{i}" for i in range(16)), "AllReduce", 7))
    shown.run_ended(RunResult(0, None, 3700.0, tmp_path, 16))
    shown.run_ended(RunResult(0, None, 1.0, tmp_path, 16, steps=3))  # of functions of arrays, without a strategy
    (tmp_path / "strategy.json").touch()
    shown.run_ended(RunResult(0, None, 1.0, tmp_path, 16, steps=3))
    shown.run_ended(RunResult(0, None, 1.0, tmp_path, 16, steps=3, away=(("h0", "/my work"), ("h1", "/my work"))))
    shown.run_ended(RunResult(130, None, 1.0, tmp_path, 16))
    assert errors.file.getvalue().splitlines() == [
        "autodist: run r: 16 workers (h0, h1, h2, ... h15), strategy AllReduce",
        f"autodist: logs in {tmp_path}",
        "autodist: seed 7",
        f"autodist: done after 1 h 1 min, logs are in {tmp_path}",
        f"autodist: done after 1.0 s, logs are in {tmp_path}",
        f"autodist: done after 1.0 s, logs are in {tmp_path}; next: `autodist explain {tmp_path}` shows what was sent",
        f"autodist: done after 1.0 s, logs are in {tmp_path}; what the script wrote is on h0 and 1 other host, in "
        f"'/my work': `autodist fetch {tmp_path}` copies it",
        f"autodist: stopped after 1.0 s, logs are in {tmp_path}",
    ]
