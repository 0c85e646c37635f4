from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodist.agent.protocol._frames import MOST_BYTES, Decoder, Frame, FrameError, Kind, encode, encode_json

FRAMES = st.lists(st.builds(Frame, st.sampled_from(Kind), st.integers(0, 2**32 - 1), st.binary(max_size=300)))


@given(FRAMES, st.integers(1, 50))
def test_frames_come_out_as_they_went_in_whatever_the_pieces(frames: list[Frame], size: int):
    data = b"".join(encode(*frame) for frame in frames)
    decoder = Decoder()
    found = [frame for begin in range(0, len(data), size) for frame in decoder.feed(data[begin : begin + size])]
    assert found == frames


def test_json_is_carried():
    content = {"text": "ü", "numbers": [1, 2.5, None, True]}
    (frame,) = Decoder().feed(encode_json(Kind.EVENT, 3, content))
    assert (frame.kind, frame.number, frame.json()) == (Kind.EVENT, 3, content)


@pytest.mark.parametrize("data", [b"HTTP/1.1 200 OK\r\n", b"\0" * 9, b"\x0a" + b"\0" * 8, b"\x01" * 9])
def test_what_is_no_frame_is_refused(data: bytes):
    with pytest.raises(FrameError, match="is not a frame"):
        list(Decoder().feed(data))


def test_sizes_are_bounded_on_both_sides():
    assert len(encode(Kind.DATA, 1, b"x" * MOST_BYTES)) == MOST_BYTES + 9
    with pytest.raises(FrameError, match="too many"):
        encode(Kind.DATA, 1, b"x" * (MOST_BYTES + 1))
    with pytest.raises(FrameError):
        list(Decoder().feed(b"\x06\0\0\0\1" + (MOST_BYTES + 1).to_bytes(4, "big")))


def test_what_json_cannot_hold_is_refused():
    with pytest.raises(FrameError, match="JSON"):
        encode_json(Kind.REQUEST, 1, {"what": object()})
    (frame,) = Decoder().feed(encode(Kind.REQUEST, 1, json.dumps({}).encode()[:-1]))
    with pytest.raises(FrameError, match="JSON"):
        frame.json()
