"""Samples as they are sent: those of a file of 16-bit integers are the same integers again."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stopwav.servers.pcm import int16_bytes
from stopwav.servers.serve.intake import PcmIntake


@given(st.lists(st.integers(-32768, 32767)))
def test_integers_arrive_as_they_were(integers: list[int]) -> None:
    read = np.array(integers, dtype=np.int16).astype(np.float32) / np.float32(32768)
    sent = int16_bytes(read)
    assert np.frombuffer(sent, "<i2").tolist() == integers
    assert PcmIntake("int16", 16_000, 16_000).feed(sent).tolist() == read.tolist()


def test_louder_samples_are_clipped() -> None:
    assert np.frombuffer(int16_bytes(np.array([1.0, 2.0, -1.0, -2.0], np.float32)), "<i2").tolist() == [
        32767, 32767, -32768, -32768,
    ]  # fmt: skip
