"""The end of iterators over datasets, for which TensorFlow's own thread may be asleep."""

import json
import subprocess
import sys

ENDS = """
import json, sys, time
import tensorflow as tf
from autodist.runtime.data import _iterators

_iterators.let_go_of_iterators_in_time()
_iterators._USUAL_S = 1.0

class Slow(list):
    "What an iterator is held by, whose end takes as long as it takes TensorFlow to wake its thread up."
    def clear(self):
        time.sleep(8.0)
        super().clear()

seen, took_s = [], []
for slow in (False, True):
    iterator = iter(tf.data.Dataset.range(4).map(lambda x: 2 * x, tf.data.AUTOTUNE))
    resource = iterator._iterator_resource
    seen.append([int(next(iterator)), resource.dtype.name])
    del resource
    begun_s = time.perf_counter()
    if slow:
        _iterators._drop(Slow())
    del iterator
    took_s.append(time.perf_counter() - begun_s)

ended = []
def numbers():
    try:
        yield from range(10)
    finally:
        ended.append(True)

iterator = iter(tf.data.Dataset.from_generator(numbers, output_signature=tf.TensorSpec([], tf.int32)))
next(iterator)
del iterator
print(json.dumps([seen, took_s, list(map(int, tf.data.Dataset.range(3).as_numpy_iterator())), len(ended)]))
"""


def test_who_lets_go_of_an_iterator_does_not_wait_for_a_thread_that_is_asleep():
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    seen, (quick_s, slow_s), numbers, ended = json.loads(done.stdout.splitlines()[-1])
    assert seen == [[0, "resource"]] * 2
    assert quick_s < 1.0
    assert 1.0 <= slow_s < 7.0
    assert numbers == [0, 1, 2]
    assert ended == 1, "what ends with an iterator has ended when it's gone, as without us"


INTERRUPTED = """
import _thread, threading, time, weakref
from autodist.runtime.data import _iterators

class Slow(list):
    def clear(self):
        time.sleep(0.5)

class Object:
    pass

_iterators._USUAL_S = 10.0
ending = Object()
weakref.finalize(ending, _iterators._drop, Slow())
threading.Timer(0.1, _thread.interrupt_main).start()
began = time.monotonic()
try:
    del ending
    time.sleep(30)
    print("lost")
except KeyboardInterrupt:
    print("heard" if time.monotonic() - began < 20 else "heard late")
"""


def test_an_interruption_while_an_iterator_ends_is_heard():
    """What is raised in a finalizer, Python ignores; and it has to wake what waits by then."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["heard"], done.stderr
