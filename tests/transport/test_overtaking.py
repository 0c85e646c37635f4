"""What is urgent overtakes what waits for the socket, but for the little that the next call of the system takes."""

import subprocess

from tests.transport.native import built

MOST_BYTES = 3 * (128 << 10)
"""One piece in the socket, one that has been begun, and what is to leave after it."""


def test_what_is_urgent_overtakes_what_waits(tmp_path):
    program = built(tmp_path, "overtaking.cc", of=("channel.cc", "peer.cc", "floats.cc"))
    told = subprocess.run([program], check=True, capture_output=True, text=True, timeout=30).stdout
    assert 0 < int(told) <= MOST_BYTES
