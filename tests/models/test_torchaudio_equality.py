"""Ours against torchaudio's own Emformer RNN-T with the same weights: features, networks, texts.

Where torchaudio's binary part does not load, `STOPWAV_TORCHAUDIO` may name a folder with its `models/*.py`.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torchaudio_models import load_models

from stopwav.models.checkpoint import fastest_linear
from stopwav.models.features import LogMel, Statistics
from stopwav.models.search import BeamSearch, GreedySearch, Scorer
from stopwav.models.transducer import EncoderStep, JoinerStep, PredictorStep, Transducer, calibrate_blank

pytestmark = [pytest.mark.torchaudio, pytest.mark.slow]

UTTERANCES = 20
SEGMENT, AHEAD = 16, 4
SEGMENT_S = 0.16


@dataclass(frozen=True)
class Pair:
    """The same weights twice, and the features of some utterances in segments with the frames ahead of them."""

    models: Any
    theirs: Any
    ours: Transducer
    utterances: list[list[Tensor]]
    graphs: bool

    @property
    def device(self) -> torch.device:
        return self.ours.joiner.linear.weight.device

    def encoder(self) -> EncoderStep:
        return EncoderStep(self.ours.transcriber, fastest_linear(self.device, "float32"), self.graphs)

    def scorer(self, beam: int) -> Scorer:
        kind = fastest_linear(self.device, "float32")
        predictor, joiner = PredictorStep(self.ours.predictor, kind), JoinerStep(self.ours.joiner, kind)
        return Scorer(predictor, joiner, beam, SEGMENT // 4, self.graphs)

    def tokens(self, *values: int) -> Tensor:
        return torch.tensor(values, device=self.device)


def random_audio(seed: int) -> Tensor:
    """Noise whose loudness comes and goes, 1 to 2 s of it."""
    source = torch.Generator().manual_seed(seed)
    length = int(torch.randint(16_000, 32_000, (), generator=source))
    loudness = torch.nn.functional.interpolate(torch.rand(1, 1, 12, generator=source), length, mode="linear")[0, 0]
    return 0.2 * loudness * torch.randn(length, generator=source)


def features_of(audios: list[Tensor]) -> list[Tensor]:
    every = torch.cat([LogMel()(audio) for audio in audios])
    features = LogMel(Statistics(every.mean(0), 1 / every.std(0)))
    return [features(audio) for audio in audios]


def segments_of(features: Tensor) -> list[Tensor]:
    return [features[k : k + SEGMENT + AHEAD] for k in range(0, len(features) - SEGMENT - AHEAD + 1, SEGMENT)]


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU here")
    folder = os.environ.get("STOPWAV_TORCHAUDIO")
    torchaudio = load_models(Path(folder) if folder else None)
    if torchaudio is None:
        pytest.skip("torchaudio does not import here, and STOPWAV_TORCHAUDIO names no folder of its model files")
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    theirs = torchaudio[0].emformer_rnnt_base(4097).eval().requires_grad_(False)
    ours = Transducer().eval().requires_grad_(False)
    ours.load_state_dict(theirs.state_dict())
    ours.to(request.param)
    audios = [random_audio(seed) for seed in range(UTTERANCES)]
    utterances = [segments_of(frames.to(request.param)) for frames in features_of(audios)]
    pair = Pair(torchaudio[0], theirs.to(request.param), ours, utterances, graphs=request.param == "cuda")
    with torch.inference_mode():
        yield pair
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def encode(encoder: EncoderStep, segments: list[Tensor]) -> list[Tensor]:
    state = encoder.initial_state()
    return [encoder(segment, state).clone() for segment in segments]


def calibrate(pair: Pair, beam: int) -> None:
    """Set the blank of both so that symbols come as often as in speech, which depends on the beam."""
    encoder = EncoderStep(pair.ours.transcriber, fastest_linear(pair.device, "float32"))
    encoded = [encode(encoder, segments) for segments in pair.utterances[:4]]
    kind = fastest_linear(pair.device, "float32")
    scorer = Scorer(PredictorStep(pair.ours.predictor, kind), JoinerStep(pair.ours.joiner, kind), beam, SEGMENT // 4)

    def rate() -> float:
        count = 0
        for parts in encoded:
            search = BeamSearch(scorer, 4096, beam, max_symbols=5)
            for part in parts:
                search.advance(part)
            count += len(search.best())
            search.close()
        return count / (sum(map(len, encoded)) * SEGMENT_S)

    calibrate_blank(pair.ours, rate)
    pair.theirs.load_state_dict(pair.ours.state_dict())


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-4)


def test_the_encoder_streams_alike(pair: Pair) -> None:
    encoder = pair.encoder()
    for segments in pair.utterances[:5]:
        state = None
        for segment, actual in zip(segments, encode(encoder, segments), strict=True):
            expected, _, state = pair.theirs.transcribe_streaming(segment[None], pair.tokens(SEGMENT + AHEAD), state)
            close(actual, expected[0])


def test_the_encoder_of_whole_utterances_is_alike(pair: Pair) -> None:
    for segments in pair.utterances[:5]:
        frames = [segment[:SEGMENT] for segment in segments]
        features = torch.cat([*frames, segments[-1][SEGMENT:]])[None]
        for cut in (0, 8):  # the last segment is whole, or half of one
            short = features[:, cut:]
            lengths = pair.tokens(short.shape[1] - AHEAD)
            expected, expected_lengths = pair.theirs.transcribe(short, lengths)
            actual, actual_lengths = pair.ours.transcriber(short, lengths)
            assert actual_lengths.tolist() == expected_lengths.tolist()
            close(actual, expected)


def test_predictor_and_joiner_are_alike(pair: Pair) -> None:
    kind = fastest_linear(pair.device, "float32")
    predictor, joiner = PredictorStep(pair.ours.predictor, kind), JoinerStep(pair.ours.joiner, kind)
    ours_state = predictor.initial_state.expand(6, -1, -1, -1)
    their_state = None
    source = torch.Generator().manual_seed(0)
    for _ in range(10):
        symbols = torch.randint(0, 4096, (6,), generator=source).to(pair.device)
        encodings = torch.randn(6, 1024, generator=source).to(pair.device)
        actual, ours_state = predictor(symbols, ours_state, predictor.recurrent_gates(ours_state))
        ones = torch.ones_like(symbols)
        expected, _, their_state = pair.theirs.predict(symbols[:, None], ones, their_state)
        close(actual, expected[:, 0])
        joined, _, _ = pair.theirs.join(encodings[:, None], ones, expected, ones)
        close(joiner(encodings, actual), joined[:, 0, 0])


def test_greedy_search_is_a_plain_loop_over_their_model(pair: Pair) -> None:
    calibrate(pair, 1)
    scorer, encoder = pair.scorer(1), pair.encoder()
    emitted = 0
    for segments in pair.utterances:
        search = GreedySearch(scorer, 4096)
        state = encoder.initial_state()
        for segment in segments:
            search.advance(encoder(segment, state))
        search.close()
        assert search.best() == plain_greedy(pair, segments)
        emitted += len(search.best())
    assert emitted > UTTERANCES


def plain_greedy(pair: Pair, segments: list[Tensor]) -> list[int]:
    one_frame, length = pair.tokens(1), pair.tokens(SEGMENT + AHEAD)
    prediction, _, text_state = pair.theirs.predict(pair.tokens(4096)[None], one_frame, None)
    state, text = None, []
    for segment in segments:
        encodings, _, state = pair.theirs.transcribe_streaming(segment[None], length, state)
        for frame in range(encodings.shape[1]):
            for _ in range(100):
                logits, _, _ = pair.theirs.join(encodings[:, frame : frame + 1], one_frame, prediction, one_frame)
                symbol = int(logits[0, 0, 0].argmax())
                if symbol == 4096:
                    break
                text.append(symbol)
                prediction, _, text_state = pair.theirs.predict(pair.tokens(symbol)[None], one_frame, text_state)
    return text


@pytest.mark.parametrize("beam", [1, 5, 10])
def test_the_beam_holds_the_same_texts_in_the_same_order(pair: Pair, beam: int) -> None:
    calibrate(pair, beam)
    decoder = pair.models.RNNTBeamSearch(pair.theirs, 4096)
    scorer, encoder = pair.scorer(beam), pair.encoder()
    length = pair.tokens(SEGMENT + AHEAD)
    symbols, seconds = 0, 0.0
    for segments in pair.utterances:
        hypotheses, their_state = None, None
        search, state = BeamSearch(scorer, 4096, beam), encoder.initial_state()
        for segment in segments:
            hypotheses, their_state = decoder.infer(segment, length, beam, their_state, hypotheses)
            search.advance(encoder(segment, state))
        texts = [text.symbols() for text in search.texts]
        search.close()
        assert hypotheses is not None
        assert texts == [hypothesis[0][1:] for hypothesis in hypotheses]
        assert search.scores.tolist() == pytest.approx([hypothesis[3] for hypothesis in hypotheses], abs=1e-2)
        symbols += len(texts[0])
        seconds += len(segments) * SEGMENT_S
    assert 1 < symbols / seconds < 8  # neither silence nor up to the limit in every frame


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_features_are_alike(device: str) -> None:
    try:
        from torchaudio.transforms import MelSpectrogram
    except (ImportError, OSError):
        pytest.skip("torchaudio itself does not import here")
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU here")
    mel = MelSpectrogram(sample_rate=16_000, n_fft=400, n_mels=80, hop_length=160).to(device)
    ours = LogMel().to(device)
    for seed in range(UTTERANCES):
        audio = random_audio(seed).to(device)
        power = mel(audio).transpose(1, 0) * 32767.0**2
        expected = torch.where(power > torch.e, power.log(), power / torch.e)
        close(ours(audio), expected)
