"""Gradients that are products over the batch: their sufficient factors."""

from autodist.graph.products._factors import FactoredGradient, Factors, factors_of
from autodist.graph.products._one_hot import Ids
from autodist.graph.products._products import ID_DTYPE, Factor, Product

__all__ = [
    "ID_DTYPE",
    "Factor",
    "FactoredGradient",
    "Factors",
    "Ids",
    "Product",
    "factors_of",
]
