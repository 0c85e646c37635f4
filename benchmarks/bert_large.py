"""The variables of BERT-large, described: what strategies, simulators and searches need of its graph."""

from __future__ import annotations

from autodist.graph import Gradient, Role, TrainingGraph, Variable

__all__ = ["described_graph"]

_LAYERS, _HIDDEN, _VOCABULARY, _POSITIONS = 24, 1024, 30522, 512


def described_graph() -> TrainingGraph:
    """Its 391 trainable variables, 1.3 GB; the word embeddings have sparse gradients."""
    shapes = {
        "embeddings/word": (_VOCABULARY, _HIDDEN),
        "embeddings/position": (_POSITIONS, _HIDDEN),
        "embeddings/type": (2, _HIDDEN),
        **_norm("embeddings"),
    }
    for layer in range(_LAYERS):
        for part in ("query", "key", "value", "output"):
            shapes |= _dense(f"layer_{layer}/{part}", _HIDDEN, _HIDDEN)
        shapes |= _dense(f"layer_{layer}/up", _HIDDEN, 4 * _HIDDEN) | _dense(
            f"layer_{layer}/down", 4 * _HIDDEN, _HIDDEN
        )
        shapes |= _norm(f"layer_{layer}/attention") | _norm(f"layer_{layer}/output")
    shapes |= _dense("pooler", _HIDDEN, _HIDDEN)
    # In a backward pass the first layer's gradients come last.
    variables = [_variable(name, shape, len(shapes) - k) for k, (name, shape) in enumerate(shapes.items())]
    return TrainingGraph(graph_def=None, variables=tuple(variables), inputs=(), outputs=(), effects=())


def _dense(name: str, rows: int, columns: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}/kernel": (rows, columns), f"{name}/bias": (columns,)}


def _norm(name: str) -> dict[str, tuple[int, ...]]:
    return {f"{name}/gamma": (_HIDDEN,), f"{name}/beta": (_HIDDEN,)}


def _variable(name: str, shape: tuple[int, ...], order: int) -> Variable:
    is_sparse = name == "embeddings/word"
    gradient = Gradient(values="g:0", indices="g:1") if is_sparse else Gradient(dense="g:0")
    return Variable(name, f"{name}/handle", shape, "float32", Role.TRAINABLE, (gradient,), backward_order=order)
