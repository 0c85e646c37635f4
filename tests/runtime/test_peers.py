"""Errors of steps that only tell of another worker's are told apart from those of this one."""

import pytest
import tensorflow as tf

from autodist.coordination import Worker, WorkerEnvironment, _peers
from autodist.errors import WorkerFailed

FROM_ELSEWHERE = (
    "Additional GRPC error information from remote target /job:worker/replica:0/task:2 while calling RecvBuf"
)


@pytest.fixture
def told(monkeypatch):
    monkeypatch.setattr(_peers.time, "sleep", lambda _: None)

    def told(error, world_size=2):
        with (
            pytest.raises((WorkerFailed, tf.errors.OpError)) as caught,
            _peers.peer_failures(Worker(WorkerEnvironment(world_size=world_size))),
        ):
            raise error
        return caught.value

    return told


@pytest.mark.parametrize(
    "error",
    [
        tf.errors.UnavailableError(None, None, "Connection reset by peer"),
        tf.errors.UnknownError(None, None, "Horovod has been shut down. This was caused by ..."),
        tf.errors.OutOfRangeError(None, None, "FIFOQueue 'q' is closed and has insufficient elements"),
        tf.errors.InternalError(None, None, f"Delete called on non-empty BufRendezvous\n{FROM_ELSEWHERE}"),
        tf.errors.InternalError(None, None, f"Collective ops is aborted by: Delete called\n{FROM_ELSEWHERE}"),
    ],
)
def test_errors_of_another_worker_are_told_as_its_end(error, told):
    assert "another worker is gone" in told(error).message
    assert told(error, world_size=1) is error


@pytest.mark.parametrize(
    "error",
    [
        tf.errors.InvalidArgumentError(None, None, "broken data"),
        tf.errors.InternalError(None, None, "Collective ops is aborted by: broken data"),
        tf.errors.OutOfRangeError(None, None, "End of sequence"),
    ],
)
def test_errors_of_this_worker_stay_as_they_are(error, told):
    assert told(error) is error
