"""D, the cluster: hosts, their devices and the links between them, from a YAML file or from this machine."""

from autodist.resource_spec._model import Device, Host, Link, ResourceSpec, Ssh
from autodist.resource_spec._ranges import expand_host_range

__all__ = ["Device", "Host", "Link", "ResourceSpec", "Ssh", "expand_host_range"]
