"""Metrics other than means: AUC, F1, recall at precision, MeanIoU, top-k, R2, Pearson's.

Kind: metrics
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(63)
x = rng.normal(size=(50, 5)).astype("float32")
y = np.eye(3, dtype="float32")[(x[:, :3] + 0.3).argmax(1)]
with autodist.scope():
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(3, "softmax")])
    kinds = keras.metrics
    metrics = [
        kinds.AUC(name="auc"),
        kinds.AUC(curve="PR", multi_label=True, num_labels=3, name="pr"),
        kinds.F1Score(average="weighted", name="f1"),
        kinds.RecallAtPrecision(0.5, name="recall"),
        kinds.OneHotMeanIoU(3, name="iou"),
        kinds.TopKCategoricalAccuracy(2, name="top2"),
        kinds.R2Score(name="r2"),
        kinds.PearsonCorrelation(name="pearson"),
        kinds.KLDivergence(name="kl"),
    ]
    model.compile(keras.optimizers.SGD(0.3), "categorical_crossentropy", metrics=metrics)
    history = model.fit(x, y, batch_size=14, epochs=2, validation_split=0.3, shuffle=False, verbose=0)
    scores = model.evaluate(x, y, batch_size=16, verbose=0, return_dict=True)
found = {"weights": model.get_weights(), "history": history.history, "scores": scores}
