"""Searches for the layout of every tensor of a step on a mesh of devices (SoyBean, Tofu, Spartan)."""

from autodist.search.tilings._baseline_tilings import Baseline, baseline_tiling, batch_dims
from autodist.search.tilings._coarse_graph import (
    CoarseGraph,
    CoarseOperator,
    CoarseTensor,
    Form,
    forms_of,
    linear_forms,
)
from autodist.search.tilings._coarsen import CoarseStep, coarsen
from autodist.search.tilings._device_memory import DeviceMemory, device_memory, tiling_within
from autodist.search.tilings._domains import Replicate, tile_bytes
from autodist.search.tilings._elimination import CostFactor, TooWide, eliminate, min_degree_order
from autodist.search.tilings._exchange_price import bytes_of_an_exchange
from autodist.search.tilings._factor_tables import Tables
from autodist.search.tilings._greedy import greedy
from autodist.search.tilings._plan_tiling import plan_tiling
from autodist.search.tilings._repeated import Quotient, alike_layers, alike_steps
from autodist.search.tilings._tiled_builder import Tiled
from autodist.search.tilings._tiling_search import FoundTiling, Method, SearchOptions, find_tiling, priced
from autodist.search.tilings._with_tiles import tiled_cuts, with_tiles

__all__ = [
    "Baseline",
    "CoarseGraph",
    "CoarseOperator",
    "CoarseStep",
    "CoarseTensor",
    "CostFactor",
    "DeviceMemory",
    "Form",
    "FoundTiling",
    "Method",
    "Quotient",
    "Replicate",
    "SearchOptions",
    "Tables",
    "Tiled",
    "TooWide",
    "alike_layers",
    "alike_steps",
    "baseline_tiling",
    "batch_dims",
    "bytes_of_an_exchange",
    "coarsen",
    "device_memory",
    "eliminate",
    "find_tiling",
    "forms_of",
    "greedy",
    "linear_forms",
    "min_degree_order",
    "plan_tiling",
    "priced",
    "tile_bytes",
    "tiled_cuts",
    "tiling_within",
    "with_tiles",
]
