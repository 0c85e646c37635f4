"""Learn to write Python: a character-level LSTM over the standard library's source, with a custom training loop.

    python examples/char_lm.py                                    on this machine alone
    autodist run examples/char_lm.py --workers 2                  the same script on two workers
    autodist run examples/char_lm.py --workers 2 -- --steps 600   what follows `--` is for the script

Nothing is downloaded: the text comes from the Python that runs the script.
"""

import argparse
import math
import sysconfig
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import autodist

ALPHABET = "\n" + "".join(map(chr, range(32, 127)))  # printable ASCII; everything else is left out
CONTEXT = 48  # characters the model sees at a time
HELD_OUT = 256  # sequences


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300, help="training steps (%(default)s)")
    parser.add_argument("--batch-size", type=int, default=64, help="sequences per step, over all workers (%(default)s)")
    parser.add_argument("--units", type=int, default=192, help="width of the LSTM (%(default)s)")
    parser.add_argument("--log-every", type=int, default=50, help="steps between two lines of progress (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the weights, the order and the sample (%(default)s)")
    return parser.parse_args()


def load_sequences(limit=2_000_000):
    """Return the first `limit` characters of the standard library as rows of CONTEXT + 1 character numbers."""
    paths = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    text = "".join(path.read_text(encoding="utf-8", errors="ignore") for path in paths)[:limit]
    number = {character: i for i, character in enumerate(ALPHABET)}
    numbers = np.array([number[character] for character in text if character in number], np.int32)
    return numbers[: len(numbers) // (CONTEXT + 1) * (CONTEXT + 1)].reshape(-1, CONTEXT + 1)


def build_model(units):
    return keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            keras.layers.Embedding(len(ALPHABET), 32),
            keras.layers.LSTM(units, return_sequences=True),
            keras.layers.Dense(len(ALPHABET)),
        ]
    )


def mean_loss(model, sequences, training=False):
    """Return the mean cross-entropy, in nats, of each character given those before it in its row."""
    logits = model(sequences[:, :-1], training=training)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(sequences[:, 1:], logits))


def bits_per_character(model, sequences):
    return float(mean_loss(model, sequences)) / math.log(2)


def sample(model, prompt, length, seed):
    random = np.random.default_rng(seed)
    predict = tf.function(model, reduce_retracing=True)
    numbers = [ALPHABET.index(character) for character in prompt]
    for _ in range(length):
        probabilities = tf.nn.softmax(predict(tf.constant([numbers[-CONTEXT:]]))[0, -1]).numpy().astype(float)
        numbers.append(int(random.choice(len(ALPHABET), p=probabilities / probabilities.sum())))
    return "".join(ALPHABET[number] for number in numbers)


def main():
    arguments = parse_arguments()
    keras.utils.set_random_seed(arguments.seed)
    sequences = np.random.default_rng(arguments.seed).permutation(load_sequences())
    held_out, train = sequences[:HELD_OUT], sequences[HELD_OUT:]
    dataset = tf.data.Dataset.from_tensor_slices(train).repeat().batch(arguments.batch_size).take(arguments.steps)

    ad = autodist.AutoDist()
    with ad.scope():
        model = build_model(arguments.units)
        optimizer = keras.optimizers.Adam(5e-3)

        @ad.function
        def train_step(batch):
            with tf.GradientTape() as tape:
                loss = mean_loss(model, batch, training=True)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        before = bits_per_character(model, held_out)
        for step, batch in enumerate(ad.shard(dataset), start=1):
            loss = train_step(batch)
            if step % arguments.log_every == 0:
                print(f"step {step}: loss {float(loss):.4f}")

    print(f"held-out bits per character: {before:.4f} before training, {bits_per_character(model, held_out):.4f} after")
    print("sample:", sample(model, "def ", 160, arguments.seed), sep="\n")


if __name__ == "__main__":
    main()
