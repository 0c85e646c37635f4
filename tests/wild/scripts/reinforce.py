"""REINFORCE: episodes in Python, probabilities from the model, gradients from an eager tape.

Kind: own loops
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(56)
with autodist.scope():
    policy = keras.Sequential([keras.Input((2,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(2)])
    optimizer = keras.optimizers.Adam(0.02)
    returns = []
    for episode in range(4):
        state, rewards, choices = np.array([0.0, 1.0], "float32"), [], []
        with tf.GradientTape() as tape:
            for _ in range(6):
                logits = policy(state[None])
                chance = float(tf.nn.softmax(logits)[0, 1])
                action = int(rng.random() < chance)
                choices.append(tf.nn.log_softmax(logits)[0, action])
                state = np.array([state[0] + action - 0.5, 1.0 - action], "float32")
                rewards.append(-abs(float(state[0])))
            gains = np.cumsum(rewards[::-1])[::-1].astype("float32")
            loss = -tf.reduce_sum(tf.stack(choices) * (gains - gains.mean()))
        optimizer.apply_gradients(zip(tape.gradient(loss, policy.trainable_variables), policy.trainable_variables))
        returns.append(sum(rewards))
found = {"weights": policy.get_weights(), "slots": [v.numpy() for v in optimizer.variables], "returns": returns}
