"""Lhotse cuts as corpora, with their word times, plain ones without the package."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus_reading import complaints, noise, texts
from written_corpora import RATE_HZ, cuts, make_spoken

from stopwav.speech.audio import load, load_utterance
from stopwav.speech.corpus import load_corpus

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def lhotse() -> Any:
    return pytest.importorskip("lhotse", reason="needs lhotse: pip install 'stopwav[lhotse]'")


def test_cuts_that_lhotse_has_to_make(lhotse: Any, tmp_path: Path, cache: Path) -> None:
    """Mixed, padded and perturbed cuts sound as lhotse makes them; they are made once."""
    plain = list(lhotse.CutSet.from_file(cuts(tmp_path / "x", make_spoken()).name))
    changed = [plain[0].append(plain[2]).with_id("mixed"), plain[1].pad(duration=3.0).with_id("padded")]
    changed += [plain[2].perturb_speed(1.1).with_id("faster")]
    lhotse.CutSet.from_cuts(changed).to_file(tmp_path / "changed.jsonl.gz")
    corpus = load_corpus(tmp_path / "changed.jsonl.gz")
    assert complaints(corpus) == []
    by_id = {utterance.id: utterance for utterance in corpus.utterances}
    for cut in changed:
        heard = load_utterance(by_id[cut.id], RATE_HZ).samples
        np.testing.assert_allclose(heard, np.clip(cut.load_audio()[0], -1, 1), atol=1e-6)
    assert by_id["mixed"].text == "one one two three"
    second_s = plain[0].duration
    expected = [(0.2, 0.4), *((second_s + a, second_s + b) for a, b in ((0.2, 0.4), (0.6, 0.8), (1.0, 1.2)))]
    assert [(w.start_s, w.end_s) for w in by_id["mixed"].words] == [pytest.approx(pair) for pair in expected]
    made = {path: path.stat().st_mtime_ns for path in cache.rglob("*.wav")}
    assert len(made) == 3
    assert load_corpus(tmp_path / "changed.jsonl.gz").digest == corpus.digest
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*.wav")} == made


def test_without_lhotse_only_changed_cuts_are_left_out(
    lhotse: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = list(lhotse.CutSet.from_file(cuts(tmp_path / "x", make_spoken()).name))
    lhotse.CutSet.from_cuts([*plain, plain[0].append(plain[1])]).to_file(tmp_path / "c.jsonl")
    monkeypatch.setitem(sys.modules, "lhotse", None)
    corpus = load_corpus(tmp_path / "c.jsonl")
    assert len(corpus.utterances) == len(plain)
    (complaint,) = complaints(corpus)
    assert complaint.startswith(
        "c.jsonl:7: it is mixed or changed, and lhotse is not installed: pip install 'stopwav[l"
    )
    monkeypatch.setenv("STOPWAV_CACHE", "")
    assert "set STOPWAV_CACHE" in complaints(load_corpus(tmp_path / "c.jsonl"))[0]


def cut(**changes: Any) -> dict[str, Any]:
    source = {"type": "file", "channels": [0], "source": "a.wav", **changes.pop("source", {})}
    recording = {"id": "a", "sources": [source], "sampling_rate": 16000, "num_samples": 16000, "duration": 1.0}
    supervision = {"id": "s", "recording_id": "a", "start": 0.0, "duration": 1.0, "channel": 0, "text": "hi"}
    base = {"id": "c", "start": 0.0, "duration": 1.0, "channel": 0, "type": "MonoCut"}
    return {**base, "supervisions": [supervision], "recording": recording, **changes}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            cut(source={"type": "command", "source": "touch ran; cat a.wav"}),
            "its audio is of type 'command'; stopwav r",
        ),
        (cut(source={"type": "url", "source": "http://127.0.0.1:9/a.wav"}), "its audio is of type 'url'"),
        (cut(source={"source": "gone.wav"}), "no audio: "),
        (cut(recording=None), "it has no recording, only features or nothing"),
        (cut(start=-1.0), "-1.0 is not a time in seconds"),
        (cut(duration=float("nan")), "nan is not a time in seconds"),
        (cut(duration="long"), "not a cut as Lhotse writes it (ValueError"),
        (cut(duration=0.5), "its supervision reaches beyond it; trim the cuts to their supervisions"),
        (cut(channel=7), "it is mixed or changed, and lhotse is not installed"),
        (cut(supervisions=[7]), "not a cut as Lhotse writes it (TypeError"),
        ({"type": "MonoCut", "id": "x"}, "it has no recording"),
        (cut(recording={"id": "a"}), "not a cut as Lhotse writes it (KeyError"),
        (cut(id="good"), "id good appears twice"),
        (cut(duration=1e9), "too long for one utterance"),
    ],
)
def test_a_wrong_cut_is_named_and_the_rest_goes_on(
    wrong: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "lhotse", None)
    noise(tmp_path / "a.wav", 1.0)
    (tmp_path / "c.jsonl").write_text(f"{json.dumps(cut(id='good'))}\n{json.dumps(wrong)}\n")
    corpus = load_corpus(tmp_path / "c.jsonl")
    assert texts(corpus) == {"good": "hi"}
    (complaint,) = complaints(corpus)
    assert complaint.startswith("c.jsonl:2: ")
    assert said in complaint
    assert not (tmp_path / "ran").exists()


def test_alignments_that_cannot_be_leave_the_utterance_without_times(tmp_path: Path) -> None:
    noise(tmp_path / "a.wav", 1.0)
    supervision = {**cut()["supervisions"][0], "alignment": {"word": [["hi", 5.0, 0.5, None]]}}
    (tmp_path / "c.json").write_text(json.dumps([cut(supervisions=[supervision])], indent=1))
    corpus = load_corpus(tmp_path / "c.json")
    assert corpus.utterances[0].words == ()
    assert complaints(corpus)[0].startswith("c: c.json: 'hi' starts at 5.000 s, after the audio ends")


def test_one_file_for_each_channel(tmp_path: Path) -> None:
    for channel in range(2):
        noise(tmp_path / f"{channel}.wav", 1.0, seed=channel)
    sources = [{"type": "file", "channels": [channel], "source": f"{channel}.wav"} for channel in range(2)]
    lines = [cut(id=f"c{channel}", channel=channel) for channel in range(2)]
    for line in lines:
        line["recording"]["sources"] = sources
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for channel, utterance in enumerate(load_corpus(tmp_path / "c.jsonl").utterances):
        expected = load(tmp_path / f"{channel}.wav", RATE_HZ).samples
        assert np.array_equal(load_utterance(utterance, RATE_HZ).samples, expected)
