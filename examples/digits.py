"""Recognise handwritten digits with a small convolutional network, trained by `model.fit`.

    python examples/digits.py                                    on this machine alone
    autodist run examples/digits.py --workers 2                  the same script on two workers
    autodist run examples/digits.py --workers 2 -- --epochs 20   what follows `--` is for the script

The data are the 1,797 digits of 8x8 pixels that come with scikit-learn: nothing is downloaded.
"""

import argparse

import keras
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import autodist


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8, help="passes over the training data (%(default)s)")
    parser.add_argument("--batch-size", type=int, default=64, help="images per step, over all workers (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the weights, the split and the order (%(default)s)")
    parser.add_argument("--save", action="store_true", help="write the trained model to digits.keras")
    return parser.parse_args()


def load_datasets(batch_size, seed):
    """Return batches of training data and of held-out data, a fifth of the whole."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32).reshape(-1, 8, 8, 1)
    x_train, x_held_out, y_train, y_held_out = train_test_split(
        images, labels, test_size=0.2, stratify=labels, random_state=seed
    )
    # Every worker makes this dataset and reads its own part of each batch, so all of them need the same order:
    # a shuffle has a seed.
    train = tf.data.Dataset.from_tensor_slices((x_train, y_train)).shuffle(len(x_train), seed=seed).batch(batch_size)
    held_out = tf.data.Dataset.from_tensor_slices((x_held_out, y_held_out)).batch(batch_size)
    return train, held_out


def build_model():
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def main():
    arguments = parse_arguments()
    keras.utils.set_random_seed(arguments.seed)
    train, held_out = load_datasets(arguments.batch_size, arguments.seed)

    with autodist.scope():
        model = build_model()
        model.compile(
            optimizer=keras.optimizers.Adam(3e-3),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
        loss_before, accuracy_before = model.evaluate(held_out, verbose=0)
        model.fit(train, validation_data=held_out, epochs=arguments.epochs, verbose=2)
        loss, accuracy = model.evaluate(held_out, verbose=0)

    print(f"held-out loss: {loss_before:.6f} before training, {loss:.6f} after")
    print(f"held-out accuracy: {accuracy_before:.4f} before training, {accuracy:.4f} after")
    if arguments.save:
        model.save("digits.keras")  # an ordinary Keras file; of several workers, the first writes it


if __name__ == "__main__":
    main()
