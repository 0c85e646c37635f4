"""A worker that waits, and does not end when it is asked to."""

import signal
import time

from autodist.coordination import CoordinatorClient, WorkerEnvironment

signal.signal(signal.SIGTERM, signal.SIG_IGN)
CoordinatorClient.of(WorkerEnvironment.from_environ()).barrier("up", 120)
print("up", flush=True)
time.sleep(600)
