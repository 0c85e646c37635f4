"""Complete a table of ratings by alternating least squares, ratings generated from a seed.

    python examples/arrays/als.py                                 on this machine alone
    autodist run examples/arrays/als.py --workers 2               the same script on two workers

What users like is found by their rows of the table, what movies are like by their columns. So each worker has half of
the rows and half of the columns: of one and the same argument, parts along two dims.
"""

import numpy as np
import tensorflow as tf

import autodist


def make_data(seed=0, users=1200, movies=1000, rank=6):
    random = np.random.default_rng(seed)
    table = random.normal(size=(users, rank)) @ random.normal(size=(rank, movies))
    known = random.random((users, movies)) < 0.2
    movie_factors = random.normal(scale=0.3, size=(movies, rank))
    return (table * known).astype(np.float32), known.astype(np.float32), movie_factors.astype(np.float32)


def factors_of(ratings, known, others):
    """By row of the ratings, the least squares solution by what is known of it."""
    rank = others.shape[1]
    squares = tf.reshape(others[:, :, None] * others[:, None], [-1, rank * rank])
    systems = tf.reshape(known @ squares, [-1, rank, rank]) + 0.1 * tf.eye(rank)
    return tf.linalg.solve(systems, (ratings @ others)[:, :, None])[:, :, 0]


@autodist.function(arrays=True)
def sweep(ratings, known, movies):
    """One turn; returns the movies' factors, and the error for the ratings that are known."""
    users = factors_of(ratings, known, movies)
    movies = factors_of(tf.transpose(ratings), tf.transpose(known), users)
    errors = known * (tf.matmul(users, movies, transpose_b=True) - ratings)
    return movies, tf.sqrt(tf.reduce_sum(errors**2) / tf.reduce_sum(known))


def solve(step, ratings, known, movies):
    """What comes out of five calls of `step`: the movies' factors, and the error after the first and the last."""
    errors = []
    for _ in range(5):
        movies, error = step(ratings, known, movies)
        errors.append(error)
    return {"movies": movies, "before": errors[0], "after": errors[-1]}


def main():
    with autodist.scope():
        found = solve(sweep, *make_data())
    print(f"error of known ratings: {found['before']:.4f} after 1 turn, {found['after']:.4f} after 5")


if __name__ == "__main__":
    main()
