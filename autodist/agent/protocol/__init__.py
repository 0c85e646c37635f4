"""What launcher and agent both know: frames and streams on the line between them, and how it greets."""

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
