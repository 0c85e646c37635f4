import sys

import pytest

from autodist.compressors import (
    BF16,
    FP16,
    ErrorFeedback,
    OneBit,
    PowerSGD,
    RandomK,
    SufficientFactors,
    TopK,
    get,
    registered,
)
from autodist.errors import StrategyError
from autodist.registry import PluginWarning

FEEDBACK = [ErrorFeedback(), ErrorFeedback(FP16())]
ALL = [BF16(), FP16(), *FEEDBACK, OneBit(), PowerSGD(4), RandomK(0.5, 7), SufficientFactors(), TopK(0.25)]


@pytest.mark.parametrize("compressor", ALL, ids=str)
def test_a_compressors_text_is_read_back(compressor):
    assert get(str(compressor)) == compressor


@pytest.mark.parametrize(
    ("text", "compressor"),
    [
        ("FP16", FP16()),
        (" TopK ( ratio = 1 ) ", TopK(1)),
        ("ErrorFeedback", ErrorFeedback(TopK(0.01))),
        ("ErrorFeedback(TopK(ratio=0.01))", ErrorFeedback(TopK(0.01))),
        ("ErrorFeedback(inner=PowerSGD(rank=3))", ErrorFeedback(PowerSGD(3))),
        ("ErrorFeedback(BF16)", ErrorFeedback(BF16())),
    ],
)
def test_texts_are_read_as_compressors(text, compressor):
    assert get(text) == compressor


def test_the_text_form():
    assert str(get("ErrorFeedback(TopK)")) == "ErrorFeedback(TopK(ratio=0.01))"


@pytest.mark.parametrize("text", ["fp-16", "ErrorFeedback(fp_16)"])
def test_near_misses_are_suggested(text):
    with pytest.raises(StrategyError, match="is unknown, did you mean `FP16`"):
        get(text)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(StrategyError) as caught:
        get("zip")
    first, second, *lines = caught.value.message.splitlines()
    assert (first, second) == ("the compressor `zip` is unknown", "known are")
    assert lines == [f"  {one.name} - {one.summary}" for one in registered()]
    assert [one.name for one in registered()] == sorted({type(one).__name__ for one in ALL})


@pytest.mark.parametrize(
    ("text", "mistakes"),
    [
        ("TopK(ratio=0)", ["`ratio` is 0, allowed: a number above 0 and up to 1"]),
        ("TopK(ratio=float('nan'))", ["`ratio` is `float('nan')`, allowed: a plain value"]),
        ("TopK(ratio=True)", ["`ratio` is True, allowed: a number"]),
        ("RandomK(ratio=2, seed=-1, size=3)", ["`ratio` is 2", "`seed` is -1", "`size` is unknown"]),
        ("PowerSGD(rank=0, seed=0.5)", ["`rank` is 0, allowed: a whole number of at least 1", "`seed` is 0.5"]),
        ("FP16(level=3)", ["the parameter `level` is unknown"]),
        ("ErrorFeedback(SufficientFactors)", ["`SufficientFactors()` loses nothing"]),
        ("ErrorFeedback(OneBit)", ["`OneBit()` has error feedback already"]),
        ("ErrorFeedback(ErrorFeedback(TopK))", ["has error feedback already"]),
        ("ErrorFeedback(TopK, 3)", ["the compressor `TopK, 3` is unknown"]),
        ("ErrorFeedback(TopK(ratio=-1))", ["`ratio` is -1"]),
        ("", ["the compressor `` is unknown"]),
        ("TopK(" + "(" * 3000 + ")", ["not Python keyword arguments"]),
    ],
)
def test_all_mistakes_of_a_text_are_said(text, mistakes):
    with pytest.raises(StrategyError) as caught:
        get(text)
    for mistake in mistakes:
        assert mistake in caught.value.message


PLUGIN = '''
from dataclasses import dataclass
from typing import ClassVar

from autodist.compressors import Compressor, Exchanged


@dataclass(frozen=True)
class Mine(Compressor):
    """Sends the gradient as it is."""

    name: ClassVar[str] = "Mine"
    level: int = 1

    def message_bytes(self, shape, dtype):
        return 1

    def exchange(self, nodes, name, gradient, shape, dtype, channel):
        return Exchanged(channel.all_reduce("sum", gradient, dtype, shape), gradient)
'''


@pytest.fixture
def install(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    def install(source):
        (tmp_path / "plugin_mine.py").write_text(source)
        info = tmp_path / "plugin_mine-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin_mine\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[autodist.compressors]\nMine = plugin_mine:Mine\n")

    yield install
    sys.modules.pop("plugin_mine", None)


def test_plugins_are_found_by_their_entry_point(install):
    install(PLUGIN)
    assert str(get("ErrorFeedback(Mine(level=3))")) == "ErrorFeedback(Mine(level=3))"
    assert "Mine" in [one.name for one in registered()]


def test_a_broken_plugin_warns_and_only_its_own_use_fails(install):
    install("1 / 0")
    with pytest.warns(PluginWarning, match="the compressor `Mine` can't be loaded: ZeroDivisionError"):
        assert "Mine" not in [one.name for one in registered()]
    assert get("FP16") == FP16()
    with pytest.raises(StrategyError, match="can't be loaded"):
        get("Mine")
