"""`adversarial.py ours|plain TIMES`: trains a generator against a critic, traced anew so many times.

Prints how many different losses there were.
"""

import sys

import tensorflow as tf
from certify.features.several import adversarial

from autodist.runtime.session._orderings import keep_orderings_in_functions


class Plain:
    """In the place of a scope: the step is a `tf.function`, whose outputs are kept."""

    def __init__(self):
        self.outputs = []

    def function(self, step):
        compiled = tf.function(step)
        return lambda *arguments: self.outputs.extend(round(float(value), 4) for value in compiled(*arguments))


def losses():
    """Those of some steps in which the critic is called twice, updated, and called again."""
    plain = Plain()
    adversarial(plain)
    return tuple(plain.outputs)


if __name__ == "__main__":
    if sys.argv[1] == "ours":
        keep_orderings_in_functions()
    print(len({losses() for _ in range(int(sys.argv[2]))}))
