"""Calls of operators that compute element by element, made from their definitions."""

import functools

import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from .values import RAW, floats, integers

_PREFERRED = (tf.float32, tf.int32, tf.bool, tf.string, tf.complex64)
_SHAPES = (((5, 3), (5, 3), (5, 3)), ((5, 3), (3,), (1, 3)), ((2, 1, 4), (5, 1), ()))
_ATTRIBUTES = {
    "Cast": {"DstT": tf.int32},
    "Bucketize": {"boundaries": [0.3, 0.6]},
    "CheckNumerics": {"message": ""},
    "CheckNumericsV2": {"message": ""},
    "StringToHashBucketFast": {"num_buckets": 7},
    "StringToHashBucket": {"num_buckets": 7},
    "StringToHashBucketStrong": {"num_buckets": 7, "key": [1, 2]},
    "StaticRegexReplace": {"pattern": "a", "rewrite": "b"},
    "StaticRegexFullMatch": {"pattern": "a"},
    "Print": {},
}
_FEWER_SHAPES = {
    # Their inputs are of one shape, or broadcast in one way only.
    "RegexReplace": ((5,), (), ()),
    "RegexFullMatch": ((5,), (), ()),
    "ClipByValue": ((5, 3), (), ()),
    "FakeQuantWithMinMaxVars": ((5, 3), (), ()),
    "StringJoin": ((5,), (5,), (5,)),
}
_OF_ONE_SHAPE = """
    AddN IdentityN Betainc EluGrad LeakyReluGrad ReluGrad Relu6Grad RsqrtGrad SeluGrad SigmoidGrad SoftplusGrad
    SoftsignGrad SqrtGrad TanhGrad InvGrad ReciprocalGrad ApproximateEqual
"""


def _dtype(argument, definition):
    if not argument.type_attr:
        return tf.as_dtype(argument.type)
    attr = next(attr for attr in definition.attr if attr.name == argument.type_attr)
    allowed = [tf.as_dtype(number) for number in attr.allowed_values.list.type]
    return next(dtype for dtype in _PREFERRED if not allowed or dtype in allowed)


def _values(dtype, shape, seed):
    if dtype.is_floating:
        return tf.constant(floats(*shape, seed=seed), dtype)
    if dtype == tf.bool:
        return tf.constant(integers(2, *shape, seed=seed) == 1)
    if dtype == tf.string:
        return tf.constant(integers(9, *shape, seed=seed).astype(str))
    if dtype.is_complex:
        return tf.complex(floats(*shape, seed=seed), floats(*shape, seed=seed + 9))
    return tf.constant(integers(5, *shape, seed=seed) + 1, dtype)


def _call_pointwise(op, shapes):
    definition = op_def_registry.get(op)
    given = dict(_ATTRIBUTES.get(op, {}))
    for k, argument in enumerate(definition.input_arg):
        if argument.number_attr or argument.type_list_attr:
            given[argument.name] = [
                _values(tf.string if op == "StringJoin" else tf.float32, shapes[0], s) for s in (1, 2)
            ]
            continue
        given[argument.name] = _values(_dtype(argument, definition), shapes[k % len(shapes)], k)
    return getattr(RAW, op)(**given)


def pointwise(names):
    """Of each operator that computes element by element, in several shapes, broadcast ones too."""
    found = {}
    for name in names:
        if name in _FEWER_SHAPES:
            shapes = (_FEWER_SHAPES[name],)
        elif name in _OF_ONE_SHAPE.split():
            shapes = (((5, 3),) * 3, ((4,),) * 3)
        else:
            shapes = _SHAPES
        found[name] = [functools.partial(_call_pointwise, name, given) for given in shapes]
    return found
