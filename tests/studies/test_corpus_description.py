"""`stopwav corpus`: every fact against audio and transcripts in which it is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from command_line import command
from hypothesis import given
from hypothesis import strategies as st
from written_corpora import make_spoken, rttm, stm, webdataset

import stopwav
from stopwav.errors import StopwavError
from stopwav.speech.audio import Audio, load_utterance
from stopwav.speech.loudness import SILENCE_BELOW_LOUDEST_DB, frame_levels_db, is_clipped, silence_share

RATE_HZ = 16_000


def written(path: Path, samples: np.ndarray, text: str = "", rate_hz: int = RATE_HZ) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, rate_hz)
    if text:
        path.with_suffix(".txt").write_text(text)


def tone(seconds: float, level: float = 0.5, rate_hz: int = RATE_HZ) -> np.ndarray:
    return level * np.sin(2 * np.pi * 300 * np.arange(round(seconds * rate_hz)) / rate_hz)


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """Seven files of which six are audio: two rates, one clipped, one empty of sound, one with too many words."""
    root = tmp_path / "odd"
    written(root / "a.wav", np.concatenate([tone(1.0), np.zeros(RATE_HZ)]), "good morning")
    written(root / "b.wav", tone(2.0), "good evening frobnicator")
    written(root / "clip.wav", np.clip(tone(1.0, 3.0), -1, 1))
    written(root / "mute.wav", np.zeros(RATE_HZ), "nothing")
    written(root / "short.wav", tone(0.1), "go " * 50)
    written(root / "stereo.flac", np.stack([tone(3.0, rate_hz=8000)] * 2, axis=1), "frobnicator", 8000)
    (root / "torn.wav").write_bytes((root / "b.wav").read_bytes()[:20_000])
    (root / "broken.wav").write_bytes(b"RIFF of nothing")
    (root / "lost.txt").write_text("who said this")
    return root


def test_every_fact_is_the_known_one(odd: Path) -> None:
    found = stopwav.corpus(odd)
    assert (found.name, found.utterances, found.transcripts, found.words) == ("odd", 8, 5, 57)
    # The torn file has 9,978 frames; the broken one counts as long as the mean of the others.
    assert found.lengths_known == 7
    assert found.audio_s == pytest.approx((2 + 2 + 1 + 1 + 0.1 + 3 + 9978 / 16_000) / 7 * 8)
    assert (found.length_s["min"], found.length_s["median"], found.length_s["max"]) == (0.1, 1.0, 3.0)
    assert found.sample_rates_hz == {16_000: 6, 8_000: 1}
    assert found.channels == {1: 6, 2: 1}
    assert (found.samples_read, found.samples_read_s) == (6, pytest.approx(9.1))
    assert (found.clipped, found.silent) == (("clip",), ("mute",))
    # A second of the first, all of the mute one.
    assert found.silence_share == pytest.approx(2 / 9.1, abs=0.01)
    assert [problem.where for problem in found.unalignable] == ["short"]
    assert found.guessed_words == {"frobnicator": 2}
    assert sorted(problem.where for problem in found.problems) == ["broken", "lost.txt", "torn"]
    assert found.digest == stopwav.load_corpus(odd).digest


def test_speakers_channels_and_archives(tmp_path: Path) -> None:
    spoken = make_spoken()
    named = stopwav.corpus(stm(tmp_path / "stm", spoken).name)
    assert named.speakers == {"ann": 3, "bob": 3}
    assert named.audio_s == pytest.approx(sum(each.duration_s for each in spoken))
    assert (named.channels, named.words) == ({2: 6}, 12)
    # Of 30 parts 12 are words; the right channel, which is not heard, is loud throughout.
    assert named.silence_share == pytest.approx(18 / 30)
    assert stopwav.corpus(rttm(tmp_path / "rttm", spoken).name).transcripts == 0
    packed = stopwav.corpus(webdataset(tmp_path / "tar", spoken).name)
    assert (packed.samples_read, packed.problems) == (6, ())


def test_a_time_limit_leaves_some_unread(tmp_path: Path) -> None:
    for number in range(50):
        written(tmp_path / f"x/{number}.wav", tone(0.2))
    found = stopwav.corpus(tmp_path / "x", time_limit_s=1e-6)
    assert (found.lengths_known, found.samples_read) == (1, 1)
    assert found.audio_s == pytest.approx(50 * 0.2)
    done = command("corpus", tmp_path / "x", "--time-limit", "0.000001", COLUMNS="120")
    assert "estimated from the lengths of 1" in done.stdout
    assert "0 of 1 read" in done.stdout


def test_the_command(odd: Path) -> None:
    done = command("corpus", odd, COLUMNS="120")
    assert (done.code, done.stderr) == (0, "")
    for line in ("1 of 6 read: clip", "1 of 6 read: mute", "16,000 Hz (6), 8,000 Hz (1)", "frobnicator (2)"):
        assert line in done.stdout
    assert "Transcripts that cannot be aligned" in done.stdout
    printed = json.loads(command("corpus", odd, "--json").stdout)
    assert printed["stopwav"] == stopwav.__version__
    assert printed["sample_rates_hz"] == {"16000": 6, "8000": 1}
    assert {problem["where"] for problem in printed["problems"]} == {"broken", "lost.txt", "torn"}


def test_words_with_times_are_not_said_to_need_the_aligner(odd: Path, tmp_path: Path) -> None:
    words = tmp_path / "w.ctm"
    words.write_text("stereo 1 0.1 0.5 frobnicator\n" + "".join(f"short 1 0.{n:02d} 0.01 go\n" for n in range(10)))
    found = stopwav.corpus(odd, words=words)
    assert found.guessed_words == {"frobnicator": 1}
    assert [problem.where for problem in found.problems if "words.ctm" in problem.message] == []


@pytest.mark.parametrize(
    "arguments", [["nowhere"], ["bundled", "--time-limit", "0"], ["bundled", "--words", "nowhere"]]
)
def test_wrong_arguments_are_errors_in_one_line(arguments: list[str]) -> None:
    done = command("corpus", *arguments)
    assert done.code == 2
    assert done.stderr.startswith("stopwav: ")
    assert done.stderr.count("\n") == 1


def test_nothing_is_read_of_a_limit_that_cannot_be() -> None:
    with pytest.raises(StopwavError, match="give seconds above 0"):
        stopwav.corpus(time_limit_s=float("nan"))


# Clipping and silence


@pytest.mark.parametrize(("run", "clipped"), [(1, False), (2, False), (3, True), (50, True)])
@pytest.mark.parametrize("sign", [-1, 1])
def test_three_samples_at_full_scale_are_clipped(run: int, clipped: bool, sign: int) -> None:
    samples = np.zeros(1000, np.float32)
    samples[100 : 100 + run] = sign * 32767 / 32768
    assert is_clipped(Audio(samples, RATE_HZ)) == clipped
    samples[100 : 100 + run] *= 0.999
    assert not is_clipped(Audio(samples, RATE_HZ))


@given(st.lists(st.floats(-1, 1, width=32), max_size=50))
def test_clipping_is_what_a_loop_finds(values: list[float]) -> None:
    at_limit = [abs(value) >= 32767 / 32768 for value in values]
    expected = any(all(at_limit[start : start + 3]) for start in range(len(values) - 2))
    assert is_clipped(Audio(np.array(values, np.float32), RATE_HZ)) == expected


def test_levels_of_a_sine_and_of_nothing() -> None:
    # A sine of full scale is 3 dB below the square wave that 0 dB stands for.
    np.testing.assert_allclose(frame_levels_db(Audio(tone(0.1, 1.0).astype(np.float32), RATE_HZ)), -3.01, atol=0.02)
    assert frame_levels_db(Audio(np.zeros(100, np.float32), RATE_HZ)).size == 0
    assert silence_share(frame_levels_db(Audio(np.zeros(RATE_HZ, np.float32), RATE_HZ))) == 1.0


def test_40_db_finds_the_known_pauses_of_the_bundled_corpus() -> None:
    right: dict[float, list[bool]] = {30.0: [], 40.0: [], 50.0: []}
    for utterance in stopwav.load_corpus("bundled").utterances:
        levels = frame_levels_db(load_utterance(utterance, RATE_HZ))
        middles_s = (np.arange(len(levels)) + 0.5) * 0.02
        spoken = np.any([(w.start_s <= middles_s) & (middles_s < w.end_s) for w in utterance.words], axis=0)
        for below_db, frames in right.items():
            frames += list((levels < levels.max() - below_db) != spoken)
    shares = {below_db: np.mean(frames) for below_db, frames in right.items()}
    assert shares[SILENCE_BELOW_LOUDEST_DB] > 0.965
    assert max(shares, key=lambda below_db: shares[below_db]) == SILENCE_BELOW_LOUDEST_DB


@pytest.mark.parametrize("gain", [0.01, 1.0])
def test_silence_is_relative_to_the_utterance(gain: float) -> None:
    samples = np.concatenate([tone(0.6, 0.9), tone(0.4, 0.9 * 10 ** (-41 / 20))])
    levels = frame_levels_db(Audio((gain * samples).astype(np.float32), RATE_HZ))
    assert silence_share(levels) == pytest.approx(0.4)
