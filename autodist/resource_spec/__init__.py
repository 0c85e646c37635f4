"""D, the cluster: hosts, their devices and the links between them, from a YAML file or from this machine."""

from autodist.resource_spec._hostfile import parse_hostfile, read_hostfile
from autodist.resource_spec._hosts_and_links import BYTES_PER_GBIT, Device, Host, Link, Ssh
from autodist.resource_spec._hosts_option import parse_hosts
from autodist.resource_spec._mesh import Mesh
from autodist.resource_spec._model import ResourceSpec
from autodist.resource_spec._ranges import expand_host_range
from autodist.resource_spec._shared_cores import CoresOfWorkers, Processors, cores_of_workers
from autodist.resource_spec._slurm import is_in_slurm, read_slurm
from autodist.resource_spec._ssh_hosts import SshHost, read_ssh_config
from autodist.resource_spec._ssh_spec import cluster_of
from autodist.resource_spec._write import to_yaml

__all__ = [
    "BYTES_PER_GBIT",
    "CoresOfWorkers",
    "Device",
    "Host",
    "Link",
    "Mesh",
    "Processors",
    "ResourceSpec",
    "Ssh",
    "SshHost",
    "cluster_of",
    "cores_of_workers",
    "expand_host_range",
    "is_in_slurm",
    "parse_hostfile",
    "parse_hosts",
    "read_hostfile",
    "read_slurm",
    "read_ssh_config",
    "to_yaml",
]
