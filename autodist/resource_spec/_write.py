"""A resource spec as YAML that people go on with."""

from __future__ import annotations

from collections.abc import Mapping

from autodist.resource_spec._model import ResourceSpec


def to_yaml(spec: ResourceSpec, *, header: str = "", notes: Mapping[str, str] | None = None) -> str:
    r"""Return a text that :meth:`ResourceSpec.from_yaml` reads as this spec.

    Args:
        spec: The cluster.
        header: Comment for the top; lines are wrapped.
        notes: Comments by the name of a host; that of the first worker on an address counts.

    Raises:
        SpecError: The format can't say it: several workers on an address differ, or have odd shares of its GPUs, or a
            host's name is not its address.

    Example:
        >>> spec = ResourceSpec.from_yaml("nodes: [{address: a, gpus: [0, 1]}, {address: b}]")
        >>> print(to_yaml(spec, notes={"b": "slow"}), end="")
        version: 1
        nodes:
          - address: a
            chief: true
            gpus: 2
          # slow
          - address: b
    """
    from autodist.resource_spec._yaml_text import write

    return write(spec, header, notes or {})
