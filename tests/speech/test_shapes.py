"""Shapes: the shipped table has the statistics of its corpus, and every source gives the numbers on paper."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from stopwav import StopwavError
from stopwav.speech.shapes import (
    Shapes,
    before_subsampling,
    corpus_shapes,
    load_shapes,
    save_shapes,
    subsampled,
    token_counter,
)


def test_a_draw_has_the_statistics_of_librispeech() -> None:
    drawn = load_shapes("librispeech", seed=3)
    assert len(drawn) == 85_617
    # Bins are 8 frames and 4 tokens wide, and half of one is what a quantile may be off by.
    for values, width, expected in (
        (drawn.frames, 8, (31, 105, 343, 432, 680)),
        (drawn.tokens, 4, (2, 22, 71, 98, 151)),
    ):
        quantiles = np.quantile(values, (0, 0.05, 0.5, 0.95, 1))
        assert np.abs(quantiles - expected).max() <= width / 2
    assert drawn.frames.mean() == pytest.approx(318.3, abs=1.0)
    assert drawn.tokens.mean() == pytest.approx(67.8, abs=0.5)
    assert np.corrcoef(drawn.frames, drawn.tokens)[0, 1] == pytest.approx(0.824, abs=0.01)


def test_a_seed_draws_the_same_and_another_one_others() -> None:
    first, again, other = (load_shapes("librispeech", seed=seed) for seed in (1, 1, 2))
    assert (first.frames == again.frames).all()
    assert (first.frames != other.frames).any()
    assert first.digest == other.digest


@pytest.mark.parametrize("name", ["shapes.csv", "shapes.npz"])
def test_what_is_written_is_read_again(tmp_path: Path, name: str) -> None:
    shapes = Shapes("my corpus", np.array([40, 30]), np.array([10, 0]), "0123456789abcdef", "tokenizer chars")
    save_shapes(shapes, tmp_path / name)
    again = load_shapes(tmp_path / name)
    assert (again.name, again.digest, again.note) == (shapes.name, shapes.digest, shapes.note)
    assert again.frames.tolist() == [40, 30]
    assert again.tokens.tolist() == [10, 0]


def test_the_older_tensor_is_read_and_no_code_in_it_is_run(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save(torch.tensor([[343, 71], [31, 2]], dtype=torch.int32), tmp_path / "shape_info.pt")
    shapes = load_shapes(tmp_path / "shape_info.pt")
    assert shapes.frames.tolist() == [343, 31]
    assert shapes.tokens.tolist() == [71, 2]

    class Evil:
        def __reduce__(self) -> tuple[Callable[..., object], tuple[Path]]:
            return Path.touch, (tmp_path / "ran",)

    torch.save(Evil(), tmp_path / "evil.pt")
    with pytest.raises(StopwavError, match="not a file of shapes"):
        load_shapes(tmp_path / "evil.pt")
    assert not (tmp_path / "ran").exists()
    torch.save(torch.rand(3, 2), tmp_path / "real.pt")
    with pytest.raises(StopwavError, match="not integers"):
        load_shapes(tmp_path / "real.pt")


@pytest.mark.parametrize(("frames", "factor", "left"), [(7, 4, 1), (6, 4, 0), (1375, 4, 343), (12, 1, 12), (13, 3, 4)])
def test_subsampling_by_hand(frames: int, factor: int, left: int) -> None:
    """343 frames come of 4 · 343 + 3 = 1375, as by two convolutions of stride 2."""
    assert subsampled(frames, factor) == left


def test_a_nemo_manifest_needs_no_audio(tmp_path: Path) -> None:
    lines = [{"audio_filepath": "gone.wav", "duration": 13.75, "text": "two words"}]
    lines.append({"audio_filepath": "gone.wav", "duration": 0.03, "text": "short"})
    (tmp_path / "manifest.jsonl").write_text("\n".join(map(json.dumps, lines)))
    shapes = corpus_shapes(tmp_path / "manifest.jsonl", "chars")
    assert (shapes.frames.tolist(), shapes.tokens.tolist()) == ([343], [9])
    assert "1 too short" in shapes.note
    assert len(shapes.digest) == 16
    assert load_shapes(tmp_path / "manifest.jsonl", tokenizer="words").tokens.tolist() == [2]
    with pytest.raises(StopwavError, match="--tokenizer"):
        load_shapes(tmp_path / "manifest.jsonl")


PLAIN_CUT = {"id": "a", "duration": 4.0, "supervisions": [{"text": "one two"}, {"text": "three"}]}
MIXED_CUT = {
    "type": "MixedCut",
    "tracks": [
        {"cut": {"duration": 2.0, "supervisions": [{"text": "one"}]}, "offset": 0.0},
        {"cut": {"type": "PaddingCut", "duration": 1.0}, "offset": 2.0},
    ],
}


@pytest.mark.parametrize("as_list", [False, True])
def test_lhotse_cuts_in_both_forms(tmp_path: Path, as_list: bool) -> None:
    cuts = [PLAIN_CUT, MIXED_CUT]
    path = tmp_path / ("cuts.json.gz" if as_list else "cuts.jsonl.gz")
    text = json.dumps(cuts) if as_list else "\n".join(map(json.dumps, cuts))
    path.write_bytes(gzip.compress(text.encode()))
    shapes = corpus_shapes(path, "words", subsampling=1)
    assert shapes.frames.tolist() == [400, 300]
    assert shapes.tokens.tolist() == [3, 1]


def test_a_kaldi_folder_with_durations_needs_no_audio(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("u1 a b c\nu2 d\nu3 lost\n")
    (tmp_path / "utt2dur").write_text("u1 1.5\nu2 0.5\n")
    (tmp_path / "wav.scp").write_text("u1 touch ran |\n")
    shapes = corpus_shapes(tmp_path, "words", subsampling=1)
    assert (shapes.frames.tolist(), shapes.tokens.tolist()) == ([150, 50], [3, 1])


def test_other_corpora_are_read_by_their_audio(tiny_corpus: Callable[..., Path]) -> None:
    shapes = corpus_shapes(tiny_corpus(count=2, seconds=0.5), "words", subsampling=1)
    assert (shapes.frames.tolist(), shapes.tokens.tolist()) == ([50, 50], [2, 2])


def test_a_librispeech_tree(librispeech: Path) -> None:
    shapes = corpus_shapes(librispeech, "words")
    assert len(shapes) >= 8
    # Nobody speaks more than ten words a second, and a frame is 40 ms here.
    assert (shapes.tokens < 0.4 * shapes.frames).all()


def test_a_sentencepiece_model_counts_its_pieces(tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    (tmp_path / "text").write_text("a stopwatch for speech\n" * 20 + "speech is a stream of sounds\n" * 20)
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"), model_prefix=str(tmp_path / "bpe"), vocab_size=40, model_type="bpe"
    )
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "bpe.model"))
    text = "speech for a stream"
    assert token_counter(str(tmp_path / "bpe.model"))(text) == len(model.encode(text)) > 1
    (tmp_path / "bad.model").write_text("no model")
    with pytest.raises(StopwavError, match="not a SentencePiece model"):
        token_counter(str(tmp_path / "bad.model"))


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.csv", "frames,tokens\n1,2\n", "must be T,U, or of a histogram"),
        ("a.csv", "T,U\n1,x\n", "not a file of shapes"),
        ("a.csv", "T,U\n0,3\n", "1 frame"),
        ("a.csv", "# digest: 0\n# subsampling: much\nT,U\n9,3\n", "not a file of shapes"),
        ("a.csv", "t_low,t_high,u_low,u_high,count\n8,1,0,3,2\n", "not a file of shapes"),
        ("a.jsonl", '{"duration": 3}\n', "neither a NeMo entry nor a Lhotse cut"),
        ("a.jsonl", "{", "not JSON"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, name: str, content: str, told: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(StopwavError, match=told):
        load_shapes(tmp_path / name, tokenizer="words")


# The published shape_info.pt of input frames and the one of encoder frames: shortest, median and longest utterance.
INPUT, ENCODER = [(128, 2), (1376, 71), (2725, 151)], [(31, 2), (343, 71), (680, 151)]


def shape_file(path: Path, pairs: list[tuple[int, int]]) -> Path:
    if path.suffix == ".csv":
        path.write_text("T,U\n" + "".join(f"{t},{u}\n" for t, u in pairs))
    elif path.suffix == ".npz":
        frames, tokens = np.array(pairs).T
        np.savez(path, T=frames, U=tokens)
    else:
        torch = pytest.importorskip("torch")
        torch.save(torch.tensor(pairs, dtype=torch.int32), path)
    return path


@pytest.mark.parametrize("name", ["pairs.csv", "pairs.npz", "shape_info.pt"])
def test_a_file_of_either_kind_of_frames_is_guessed_by_its_range(tmp_path: Path, name: str) -> None:
    path = shape_file(tmp_path / name, INPUT)
    given = load_shapes(path)
    assert (given.frame_kind, given.frames.tolist()) == ("input", [31, 343, 680])
    assert before_subsampling(given).frames.tolist() == [128, 1376, 2725]
    assert "taken as input frames: the longest utterance has 2725" in given.guess
    assert "--frames encoder" in given.guess
    after = load_shapes(shape_file(path, ENCODER))
    assert (after.frame_kind, after.frames.tolist()) == ("encoder", [31, 343, 680])
    assert before_subsampling(after).frames.tolist() == [4 * t + 3 for t in (31, 343, 680)]
    assert "taken as encoder frames: the longest utterance has 680, which is 27.2 s" in after.guess


def test_what_is_said_of_frames_is_no_guess(tmp_path: Path) -> None:
    path = shape_file(tmp_path / "pairs.csv", [(343, 71), (3, 0)])
    shapes = load_shapes(path, frames="input", subsampling=8)
    assert (shapes.frames.tolist(), shapes.tokens.tolist(), shapes.guess) == ([42], [71], "")
    assert "1 too short for a frame left out" in shapes.note
    assert before_subsampling(load_shapes(path, frames="encoder", subsampling=8)).frames.tolist() == [2751, 31]
    assert before_subsampling(load_shapes(path, frames="encoder", subsampling=3)).frames.tolist() == [1029, 9]
    with pytest.raises(StopwavError, match="only for a"):
        load_shapes("librispeech", frames="input")


@pytest.mark.parametrize("name", ["shapes.csv", "shapes.npz"])
def test_a_file_that_stopwav_wrote_says_what_its_frames_are(tmp_path: Path, name: str) -> None:
    manifest = tmp_path / "manifest.jsonl"
    manifest.write_text('{"duration": 25.0, "text": "a b"}\n{"duration": 13.75, "text": "c"}\n')
    # By 1: the frames that the encoder gets, more than any encoder makes.
    save_shapes(corpus_shapes(manifest, "words", subsampling=1), tmp_path / name)
    shapes = load_shapes(tmp_path / name)
    assert (shapes.frame_kind, shapes.guess, shapes.frames.tolist()) == ("encoder", "", [2500, 1375])
    assert before_subsampling(shapes).frames.tolist() == [2500, 1375]
    assert before_subsampling(corpus_shapes(manifest, "words")).frames.tolist() == [2500, 1375]


def test_a_histogram_is_drawn_from(tmp_path: Path) -> None:
    path = tmp_path / "histogram.csv"
    path.write_text("t_low,t_high,u_low,u_high,count\n32,39,0,3,5\n672,679,100,100,2\n")
    shapes = load_shapes(path, seed=3)
    assert len(shapes) == 7
    assert set(shapes.frames.tolist()) <= {*range(32, 40), *range(672, 680)}
    assert set(shapes.tokens[shapes.frames > 100].tolist()) <= {100}
    assert shapes.frame_kind == "encoder"
    assert load_shapes(path, seed=3).frames.tolist() == shapes.frames.tolist()


def test_the_draw_of_librispeech_follows_the_subsampling() -> None:
    by_4, by_8 = load_shapes("librispeech"), load_shapes("librispeech", subsampling=8)
    assert by_8.frames.tolist()[:5] == [(t - 1) // 2 for t in by_4.frames.tolist()[:5]]
    assert (before_subsampling(by_8).frames == before_subsampling(by_4).frames).all()
    with pytest.raises(StopwavError, match="--subsampling 0: give 1 to 1000"):
        load_shapes("librispeech", subsampling=0)
