"""Train one of the models of `examples/models` on made-up data.

python examples/train_model.py --list
autodist run examples/train_model.py --workers 2 --strategy Parallax -- bert_3 --size tiny --steps 20
"""

import argparse
import sys
import time

import keras
import models

import autodist


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", default="bert_3", help="the model (%(default)s)")
    parser.add_argument("--list", action="store_true", help="list the models and end")
    parser.add_argument("--size", choices=models.SIZES, default="small", help="(%(default)s)")
    parser.add_argument("--steps", type=int, default=20, help="training steps (%(default)s)")
    parser.add_argument("--batch-size", type=int, help="examples per step, over all workers")
    parser.add_argument("--norm", choices=("batch", "group"), help="normalization of image models")
    parser.add_argument("--batch-norm", choices=("replica", "synchronized"), default="replica", help="(%(default)s)")
    parser.add_argument("--floats", choices=("float32", "float64"), default="float32", help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and data (%(default)s)")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    if arguments.list:
        for name in models.names():
            print(f"{name:<16}{models.get(name).summary}")
        return
    keras.config.set_floatx(arguments.floats)
    if arguments.size not in models.get(arguments.name).sizes:
        sys.exit(f"{arguments.name} has no size `{arguments.size}`, but {', '.join(models.get(arguments.name).sizes)}")
    changes = {"batch_size": arguments.batch_size, "norm": arguments.norm}
    changes = {name: value for name, value in changes.items() if value is not None}
    ad = autodist.AutoDist(batch_norm=arguments.batch_norm)
    with ad.scope():
        training = models.get(arguments.name).build(arguments.size, seed=arguments.seed, **changes)
        step = ad.function(training.step)
        began = time.perf_counter()
        for number in range(arguments.steps):
            loss = float(step(*training.batch(number % 8)))
            if number == 0:
                print(
                    f"step 1: loss {loss:.4f} after {time.perf_counter() - began:.1f} s, tracing included", flush=True
                )
                began = time.perf_counter()
    if arguments.steps > 1:
        each_ms = 1000 * (time.perf_counter() - began) / (arguments.steps - 1)
        print(f"step {arguments.steps}: loss {loss:.4f}, {each_ms:.1f} ms per step")


if __name__ == "__main__":
    main()
