"""The numbers by which TensorFlow's workers know requests."""

import json
import subprocess
import sys

import pytest

SLOTS = """
import ctypes, json
import tensorflow as tf
from autodist.runtime.session._request_ids import number_requests_by_one_generator
from autodist.transport._symbols import slots_of

def called(function):
    return [ctypes.c_uint64.from_address(slot).value for slot in slots_of(function, "libtensorflow_cc.")]

per_thread, of_process = (f"_ZN3tsl6random{name}Ev" for name in ("16ThreadLocalNew64", "5New64"))
before = called(per_thread)
changed = number_requests_by_one_generator(), number_requests_by_one_generator()
# Slots are filled by the first call: this one numbers a step and a request.
server = tf.distribute.Server.create_local_server()
with tf.Graph().as_default(), tf.compat.v1.Session(server.target) as session:
    total = float(session.run(tf.constant(1.0) + 2.0))
after = called(per_thread)
print(json.dumps([len(before), changed, total, before != after, after == called(of_process)]))
"""
NUMBERS = """
import _thread, ctypes, json, os
import tensorflow as tf
from autodist.runtime.session._request_ids import number_requests_by_one_generator

library = ctypes.CDLL(os.path.join(tf.sysconfig.get_lib(), "libtensorflow_cc.so.2"))
draw = library["_ZN10tensorflow18GetUniqueRequestIdEv"]
draw.restype = ctypes.c_uint64
drawn, done = [], _thread.allocate_lock()

def take():
    drawn.append(draw())
    done.release()

def repeated(threads):
    drawn.clear()
    for _ in range(threads):
        done.acquire()
        _thread.start_new_thread(take, ())
    with done:
        return threads - len(set(drawn))

before = repeated(250_000)
assert number_requests_by_one_generator()
print(json.dumps([before, repeated(250_000)]))
"""


def printed(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_requests_are_numbered_by_the_generator_that_numbers_steps():
    assert printed(SLOTS) == [1, [True, True], 3.0, True, True]


@pytest.mark.slow
def test_threads_never_draw_the_same_number():
    # Of 250,000 seeds of 32 bits 7.3 pairs are equal on average; one try of 1,400 has none.
    before, after = printed(NUMBERS)
    assert after == 0
    assert before > 0, "what TensorFlow does by itself; else this code has become needless"
