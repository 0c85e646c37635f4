"""Sessions of TensorFlow 1 graphs: what may be fetched and fed, and what goes wrong."""

import numpy as np
import pytest
import tensorflow as tf

import autodist
from autodist.errors import CaptureError, UsageError
from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec

v1 = tf.compat.v1
BATCH = np.arange(12, dtype=np.float32).reshape(4, 3)


class Regression:
    """y = x w + b towards the sum of x, with everything by its name."""

    def __init__(self, batch_size=None):
        self.x = v1.placeholder(tf.float32, [batch_size, 3], "x")
        self.rate = v1.placeholder(tf.float32, [], "rate")
        self.w = v1.get_variable("w", [3], initializer=v1.constant_initializer([1.0, 2.0, 3.0]))
        self.b = v1.get_variable("b", [], initializer=v1.zeros_initializer())
        self.error = tf.reduce_sum(self.x * self.w, 1) + self.b - tf.reduce_sum(self.x, 1)
        self.loss = tf.reduce_mean(tf.square(self.error), name="loss")
        self.steps = v1.train.get_or_create_global_step()
        self.train = v1.train.GradientDescentOptimizer(self.rate).minimize(self.loss, global_step=self.steps)
        self.feeds = {self.x: BATCH, self.rate: 0.001}


@pytest.fixture
def scope():
    ad = autodist.AutoDist()
    with tf.Graph().as_default(), ad.scope():
        yield ad


def test_fetches_of_every_kind(scope):
    model, session = Regression(), scope.Session()
    session.run(v1.global_variables_initializer())
    fetched = session.run({"loss": "loss:0", "all": [model.w, model.train], "fed": model.rate}, model.feeds)
    errors = (BATCH * [0, 1, 2]).sum(1)
    assert fetched["loss"] == pytest.approx(np.mean(errors**2))
    assert fetched["all"][1] is None
    assert fetched["fed"] == np.float32(0.001)
    after = session.run(model.w)
    np.testing.assert_allclose(after, [1, 2, 3] - 0.002 * (errors[:, None] * BATCH).mean(0), rtol=1e-5)
    assert session.run(model.steps) == 1
    assert session.run("w:0").tolist() == after.tolist()


def test_as_the_default_session(scope):
    with scope.Session() as session:
        model = Regression()
        v1.global_variables_initializer().run()
        model.train.run(model.feeds)
        assert model.loss.eval(model.feeds) == session.run(model.loss, model.feeds)
        assert v1.get_default_session() is session
    assert v1.get_default_session() is None


def test_gradients_by_hand(scope):
    """What `tf.gradients` returns is that of the whole batch, and may be clipped."""
    model, session = Regression(), scope.Session()
    clipped, norm = tf.clip_by_global_norm(tf.gradients(model.loss, [model.w, model.b]), 1.0)
    update = [v.assign_sub(g) for v, g in zip((model.w, model.b), clipped, strict=True)]
    session.run(v1.global_variables_initializer())
    before = np.append(*session.run([model.w, model.b]))
    _, found = session.run([update, norm], model.feeds)
    assert found > 1.0
    assert np.linalg.norm(before - np.append(*session.run([model.w, model.b]))) == pytest.approx(1.0, rel=1e-4)


def test_a_saver_writes_and_restores(scope, tmp_path):
    model, session = Regression(), scope.Session()
    saver = v1.train.Saver()
    session.run(v1.global_variables_initializer())
    session.run(model.train, model.feeds)
    saved = session.run([model.w, model.b])
    path = saver.save(session, str(tmp_path / "model"))
    session.run(model.train, model.feeds)
    assert session.run(model.b) != saved[1]
    saver.restore(session, path)
    restored = session.run([model.w, model.b])
    assert restored[0].tolist() == saved[0].tolist()
    assert restored[1] == saved[1]
    with tf.Graph().as_default(), v1.Session() as plain:
        other = Regression()
        v1.train.Saver().restore(plain, path)
        assert plain.run(other.w).tolist() == saved[0].tolist()


def test_a_variable_without_a_value_is_named(scope):
    model = Regression()
    scope.Session().run(model.w.initializer)
    with pytest.raises(UsageError, match=r"`b`, `global_step` have no value yet.*global_variables_initializer"):
        scope.Session().run(model.train, model.feeds)


def test_where_nothing_was_initialized_the_first_training_step_does_it_and_says_so(scope, caplog):
    """Only there: who has given some variables values, or restored them, has forgotten the others."""
    model = Regression()
    with caplog.at_level("INFO", "autodist"):
        scope.Session().run(model.train, model.feeds)
    assert "no variable has been initialized: initializing all 3 of the graph" in caplog.text
    assert scope.Session().run(model.steps) == 1


