"""What somebody between two workers finds out, and what comes of it if he changes something."""

import contextlib
import os
import socket
import subprocess
import sys
import threading

from tests.transport.encrypted_worker import SECRET

CHANGED_AT = 500_000


class Between:
    """Forwards what two ends say, keeps it, and changes a bit of it if asked to."""

    def __init__(self, changed_at=None):
        self.ends, self._inner = zip(*(socket.socketpair() for _ in range(2)), strict=True)
        self.heard = [bytearray(), bytearray()]
        self._changed_at = changed_at
        self._threads = [
            threading.Thread(target=self._forward, args=(source, *self._inner[:: 1 - 2 * source])) for source in (0, 1)
        ]
        for thread in self._threads:
            thread.start()

    def close(self):
        """Once both ends are closed, there is nothing to be heard any more."""
        for thread in self._threads:
            thread.join()
        for end in self._inner:
            end.close()

    def _forward(self, source, reading, writing):
        heard = self.heard[source]
        with contextlib.suppress(OSError), self._ending(reading, writing):
            while part := reading.recv(1 << 16):
                at = None if self._changed_at is None or source else self._changed_at - len(heard)
                heard += part
                if at is not None and 0 <= at < len(part):
                    part = part[:at] + bytes([part[at] ^ 1]) + part[at + 1 :]
                writing.sendall(part)

    @staticmethod
    @contextlib.contextmanager
    def _ending(*ends):
        """When one of them has ended, so does the other."""
        try:
            yield
        finally:
            for end in ends:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)


def test_who_stands_between_reads_nothing_and_changes_nothing():
    ways = {name: Between() for name in ("plain", "encrypted", "another key")}
    ways["changed"] = Between(CHANGED_AT)
    workers = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.transport.encrypted_worker", str(rank)),
                *(f"{name}={way.ends[rank].fileno()}" for name, way in ways.items()),
            ],
            pass_fds=[way.ends[rank].fileno() for way in ways.values()],
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in (0, 1)
    ]
    for way in ways.values():
        for end in way.ends:
            end.close()
    try:
        told = [worker.communicate(timeout=100)[0] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
        for way in ways.values():
            way.close()
    assert [worker.returncode for worker in workers] == [0, 0], told
    assert all("all is as it should be" in output for output in told), told
    assert "was changed on the way" in told[1], "who gets what was changed says so"
    for heard in ways["plain"].heard:
        assert SECRET * 1000 in heard, "it is found where it is to be found"
    for heard in ways["encrypted"].heard:
        assert len(heard) > len(SECRET) * 8_000
        assert SECRET not in heard
