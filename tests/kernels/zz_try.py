import keras, numpy as np, pytest, tensorflow as tf
from . import single
from .test_replicate import check
from .test_share_batch import contrastive, simclr
import os

def model_of(kind):
    L = keras.layers
    if kind == "cnn":
        return keras.Sequential([keras.Input((8, 8, 1)), L.Conv2D(4, 3, activation="relu"), L.MaxPooling2D(), L.Conv2D(4, 2, padding="same"), L.GlobalAveragePooling2D(), L.Dense(3)])
    if kind == "bn":
        return keras.Sequential([keras.Input((8, 8, 1)), L.Conv2D(4, 3), L.BatchNormalization(), L.ReLU(), L.Flatten(), L.Dense(3)])
    if kind == "drop":
        return keras.Sequential([keras.Input((8, 8, 1)), L.Flatten(), L.Dense(8), L.Dropout(0.3, seed=3), L.Dense(3)])
    if kind == "lstm":
        return keras.Sequential([keras.Input((8, 8, 1)), L.Reshape((8, 8)), L.LSTM(4), L.Dense(3)])
    if kind == "attention":
        i = keras.Input((8, 8, 1)); h = L.Reshape((8, 8))(i)
        h = L.LayerNormalization()(h + L.MultiHeadAttention(2, 4)(h, h))
        return keras.Model(i, L.Dense(3)(L.GlobalAveragePooling1D()(h)))
    if kind == "embed":
        i = keras.Input((8, 8, 1)); h = L.Embedding(10, 4)(keras.ops.cast(keras.ops.abs(L.Reshape((64,))(i)) * 3, "int32") % 10)
        return keras.Model(i, L.Dense(3)(keras.ops.mean(h, 1)))
    if kind == "sep":
        return keras.Sequential([keras.Input((8, 8, 1)), L.SeparableConv2D(4, 3), L.DepthwiseConv2D(2), L.GroupNormalization(2), L.AveragePooling2D(2), L.Conv2DTranspose(3, 2), L.GlobalMaxPooling2D(), L.Dense(3)])
    if kind == "unet":
        i = keras.Input((8, 8, 1)); a = L.Conv2D(4, 3, padding="same", activation="gelu")(i); b = L.Conv2D(4, 3, strides=2, padding="same")(a)
        c = L.UpSampling2D()(b); d = L.Concatenate()([a, c]); return keras.Model(i, L.Dense(3)(L.Flatten()(L.Conv2D(2, 1)(d))))

@pytest.mark.parametrize("opt", ["sgd", "adam"])
@pytest.mark.parametrize("kind", ["cnn", "bn", "drop", "lstm", "attention", "embed", "sep", "unet"])
def test_models(kind, opt):
    keras.utils.set_random_seed(1)
    model = model_of(kind)
    optimizer = keras.optimizers.SGD(0.1) if opt == "sgd" else keras.optimizers.Adam(0.01, epsilon=1e-3)
    optimizer.build(model.trainable_variables)
    def step(x):
        with tf.GradientTape() as tape:
            p = model(x, training=True)
            loss = contrastive(p, tf.reshape(x, [tf.shape(x)[0], -1]))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss
    data = [[np.random.default_rng(k).normal(size=(8, 8, 8, 1)).astype("float32")] for k in range(2)]
    captured, graph = single.rewritten(step, data[0], 3)
    from autodist.graph.layouts import plan_batch
    an = captured.graph.analysis
    plan = plan_batch(captured.graph.with_batch_size(4096 if os.environ.get('BIG') else 8))
    print(kind, "nodes", len(plan.order))
    for t, es in plan.exchanges.items():
        for e in es:
            if e.travels:
                op = an.nodes[t.split(":")[0]].op
                for c in an.consumers.get(t.split(':')[0], ()):
                    for w in plan.ways.get(c, ()):
                        for i, l in zip([x for x in an.nodes[c].input if x[0] != "^"], w.inputs):
                            if i == t and l == e.target: print("     BY", c[-60:], an.nodes[c].op, [str(plan.layouts.get(x)) for x in an.nodes[c].input], w)
                print("  ", t[-70:], op, plan.shapes.shape(t), e.source, "->", e.target, "for", sorted({an.nodes[c].op for c in an.consumers.get(t.split(':')[0], ())}))
    before = [v.numpy() for v in model.variables]
    vs = list({id(v): v for v in [*[v.value for v in model.trainable_variables]]}.values())
    outs, after = [], None
    compiled = tf.function(step)
    allv = [v.value for v in (*model.variables, *optimizer.variables)]
    saved = [v.numpy() for v in allv]
    expected = [float(compiled(tf.constant(a))) for (a,) in data]
    want = {v.name.removesuffix(":0"): v.numpy() for v in vs}
    paths = [v.numpy() for v in vs]
    for v, s in zip(allv, saved): v.assign(s)
    ran = single.run(step, data, (3, 4, 1))
    print("warnings", ran.warnings)
    np.testing.assert_allclose([float(o[0]) for o in ran.outputs], expected, rtol=2e-5)
    found = {k: v for k, v in ran.variables.items()}
    import collections
    bad = []
    for v, w in zip(vs, paths):
        c = [f for n, f in found.items() if f.shape == w.shape]
        err = min(np.abs(f - w).max() / max(np.abs(w).max(), 1e-3) for f in c)
        if err > 2e-5: bad.append((v.name, err))
    print("bad", bad)
    assert not bad
