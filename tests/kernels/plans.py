"""Clusters and strategies of these tests: hosts with some CPU devices, variables given to servers in turn."""

import itertools

from autodist.resource_spec import Host, ResourceSpec
from autodist.strategies import GraphConfig, PSSynchronizer, Strategy, VariableConfig


def hosts(*cpus):
    """A cluster of the hosts `h0`, `h1`... with so many CPU devices each."""
    return ResourceSpec(tuple(Host(f"h{k}", f"h{k}", cpus=count) for k, count in enumerate(cpus)))


def served(graph, replicas, destinations, **options):
    """A strategy that gives all variables to servers, to the destinations in turn, coupled ones to the same."""
    homes = itertools.cycle(destinations)
    chosen = {}
    for variable in graph.trainable:
        if min(variable.coupled) not in chosen:
            chosen[min(variable.coupled)] = next(homes)
    configs = [VariableConfig.whole(v.name, PSSynchronizer(chosen[min(v.coupled)], **options)) for v in graph.trainable]
    return Strategy(GraphConfig(tuple(replicas), "tcp"), tuple(configs))
