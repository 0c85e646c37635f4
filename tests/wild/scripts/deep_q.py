"""Deep Q-learning: a replay buffer in Python, a target network that follows slowly, a step on drawn transitions.

Kind: own loops
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(57)


def network():
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(10, "relu"), keras.layers.Dense(2)])


ad = autodist.AutoDist()
with ad.scope():
    online, target = network(), network()
    target.set_weights(online.get_weights())
    optimizer = keras.optimizers.Adam(0.01, clipnorm=1.0)

    @ad.function
    def step(states, actions, rewards, following):
        wanted = rewards + 0.9 * tf.reduce_max(target(following), axis=1)
        with tf.GradientTape() as tape:
            values = tf.reduce_sum(online(states) * tf.one_hot(actions, 2), axis=1)
            loss = keras.losses.Huber()(tf.stop_gradient(wanted), values)
        optimizer.apply(tape.gradient(loss, online.trainable_variables), online.trainable_variables)
        for slow, fast in zip(target.trainable_variables, online.trainable_variables):
            slow.assign(0.9 * slow + 0.1 * fast)
        return loss

    buffer, state, losses = [], rng.normal(size=3).astype("float32"), []
    for k in range(24):
        action = int(np.argmax(online(state[None]).numpy())) if rng.random() < 0.5 else int(rng.integers(2))
        following = (0.8 * state + rng.normal(size=3) * 0.3).astype("float32")
        buffer.append((state, action, np.float32(following[action]), following))
        state = following
        if k >= 12 and k % 3 == 0:
            chosen = [buffer[i] for i in rng.integers(0, len(buffer), 10)]
            losses.append(step(*(tf.constant(np.array(part)) for part in zip(*chosen))))
found = {"weights": online.get_weights() + target.get_weights(), "losses": losses}
