"""Every optimizer, by name: given the model, makes it."""

import keras
import tensorflow as tf

from .own import Centralized, Momentum, StepNorm

K, V1 = keras.optimizers, tf.compat.v1.train
WRAPPERS = ("Optimizer", "LossScaleOptimizer", "MultiOptimizer")
KERAS = sorted(
    name
    for name, cls in vars(K).items()
    if isinstance(cls, type) and issubclass(cls, K.Optimizer) and name not in WRAPPERS
)
V1_BASES = ("Optimizer", "SyncReplicasOptimizer")
V1_NAMES = sorted(
    name
    for name, cls in vars(V1).items()
    if isinstance(cls, type) and issubclass(cls, V1.Optimizer) and name not in V1_BASES
)
SCHEDULE_NAMES = sorted(
    name
    for name, cls in vars(K.schedules).items()
    if isinstance(cls, type)
    and issubclass(cls, K.schedules.LearningRateSchedule)
    and cls is not K.schedules.LearningRateSchedule
)

_KERAS_OPTIONS = {
    "Adadelta": {"learning_rate": 0.5},
    "Adagrad": {"learning_rate": 0.1},
    "Ftrl": {"learning_rate": 0.1, "l1_regularization_strength": 0.01},
    "Lamb": {"weight_decay": 0.01},
    "Muon": {"exclude_layers": ["rows", "whole"]},
    "RMSprop": {"momentum": 0.5},
    "SGD": {"learning_rate": 0.05, "momentum": 0.9, "nesterov": True},
    "ScheduleFreeAdamW": {"warmup_steps": 2},
}
_V1_ARGUMENTS = {
    "AdadeltaOptimizer": (0.5,),
    "AdagradDAOptimizer": (0.1, tf.constant(1, tf.int64)),
    "AdamOptimizer": (0.01,),
    "MomentumOptimizer": (0.05, 0.9),
    "RMSPropOptimizer": (0.01, 0.9, 0.5, 1e-10, False, True),
}
SCHEDULES = {
    "CosineDecay": (0.1, 3, 0.1, "cosine", 0.2, 1),
    "CosineDecayRestarts": (0.1, 2),
    "ExponentialDecay": (0.1, 2, 0.5, True),
    "InverseTimeDecay": (0.1, 2, 0.5),
    "PiecewiseConstantDecay": ([1, 2], [0.1, 0.05, 0.02]),
    "PolynomialDecay": (0.1, 3, 0.01, 2.0, True),
}
"""Their arguments: steps so few that the rate differs from step to step."""


def _excluding(network):
    """Weight decay of all but the biases, and of one table."""
    optimizer = K.AdamW(0.01, weight_decay=0.1)
    optimizer.exclude_from_weight_decay(var_list=[network.get_layer("rows").table], var_names=["bias"])
    return optimizer


def _two_groups(network):
    """Tables by an optimizer of their own."""
    groups = K.OptimizerMap(K.Adam(0.01))
    groups["(rows|whole)"] = K.SGD(0.1)
    return K.MultiOptimizer(groups)


OPTIONS = {
    "weight_decay": lambda network: K.SGD(0.1, weight_decay=0.1),
    "excluded_decay": _excluding,
    "ema": lambda network: K.SGD(0.1, use_ema=True, ema_momentum=0.9),
    "ema_overwrite": lambda network: K.Adam(0.01, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=2),
    "clipnorm": lambda network: K.Adam(0.01, clipnorm=0.05),
    "global_clipnorm": lambda network: K.SGD(0.1, global_clipnorm=0.05),
    "clipvalue": lambda network: K.SGD(0.1, momentum=0.9, clipvalue=0.02),
    "accumulation": lambda network: K.Adam(0.01, gradient_accumulation_steps=2, clipnorm=0.05),
    "loss_scale_factor": lambda network: K.Adam(0.01, loss_scale_factor=64.0),
    "loss_scale": lambda network: K.LossScaleOptimizer(K.SGD(0.1), initial_scale=1024.0, dynamic_growth_steps=2),
    "overflow": lambda network: K.LossScaleOptimizer(K.Adam(0.01), initial_scale=2.0**80, dynamic_growth_steps=2),
    "callable_rate": lambda network: K.SGD(lambda: 0.1),
    "groups": _two_groups,
    "own": lambda network: Momentum(0.05),
    "own_apply": lambda network: Centralized(0.05),
    "own_norm": lambda network: StepNorm(0.05),
}
OPTIMIZERS = {
    **{name: lambda network, name=name: getattr(K, name)(**_KERAS_OPTIONS.get(name, {})) for name in KERAS},
    **OPTIONS,
    **{name: lambda network, name=name: K.SGD(getattr(K.schedules, name)(*SCHEDULES[name])) for name in SCHEDULE_NAMES},
    **{name: lambda network, name=name: getattr(V1, name)(*_V1_ARGUMENTS.get(name, (0.1,))) for name in V1_NAMES},
}
COUPLED = ("ema_overwrite", "global_clipnorm", "accumulation", "loss_scale", "overflow", "own_norm")
"""Update all variables together, so that these need one home: a plan that scatters them is refused."""

SPECIAL = {
    "overflow": {"spike": True},
    "loss_scale_factor": {"tables": False},  # Keras divides tensors only
}
"""What some need of the data or of the model."""

PARTITIONED = (*KERAS, "weight_decay", "ema", "clipvalue", "CosineDecay", "groups", "own", *V1_NAMES)
