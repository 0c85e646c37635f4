"""Numbers of a rewriting that steps compute from the lengths of their arguments."""

import pytest
import tensorflow as tf

from autodist.kernels._length_numbers import Length, LengthNumbers

SIZES = (11, 2, 57)


def constant(value):
    node = tf.compat.v1.NodeDef(name="number", op="Const")
    node.attr["dtype"].type = tf.int64.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, tf.int64))
    return node


@pytest.mark.parametrize(("number", "is_computed"), [
    (lambda length: 3 * length - 1, True),
    (lambda length: 4 * length * length, True),
    (lambda length: length // 2, False),
    (lambda length: min(length, 16), False),
    (lambda length: length * 2**29, False),  # more than a 32-bit integer holds
])  # fmt: skip
def test_numbers_are_affine_in_products_of_lengths(number, is_computed):
    given = tf.compat.v1.NodeDef(name="x", op="Placeholder")
    given.attr["dtype"].type = tf.float32.as_datatype_enum
    numbers = LengthNumbers([Length(SIZES, (("x", 1),))], {"x": given})
    assert numbers.replace([constant([7, number(size)]) for size in SIZES]) == is_computed
