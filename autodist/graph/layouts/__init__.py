"""How the replicas of a step share each of its tensors, by what operators do."""

from autodist.graph.layouts._argument_layouts import ArgumentLayouts, Dims, cut_arguments, sent_bytes
from autodist.graph.layouts._base import (
    WHOLE,
    Cut,
    Dim,
    Layout,
    Multiple,
    Part,
    Partial,
    Rows,
    Shape,
    Stretch,
    Tile,
    Whole,
    bounds_of_part,
    factor_of,
    is_all_to_all,
)
from autodist.graph.layouts._batch_plan import BatchPlan, Exchange, NoPlanError
from autodist.graph.layouts._exchanged import Exchanged, exchanged_in
from autodist.graph.layouts._flows import Flows
from autodist.graph.layouts._made_of_others import can_be_made_of_others, made_of_others, with_reads
from autodist.graph.layouts._part_changes import PartChange
from autodist.graph.layouts._places import Bounds, common_places, places_from_others, places_within
from autodist.graph.layouts._plan import plan_batch
from autodist.graph.layouts._shapes import Inference, StepShapes
from autodist.graph.layouts._shapes_of import unlike_for
from autodist.graph.layouts._tile_exchanges import computed_whole, exchanges_of_groups, step_for_tiles, tile_exchanges
from autodist.graph.layouts._tiled_variables import TiledVariables
from autodist.graph.layouts._way import Entry, Way, is_part_of_mean

__all__ = [
    "WHOLE",
    "ArgumentLayouts",
    "BatchPlan",
    "Bounds",
    "Cut",
    "Dim",
    "Dims",
    "Entry",
    "Exchange",
    "Exchanged",
    "Flows",
    "Inference",
    "Layout",
    "Multiple",
    "NoPlanError",
    "Part",
    "PartChange",
    "Partial",
    "Rows",
    "Shape",
    "StepShapes",
    "Stretch",
    "Tile",
    "TiledVariables",
    "Way",
    "Whole",
    "bounds_of_part",
    "can_be_made_of_others",
    "common_places",
    "computed_whole",
    "cut_arguments",
    "exchanged_in",
    "exchanges_of_groups",
    "factor_of",
    "is_all_to_all",
    "is_part_of_mean",
    "made_of_others",
    "places_from_others",
    "places_within",
    "plan_batch",
    "sent_bytes",
    "step_for_tiles",
    "tile_exchanges",
    "unlike_for",
    "with_reads",
]
