"""Variables: the program's own, their copies in the session, and where these live."""

from autodist.runtime.state._filed_variables import keep_values_in_files
from autodist.runtime.state._handle_access import HandleAccess
from autodist.runtime.state._lost_values import LOST_VALUES
from autodist.runtime.state._placements import Placements
from autodist.runtime.state._state_store import StateStore

__all__ = [
    "LOST_VALUES",
    "HandleAccess",
    "Placements",
    "StateStore",
    "keep_values_in_files",
]
