"""Training loops with checkpoints: killed at any step, they end with the weights of a run that was not."""

from .runs import assert_same, run


def test_three_kills(tmp_path):
    _, expected = run("loop.py", tmp_path / "one", strategy="AllReduce(communicator='collective')")
    kills = ("0:1:5", "1:0:10", "2:1:22")
    result, found = run("loop.py", tmp_path / "two", strategy="AllReduce(communicator='collective')", kills=kills)
    assert_same(found, expected)
    assert [attempt.checkpoint.restored for attempt in (*result.earlier, result)] == [0, 3, 9, 21]
    assert list(found[0]["taken"]) == [21, 22, 23]
