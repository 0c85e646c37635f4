"""Predict ratings by matrix factorisation: sparse embeddings on plain tf.Variables, with a custom training loop.

    python examples/ratings.py                                               on this machine alone
    autodist run examples/ratings.py --workers 2                             the same script on two workers
    autodist run examples/ratings.py --workers 2 -- --ratings ratings.csv    what follows `--` is for the script

`--ratings` reads the file of that name in MovieLens' data sets; without it, ratings are made up from a seed.
"""

import argparse
import math

import keras
import numpy as np
import tensorflow as tf

import autodist

HEADER = "userId,movieId,rating,timestamp"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ratings", metavar="PATH", help=f"a CSV file that starts with the line {HEADER}")
    parser.add_argument("--epochs", type=int, default=5, help="passes over the training data (%(default)s)")
    parser.add_argument("--batch-size", type=int, default=512, help="ratings per step, over all workers (%(default)s)")
    parser.add_argument("--factors", type=int, default=8, help="length of an embedding (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the weights, the split and the data (%(default)s)")
    arguments = parser.parse_args()
    try:
        data = read_ratings(arguments.ratings) if arguments.ratings else make_ratings(arguments.seed)
    except (OSError, ValueError) as error:
        parser.error(f"--ratings {arguments.ratings}: {error}")
    return arguments, data


def read_ratings(path):
    """Return users, movies (both numbered from 0) and ratings; a ValueError says what is wrong with the file."""
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        if (header := file.readline().strip()) != HEADER:
            raise ValueError(f"line 1 is {header[:60]!r}, it must be {HEADER!r}")
        rows = np.fromiter((parse(line, number) for number, line in enumerate(file, start=2)), dtype=(float, 3))
    if len(rows) < 10:
        raise ValueError(f"{len(rows)} ratings; at least 10 are needed, or there is nothing to hold out")
    users, movies = (np.unique(rows[:, column], return_inverse=True)[1].astype(np.int32) for column in (0, 1))
    return users, movies, rows[:, 2].astype(np.float32)


def parse(line, number):
    try:
        user, movie, rating, _ = (float(field) for field in line.split(","))
        if not math.isfinite(user + movie + rating):
            raise ValueError
    except ValueError:
        expected = "4 finite numbers like 1,31,2.5,1260759144"
        raise ValueError(f"line {number} is {line.rstrip()[:60]!r}, it must be {expected}") from None
    return user, movie, rating


def make_ratings(seed, users=600, movies=400, count=40_000, rank=3):
    """Return what `read_ratings` returns, of a low-rank truth with noise."""
    print(f"no --ratings given: {count:,} synthetic ratings of rank {rank} (seed {seed})")
    random = np.random.default_rng(seed)
    user, movie = random.integers(users, size=count), random.integers(movies, size=count)
    tastes, traits = random.normal(size=(users, rank)), random.normal(size=(movies, rank))
    truth = 3.5 + 0.4 * (tastes[user] * traits[movie]).sum(1) + 0.4 * random.normal(size=movies)[movie]
    ratings = np.clip(np.round(2 * (truth + random.normal(scale=0.3, size=count))) / 2, 0.5, 5)
    return user.astype(np.int32), movie.astype(np.int32), ratings.astype(np.float32)


class Factorisation(tf.Module):
    """rating = mean + user's bias + movie's bias + user's embedding · movie's embedding."""

    def __init__(self, users, movies, factors, mean, seed):
        super().__init__()
        random = np.random.default_rng(seed)
        self.mean = mean
        self.user_bias = tf.Variable(tf.zeros([users]), name="user_bias")
        self.movie_bias = tf.Variable(tf.zeros([movies]), name="movie_bias")
        self.user = tf.Variable(random.normal(scale=0.1, size=(users, factors)).astype(np.float32), name="user")
        self.movie = tf.Variable(random.normal(scale=0.1, size=(movies, factors)).astype(np.float32), name="movie")

    def __call__(self, user, movie):
        taste, trait = tf.nn.embedding_lookup(self.user, user), tf.nn.embedding_lookup(self.movie, movie)
        bias = tf.nn.embedding_lookup(self.user_bias, user) + tf.nn.embedding_lookup(self.movie_bias, movie)
        return self.mean + bias + tf.reduce_sum(taste * trait, axis=1)


def main():
    arguments, data = parse_arguments()
    order = np.random.default_rng(arguments.seed).permutation(len(data[0]))
    held_out, train = ([column[part] for column in data] for part in np.split(order, [len(order) // 10]))
    mean = train[2].mean()

    def rmse(predictions):
        return float(np.sqrt(np.mean(np.square(predictions - held_out[2]))))

    dataset = tf.data.Dataset.from_tensor_slices(tuple(train)).batch(arguments.batch_size)
    ad = autodist.AutoDist()
    with ad.scope():
        model = Factorisation(data[0].max() + 1, data[1].max() + 1, arguments.factors, mean, arguments.seed)
        optimizer = keras.optimizers.Adam(0.01)

        @ad.function
        def train_step(user, movie, rating):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(user, movie) - rating))
            gradients = tape.gradient(loss, model.trainable_variables)  # tf.IndexedSlices: of the rows looked up
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        before = rmse(model(*held_out[:2]))
        for epoch in range(1, arguments.epochs + 1):
            losses = [train_step(*batch) for batch in ad.shard(dataset)]
            print(f"epoch {epoch}: RMSE {np.sqrt(np.mean(losses)):.4f} in training")

    after = rmse(model(*held_out[:2]))
    print(f"held-out RMSE: {before:.4f} before training, {after:.4f} after; predicting the mean gives {rmse(mean):.4f}")


if __name__ == "__main__":
    main()
