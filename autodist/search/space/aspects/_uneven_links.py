"""Whether hosts' links differ by more than measurements of one link do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autodist.resource_spec import ResourceSpec

_UNEVEN = 1.2
"""The factor up to which measurements of equal links differ."""


def has_uneven_links(spec: ResourceSpec) -> bool:
    """Whether some links are clearly slower than others.

    Example:
        >>> from autodist.resource_spec import Host, ResourceSpec
        >>> fast = Host("a", "a"), Host("b", "b")
        >>> [has_uneven_links(ResourceSpec((*fast, Host("c", "c", bandwidth_gbps=rate)))) for rate in (1.0, 0.1)]
        [False, True]
    """
    return spec.evenness * _UNEVEN < 1