FIGURE = """
import autodist
# define the cluster specification
resource_spec = {spec}
ad = autodist.AutoDist(resource_spec,
                       strategy_builder="AUTO")
with ad.scope():
    # Build your model here
    {model}
    fetches = {fetches}
    feeddict = {feeds}
    ad.Session().run(fetches, feeddict)
"""
"""Figure 7.4 of Hao Zhang's thesis; TensorFlow 1 has a default graph, for TensorFlow 2 one has to be made."""


def test_the_figure_of_the_thesis_runs_as_it_is_printed():
    code = FIGURE.format(
        spec="autodist.resource_spec.ResourceSpec.local()",
        model="model = Regression()",
        fetches="[model.train, model.loss]",
        feeds="model.feeds",
    )
    given = {"Regression": Regression}
    with tf.Graph().as_default():
        exec(code + "    after = ad.Session().run(model.w)", given)
    with tf.Graph().as_default(), v1.Session() as plain:
        model = Regression()
        plain.run(v1.global_variables_initializer())
        plain.run(model.train, model.feeds)
        wanted = plain.run(model.w)
    assert not np.allclose(wanted, [1, 2, 3], rtol=1e-4)
    np.testing.assert_allclose(given["after"], wanted, rtol=1e-5)


@pytest.mark.parametrize(
    "open_scope", [autodist.AutoDist, lambda *given, **named: autodist.scope(*given, **named).__enter__()]
)
def test_a_strategy_has_one_name_at_a_time(open_scope):
    with pytest.raises(UsageError, match="both `strategy='PS'` and `strategy_builder='AUTO'` are given"):
        open_scope(None, "PS", strategy_builder="AUTO")


def test_all_sessions_of_a_graph_have_its_values(scope):
    model, first = Regression(), scope.Session()
    first.run(v1.global_variables_initializer())
    for _ in range(2):
        scope.Session().run(model.train, model.feeds)
    with scope.Session() as outer, scope.Session():
        assert outer.run(model.steps) == first.run(model.steps) == 2
    assert v1.get_default_session() is None
    with tf.Graph().as_default():
        other = scope.Session()
        assert other is not first


def test_a_batch_of_fixed_size_is_refused(scope):
    model, session = Regression(batch_size=4), scope.Session()
    session.run(v1.global_variables_initializer())
    with pytest.raises(UsageError, match=r"`x:0` is fed to a training step.*dim 0 is not free.*None"):
        session.run(model.train, model.feeds)
    assert session.run(model.loss, model.feeds) > 0


def losses_of(program, cpus):
    ad = autodist.AutoDist(spec=autodist.ResourceSpec.local(cpus=cpus))
    with tf.Graph().as_default(), ad.scope():
        return program(ad)


def with_iterator(ad):
    """No feeds: the batches come from the graph, the last one of a pass smaller."""
    rows = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
    iterator = v1.data.make_initializable_iterator(v1.data.Dataset.from_tensor_slices(rows).batch(4))
    x = iterator.get_next()
    w = v1.get_variable("w", [3, 1], initializer=v1.ones_initializer())
    loss = tf.reduce_mean(tf.square(x @ w - 1.0))
    train = v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    session = ad.Session()
    session.run(v1.global_variables_initializer())
    found = []
    for _ in range(2):
        session.run(iterator.initializer)
        for number in range(3):
            fetched, batch, _ = session.run([loss, x, train])
            np.testing.assert_array_equal(batch, rows[4 * number : 4 * number + 4])
            found.append(fetched)
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(train)
    return [*found, *session.run(w).ravel()]


def with_whole_arrays(ad):
    """Of several placeholders those with a free dim 0 are the batch, the others are for all replicas."""
    x, wanted = v1.placeholder(tf.float32, [None, 3]), v1.placeholder(tf.float32, [None])
    scale, rate = v1.placeholder(tf.float32, [3]), v1.placeholder_with_default(0.1, [])
    w = v1.get_variable("w", [3], initializer=v1.ones_initializer())
    loss = tf.reduce_mean(tf.square(tf.reduce_sum(x * scale * w, 1) - wanted))
    train = v1.train.GradientDescentOptimizer(rate).minimize(loss)
    session = ad.Session()
    session.run(v1.global_variables_initializer())
    call = session.make_callable([loss, train], [x, wanted, scale])
    found = [call(BATCH / 10, BATCH[:, 0], [1, 0.5, k])[0] for k in (1, 1, 2)]
    return [*found, *session.run(w)]


