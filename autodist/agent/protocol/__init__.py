"""The line between launcher and agent, as both know it: its frames, its streams and its greeting."""

from autodist.agent.protocol._frames import CHUNK_BYTES, Decoder, Frame, FrameError, Kind, encode, encode_json
from autodist.agent.protocol._greeting import Greeting
from autodist.agent.protocol._relay import join
from autodist.agent.protocol._streams import Stream, StreamReset, Streams

__all__ = [
    "CHUNK_BYTES",
    "Decoder",
    "Frame",
    "FrameError",
    "Greeting",
    "Kind",
    "Stream",
    "StreamReset",
    "Streams",
    "encode",
    "encode_json",
    "join",
]
