"""Compressors: encoders and decoders of the messages that gradients travel in.

>>> compressor = get("ErrorFeedback(TopK(ratio=0.1))")
>>> compressor.message_bytes([100, 10], "float32")
800
"""

from autodist.compressors._base import FLOATS, Channel, Compressor, Exchanged, Wrapper, size_bytes
from autodist.compressors._bf16 import BF16
from autodist.compressors._compressor_registry import get, registered
from autodist.compressors._error_feedback import ErrorFeedback
from autodist.compressors._fp16 import FP16
from autodist.compressors._one_bit import OneBit
from autodist.compressors._power_sgd import PowerSGD
from autodist.compressors._random_k import RandomK
from autodist.compressors._sufficient_factors import SufficientFactors
from autodist.compressors._top_k import TopK

__all__ = [
    "BF16",
    "FLOATS",
    "FP16",
    "Channel",
    "Compressor",
    "ErrorFeedback",
    "Exchanged",
    "OneBit",
    "PowerSGD",
    "RandomK",
    "SufficientFactors",
    "TopK",
    "Wrapper",
    "get",
    "registered",
    "size_bytes",
]
