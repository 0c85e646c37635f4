"""Meshes: devices along named axes."""

import itertools
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodist.errors import SpecError
from autodist.resource_spec import Host, Mesh, ResourceSpec


def spec(*cpus):
    return ResourceSpec(tuple(Host(f"h{n}", f"h{n}", cpus=count) for n, count in enumerate(cpus)))


@pytest.mark.parametrize(
    ("cpus", "axes"),
    [
        ((2, 2, 2), (("host", 3), ("device", 2))),
        ((1, 1), (("host", 2),)),
        ((4,), (("device", 4),)),
        ((1,), (("device", 1),)),
        ((2, 1), (("device", 3),)),
    ],
)
def test_axes_are_hosts_and_devices(cpus, axes):
    mesh = Mesh.of(spec(*cpus))
    assert mesh.axes == axes
    assert mesh.devices == tuple(device.name for device in spec(*cpus).replicas)
    assert Mesh.from_json(mesh.to_json()) == mesh
    assert mesh.flat().axes == (("device", sum(cpus)),)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=3).filter(lambda lengths: prod(lengths) < 2000))
def test_factors_are_prime_and_the_largest_comes_first(lengths):
    mesh = Mesh(tuple((f"a{n}", length) for n, length in enumerate(lengths)), tuple(map(str, range(prod(lengths)))))
    factored = mesh.factored()
    assert factored.devices == mesh.devices
    by_axis = [
        [length for _, length in group]
        for _, group in itertools.groupby(factored.axes, lambda a: a[0].partition("_")[0])
    ]
    assert [prod(factors) for factors in by_axis] == lengths
    for factors in by_axis:
        assert factors == sorted(factors, reverse=True)
        assert all(n % k for n in factors for k in range(2, n))
    assert len({tuple(mesh.coordinates(d).items()) for d in mesh.devices}) == mesh.size


@pytest.mark.parametrize(
    ("axes", "devices", "message"),
    [
        ((), (), "no axis"),
        ((("a.b", 1),), ("x",), "Python names"),
        ((("a", 0),), (), "length 0"),
        ((("a", 1), ("a", 1)), ("x",), "called `a`"),
        ((("a", 2),), ("x", "x"), "twice"),
        ((("a", 2), ("b", 2)), ("x", "y"), "2 devices, its axes a=2 x b=2 have 4"),
    ],
)
def test_mistakes_are_named(axes, devices, message):
    with pytest.raises(SpecError, match=message):
        Mesh(axes, devices)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"axes": [["a", "2"]], "devices": []}', '{"axes": 1}', '{"axes": [[1, 1]]}']
)
def test_damaged_json_is_refused(text):
    with pytest.raises(SpecError, match="damaged"):
        Mesh.from_json(text)


def test_a_device_elsewhere_has_no_coordinates():
    with pytest.raises(SpecError, match="not in the mesh"):
        Mesh((("a", 1),), ("x",)).coordinates("y")
