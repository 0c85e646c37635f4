"""Plans of tilings in words: a line for each repeated block, what differs, what does not fit."""

import dataclasses

import pytest

from autodist.errors import StrategyError
from autodist.graph import Role
from autodist.resource_spec import Mesh
from autodist.strategies.tiling import TensorLayout, TilingPlan, diff_tilings, explain_tiling, tiling_problems

from ..examples import graph, variable

MESH = Mesh((("host", 2), ("device", 2)), tuple(f"{host}:CPU:{k}" for host in "ab" for k in range(2)))
BLOCKS = [f"block_{k}/{way}/kernel" for k in range(12) for way in ("up", "down")]
G = graph(*(variable(name, (64, 128)) for name in BLOCKS), variable("scale", (1,)), variable("head", (128, 8)))
LAYOUTS = {name: TensorLayout.parse("*,host.device" if "up" in name else "host,*") for name in BLOCKS}
PLAN = TilingPlan(
    MESH,
    {**LAYOUTS, "scale": TensorLayout.whole(1), "head": TensorLayout.whole(2)},
    moved_bytes=2e6,
    device_bytes=3e5,
    gathered=frozenset(name for name in BLOCKS if "down" in name),
    whole=tuple(f"softmax_{k}" for k in range(7)),
)


def test_there_is_a_line_for_each_repeated_block():
    assert explain_tiling(PLAN, G).splitlines() == [
        "mesh host=2 x device=2: 2.0 MB are moved in a step, a device keeps 300.0 kB",
        "block_0/up/kernel to block_11/up/kernel (12), (64, 128): *,host.device, 393.2 kB, 98.3 kB on each device, "
        "operators take it as it lies",
        "block_0/down/kernel to block_11/down/kernel (12), (64, 128): host,*, 393.2 kB, 196.6 kB on each device, "
        "gathered where operators take it",
        "head, (128, 8): *,*, 4.1 kB, 4.1 kB on each device, fewer bytes move if it is whole",
        "scale, (1,): *, 4 bytes, 4 bytes on each device, it has no dim as long as an axis of the mesh",
        "7 operators can't be cut and run whole on every device: softmax_0, softmax_1, softmax_2, softmax_3, softmax_4 "
        "and 2 more",
    ]


def test_slots_that_lie_as_their_variable_have_no_line():
    slots = [variable(f"w_{way}", (8, 4), role=Role.SLOT) for way in ("momentum", "velocity")]
    slots = [dataclasses.replace(slot, owners=("w",)) for slot in slots]
    layouts = {"w": "*,host", "w_momentum": "*,host", "w_velocity": "*,*"}
    plan = TilingPlan(MESH, {name: TensorLayout.parse(text) for name, text in layouts.items()})
    assert explain_tiling(plan, graph(variable("w", (8, 4)), *slots)).splitlines()[1:] == [
        "w with 1 slot, (8, 4): *,host, 256 bytes, 128 bytes on each device, operators take it as it lies",
        "w_velocity, (8, 4): *,*, 128 bytes, 128 bytes on each device, fewer bytes move if it is whole",
    ]


def test_what_differs_is_listed():
    others = {**PLAN.variables, "head": TensorLayout.parse("host,*"), "more": TensorLayout.whole(1)}
    del others["scale"]
    other = dataclasses.replace(PLAN, variables=others, moved_bytes=1e6, gathered=PLAN.gathered - {BLOCKS[1]})
    assert list(map(str, diff_tilings(PLAN, other))) == [
        "moved in a step: 2.0 MB or 1.0 MB",
        "`block_0/down/kernel`: use: gathered or taken as it lies",
        "`scale`: layout: * or nothing",
        "`head`: layout: *,* or host,*",
        "`more`: layout: nothing or *",
    ]
    assert diff_tilings(PLAN, PLAN) == ()


def test_what_does_not_fit_is_said():
    layouts = {
        **PLAN.variables,
        "scale": TensorLayout.parse("host"),
        "head": TensorLayout.parse("*,* +host"),
        "gone": TensorLayout.whole(2),
    }
    del layouts[BLOCKS[0]]
    plan = TilingPlan(MESH, layouts, gathered=frozenset({"nowhere"}))
    assert sorted(map(str, tiling_problems(plan, G))) == [
        "`block_0/up/kernel`: layout is none, allowed: one for each variable of the step (the plan does not name it)",
        "`gone`: layout is *,*, allowed: variables of the step (the step has no such variable)",
        "`head`: layout is *,* +host, allowed: no `+` (variables are kept, not summed up in each step)",
        "`nowhere`: gathered is yes, allowed: variables of the plan (the plan has no layout for it)",
        "`scale`: layout is host, allowed: up to 1 part of dim 0 (host=2 makes 2)",
    ]
    assert tiling_problems(PLAN, G) == ()
    with pytest.raises(StrategyError, match="does not fit the step:\n  - `"):
        explain_tiling(plan, G)
