"""Let heat spread over a plate, some places of which are heated (finite differences).

    python examples/arrays/heat.py                            on this machine alone
    autodist run examples/arrays/heat.py --workers 2          the same script on two workers

Each worker has half of the plate. In each turn it is given the row of the other half that is next to its own.
"""

import numpy as np
import tensorflow as tf

import autodist


def make_data(seed=0, size=1000, heated=40):
    random = np.random.default_rng(seed)
    sources = np.zeros([size, size], np.float32)
    sources[tuple(random.integers(1, size - 1, size=[2, heated]))] = 1.0
    return np.zeros([size, size], np.float32), sources


@autodist.function(arrays=True)
def warmed(plate, sources):
    """The mean of each row and the highest temperature after 50 turns; the border stays cold."""
    for _ in tf.range(50):
        inner = plate[1:-1, 1:-1]
        near = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
        plate = tf.pad(inner + 0.2 * (near - 4 * inner), [[1, 1], [1, 1]]) + sources
    return tf.reduce_mean(plate, 1), tf.reduce_max(plate)


def solve(step, *data):
    """What comes out of a call of `step`."""
    rows, highest = step(*data)
    return {"rows": rows, "highest": highest}


def main():
    with autodist.scope():
        found = solve(warmed, *make_data())
    rows = np.asarray(found["rows"])
    print(
        f"row {np.argmax(rows)} is the warmest, with {rows.max():.3f} on average; the highest is {found['highest']:.2f}"
    )


if __name__ == "__main__":
    main()
