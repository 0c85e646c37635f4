"""What the chief keeps with the run, for `autodist explain`: where that is not possible, training goes on."""

from types import SimpleNamespace

from autodist.coordination import Worker, WorkerEnvironment, announce, keep_exchanged
from autodist.resource_spec import ResourceSpec
from autodist.strategies import PSLoadBalancing
from tests.kernels.steps import captured


def test_a_directory_that_takes_no_files(tmp_path, caplog):
    graph = captured(num_dense=1, sparse=False)
    strategy = PSLoadBalancing().build(graph, ResourceSpec.local(2, 1))
    for directory, warnings in ((tmp_path, 0), (tmp_path / "gone", 3)):
        worker = Worker(WorkerEnvironment(run_dir=directory))
        caplog.clear()
        announce(strategy, SimpleNamespace(graph=graph), worker, 1, strategy)
        keep_exchanged((), worker, 1)
        assert caplog.text.count("can't be written: No such file or directory") == warnings
    assert {path.name for path in tmp_path.iterdir()} == {"strategy.1.json", "graph.1.zip", "exchanged.1.json"}
