"""End the process that started this one when it has too much memory, as the kernel ends what a control group has.

Usage: memory_watch.py BEFORE_MB LIMIT_MB FILE; counts memory that belongs to no file beyond BEFORE_MB, and writes the
most that it has seen, and whether it ended the process, into FILE. A limit of 0 ends nothing.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

_EVERY_S = 0.005


def main():
    before_mb, limit_mb, file = float(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])
    parent, most, told = os.getppid(), 0.0, -1.0
    while os.getppid() == parent:
        now = held_mb(parent) - before_mb
        is_over = 0 < limit_mb < now
        if is_over:
            os.kill(parent, signal.SIGKILL)
        most = max(most, now)
        if is_over or most > told + 1:
            told = most
            file.write_text(json.dumps({"most_mb": most, "is_over": is_over}))
        if is_over:
            return
        time.sleep(_EVERY_S)


def held_mb(pid):
    """Memory of a process that belongs to no file; 0 of one that is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    kinds = ("RssAnon", "RssShmem")
    return sum(int(line.split()[1]) for line in lines if line.startswith(kinds)) * 1024 / 1e6


if __name__ == "__main__":
    main()