@pytest.mark.parametrize("program", [with_iterator, with_whole_arrays])
def test_two_replicas_as_one(program):
    one, two = losses_of(program, 1), losses_of(program, 2)
    np.testing.assert_allclose(two, one, rtol=1e-5)
    assert not np.allclose(two[-3:], 1.0)


def test_what_is_refused(scope):
    model, session = Regression(), scope.Session()
    with pytest.raises(UsageError, match="`options` and `run_metadata` were given"):
        session.run(model.loss, model.feeds, options=v1.RunOptions())
    queue = tf.queue.FIFOQueue(2, [tf.float32])
    with pytest.raises(UsageError, match="`fifo_queue`, queues of one session"):
        session.run(queue.dequeue())
    iterator = v1.data.make_one_shot_iterator(v1.data.Dataset.range(3))
    with pytest.raises(UsageError, match=r"one-shot iterator.*make_initializable_iterator"):
        session.run(iterator.get_next())
    with pytest.raises(UsageError, match="sparse tensor"):
        session.run(v1.sparse_placeholder(tf.float32))
    reference = v1.Variable([1.0], use_resource=False)
    with pytest.raises(CaptureError, match=r"`Variable` are reference variables.*use_resource=True"):
        v1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(reference))


def test_sessions_of_tensorflow_are_refused():
    def program(ad):
        model = Regression()
        with v1.Session() as session, pytest.raises(UsageError, match=r"`Session` of TensorFlow.*`ad.Session\(\)`"):
            session.run(model.loss, model.feeds)
        with pytest.raises(UsageError, match="instead of monitored sessions"), v1.train.MonitoredTrainingSession():
            pass

    losses_of(program, 2)


def test_only_where_a_graph_is_built():
    ad = autodist.AutoDist()
    with pytest.raises(UsageError, match="outside of its scope"):
        ad.Session()
    with ad.scope(), pytest.raises(UsageError, match="where no graph is being built"):
        ad.Session()


SCRIPT = """
import sys
import numpy as np, tensorflow as tf, autodist
v1 = tf.compat.v1
ad = autodist.AutoDist(strategy_builder="AUTO")
with tf.Graph().as_default(), ad.scope():
    v1.set_random_seed(1)
    x = v1.placeholder(tf.float32, [None, 3])
    w = v1.get_variable("w", [3, 2])
    loss = tf.reduce_mean(tf.square(tf.tanh(x @ w) - 0.5))
    train = v1.train.AdamOptimizer(0.01).minimize(loss)
    saver = v1.train.Saver()
    with ad.Session() as session:
        session.run(v1.global_variables_initializer())
        batches = [np.random.default_rng(step).normal(size=(8, 3)) for step in range(3)]
        np.save(sys.argv[1] + f"/losses.{ad.rank}", [session.run([loss, train], {x: batch})[0] for batch in batches])
        saver.save(session, sys.argv[1] + f"/{ad.rank}/model")
        writer = v1.summary.FileWriter(sys.argv[1] + f"/{ad.rank}", session.graph)
        writer.add_summary(v1.Summary(value=[v1.Summary.Value(tag="loss", simple_value=1.0)]), 1)
        writer.close()
"""


def kept(directory):
    """What a run of the script has saved."""
    reader = tf.train.load_checkpoint(str(directory / "0" / "model"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def test_on_two_workers_as_on_one(tmp_path, monkeypatch):
    """The chief alone writes the checkpoint; the random initial values are its own as well."""
    script, one, two = tmp_path / "train.py", tmp_path / "one", tmp_path / "two"
    script.write_text(SCRIPT)
    for folder in (one / "0", two / "0", two / "1"):
        folder.mkdir(parents=True)
    job = Job(script, ResourceSpec.local(2, 1), (str(two),), "PSLoadBalancing", run_dir=tmp_path / "run")
    assert LocalLauncher().launch(job).exit_code == 0
    assert list((two / "0").glob("events*"))
    assert not list((two / "1").iterdir())

    monkeypatch.setattr("sys.argv", ["train.py", str(one)])
    exec(SCRIPT, {})
    expected, found = kept(one), kept(two)
    assert found.keys() == expected.keys() >= {"w", "w/Adam", "w/Adam_1"}
    assert np.all(expected["w/Adam"]), "it has moved"
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-7, err_msg=name)
    for rank in range(2):
        np.testing.assert_allclose(np.load(two / f"losses.{rank}.npy"), np.load(one / "losses.0.npy"), rtol=1e-5)
