"""What is urgent overtakes what waits for the socket, but for the little that the next call of the system takes."""

import os
import shlex
import subprocess
from pathlib import Path

import autodist.transport

NATIVE = Path(autodist.transport.__file__).parent / "native"
MOST_BYTES = 3 * (128 << 10)
"""One piece in the socket, one that has been begun, and what is to leave after it."""


def test_what_is_urgent_overtakes_what_waits(tmp_path):
    program = tmp_path / "overtaking"
    sources = [Path(__file__).with_name("overtaking.cc"), NATIVE / "peer.cc", NATIVE / "floats.cc"]
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    subprocess.run([*compiler, "-std=c++17", f"-I{NATIVE}", "-o", program, *sources], check=True, timeout=120)
    told = subprocess.run([program], check=True, capture_output=True, text=True, timeout=30).stdout
    assert 0 < int(told) <= MOST_BYTES
