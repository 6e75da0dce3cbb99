"""Word times by a CTC model: a German utterance whose times are known, a long one, and models that align nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ctc_model import build_ctc_model  # noqa: E402
from stopwav.engines import ctc_aligner  # noqa: E402
from stopwav.engines.ctc_aligner import CtcAligner, check_aligner, make_aligner  # noqa: E402
from stopwav.errors import StopwavError  # noqa: E402
from stopwav.speech.align import align_corpus  # noqa: E402
from stopwav.speech.audio import Audio, load  # noqa: E402
from stopwav.speech.corpus import load_corpus  # noqa: E402
from stopwav.speech.utterance import Corpus, Word  # noqa: E402

GERMAN = Path(__file__).parent.parent / "german"
# A frame of the model is 20 ms; a border is found to one of them.
FRAME_S = 0.0201


def german() -> Corpus:
    return load_corpus(GERMAN, GERMAN / "words.ctm", language="de")


def audio() -> Audio:
    return load(GERMAN / "satz.ogg", 16_000)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (utterance,) = german().utterances
    return build_ctc_model(tmp_path_factory.mktemp("german-ctc"), audio(), utterance.words)


def bare(corpus: Corpus) -> Corpus:
    return replace(corpus, utterances=tuple(replace(each, words=()) for each in corpus.utterances))


def near(words: tuple[Word, ...], known: tuple[Word, ...]) -> bool:
    assert [word.text for word in words] == [word.text for word in known]
    pairs = zip(words, known, strict=True)
    return all(
        abs(word.start_s - true.start_s) < FRAME_S and abs(word.end_s - true.end_s) < FRAME_S for word, true in pairs
    )


def test_a_german_corpus_is_aligned(model: Path) -> None:
    corpus = align_corpus(bare(german()), aligner=make_aligner(f"transformers:{model}"))
    assert corpus.problems == corpus.cautions == ()
    assert corpus.aligner.startswith(f"transformers:{model.name} ")
    (utterance,) = corpus.utterances
    assert near(utterance.words, german().utterances[0].words)


def test_without_a_model_german_is_not_aligned_and_it_is_said_once() -> None:
    corpus = align_corpus(align_corpus(bare(german())))
    assert [utterance.words for utterance in corpus.utterances] == [()]
    assert [caution.code for caution in corpus.cautions] == ["no-aligner"]
    assert "the corpus is in de" in corpus.cautions[0].message
    # Named, pocketsphinx tries, with the phones of English, and finds none of it here.
    (problem,) = align_corpus(bare(german()), aligner=make_aligner("pocketsphinx")).problems
    assert problem.message.startswith("no alignment of 'guten morgen herr müller")


def test_long_audio_is_seen_in_windows(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aligner = CtcAligner(str(model))
    for window_s in (1.7, 2.3):
        monkeypatch.setattr(ctc_aligner, "WINDOW_S", window_s)
        monkeypatch.setattr(ctc_aligner, "CONTEXT_S", 0.4)
        borders_s, log_probs = aligner._loaded.output(audio())
        # No moment is missing, and none comes twice.
        assert len(borders_s) == len(log_probs) + 1
        assert abs(len(log_probs) - round(audio().duration_s / 0.02)) <= 2
        assert 0 <= np.min(np.diff(borders_s)) <= np.max(np.diff(borders_s)) < 0.03


def test_letters_that_the_model_lacks(tmp_path: Path) -> None:
    (utterance,) = german().utterances
    # No umlaut and no ß: müller is spelled muller, and straße strasse.
    model = build_ctc_model(tmp_path / "few", audio(), utterance.words, "adeghilmnorstu")
    words = [*(word.text for word in utterance.words[:-1]), "日本", "gestern"]
    alignment = CtcAligner(str(model)).align(audio(), words)
    assert alignment.guessed == ("日本",)
    before, guessed, after = alignment.words[-3:]
    assert before.end_s == guessed.start_s <= guessed.end_s == after.start_s
    assert near(alignment.words[:3], utterance.words[:3])


def test_what_cannot_be_aligned(model: Path) -> None:
    aligner = CtcAligner(str(model))
    for words, samples in ((["guten"] * 500, audio().samples), (["guten"], np.zeros(100, np.float32))):
        with pytest.raises(StopwavError, match=r"no alignment of 'guten.* check the transcript"):
            aligner.align(Audio(samples, 16_000), words)
    with pytest.raises(StopwavError, match="no alignment of '日本'"):
        aligner.align(audio(), ["日本"])


def test_another_model_is_another_aligner(model: Path, tmp_path: Path) -> None:
    (utterance,) = german().utterances
    other = build_ctc_model(tmp_path / "other", audio(), utterance.words[:5])
    assert CtcAligner(str(model)).identity == CtcAligner(str(model)).identity != CtcAligner(str(other)).identity


def test_wrong_names_say_what_to_give(tmp_path: Path) -> None:
    for name in ("pocketsphinx", "transformers:a/b"):
        assert check_aligner(name) == name
    for name in ("", "transformers", "transformers:", "mfa", "pocketsphinx:x"):
        with pytest.raises(StopwavError, match=r"is not an aligner; give pocketsphinx, or transformers:FOLDER-OR-HUB"):
            check_aligner(name)
    with pytest.raises(StopwavError, match=r"no folder '\./none'; give the folder of a model"):
        make_aligner("transformers:./none")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(StopwavError, match="must contain a CTC model and its processor"):
        CtcAligner(str(tmp_path)).align(audio(), ["guten"])


def test_random_weights_align_nothing(model: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    for file in model.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["lm_head.weight"]
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(StopwavError, match=r"1 weights are missing .* such as lm_head\.weight; random ones"):
        CtcAligner(str(tmp_path)).align(audio(), ["guten"])
