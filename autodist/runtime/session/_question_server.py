"""Answers to what other workers ask while they take steps: a thread per question runs a small graph for each asking."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from autodist.error_text import said_by
from autodist.kernels import Question
from autodist.transport import refuse, withdraw

_LOG = logging.getLogger("autodist")
_STOP_TIMEOUT_S = 5.0
_AGAIN_S = 0.05


class QuestionServer:
    """Answers one question of one worker, again and again, until it is stopped or the workers are connected no more.

    A failure here fails the step of the worker that has asked, with the same words; the next asking is answered again.

    Args:
        question: What is asked.
        asker: By which worker.
        answer: Waits until it is asked, and answers once.
    """

    def __init__(self, question: Question, asker: int, answer: Callable[[], object]) -> None:
        self._question = question
        self._asker = asker
        self._answer = answer
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"autodist answers {question.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; later questions get no answer."""
        self._stopping = True  # first: what is withdrawn fails, and is not to be answered by that
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        while self._thread.is_alive() and time.monotonic() < deadline:
            withdraw(self._question.name, self._question.tensors)  # in vain if it is about to wait: hence again
            self._thread.join(_AGAIN_S)

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._answer()
            except Exception as error:
                if self._stopping:
                    return
                _LOG.debug("the question `%s` of worker %d: %s", self._question.name, self._asker, error)
                if not refuse(self._question.name, self._question.answers, self._asker, said_by(error)):
                    return
