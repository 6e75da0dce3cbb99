"""The Emformer RNN-T: a streaming transducer in our own PyTorch, every part of which can be exchanged and timed.

Without a checkpoint its weights are random, and its blank is calibrated so that it emits symbols as often as a trained
one would: its times mean something, its text does not, and every report says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from stopwav.engines.emformer_knobs import emformer_knobs
from stopwav.engines.emformer_session import EmformerSession, Parts, lead_of
from stopwav.engines.protocol import EngineInfo, Knob
from stopwav.engines.word_pieces import WordPieces
from stopwav.errors import StopwavError
from stopwav.models.calibration import FAR_TOO_MANY_PER_S, calibrate_blank
from stopwav.models.checkpoint import load_statistics, load_weights
from stopwav.models.emformer import EmformerShape
from stopwav.models.encoder_step import EncoderStep
from stopwav.models.logmel import HOP, SAMPLE_RATE_HZ, LogMel, Statistics
from stopwav.models.scorer import Scorer
from stopwav.models.search import BeamSearch, GreedySearch
from stopwav.models.text_step import JoinerStep, PredictorStep
from stopwav.models.transducer import SYMBOLS, Transducer
from stopwav.models.weights import Linear, best_for, keep_off_tiles
from stopwav.speech.audio import Audio, load
from stopwav.speech.corpus import bundled_corpus

PRECISIONS = ("float32", "float16", "bfloat16", "int8")
# Speech to normalise the features of random weights by, and to calibrate their blank on: about 10 s.
CALIBRATION_UTTERANCES = 2


class EmformerRnnt:
    """The engine `emformer-rnnt[:CHECKPOINT,tokenizer=SPM_MODEL,stats=JSON][,beam=10][,device=cuda]…`."""

    def __init__(
        self,
        source: str | None = None,
        tokenizer: str | None = None,
        stats: str | None = None,
        beam: int = 10,
        search: str = "beam",
        device: str = "cpu",
        features: str = "cpu",
        dtype: str = "float32",
        segment: int = 16,
        right_context: int = 4,
        compile: bool = False,
        graphs: bool | None = None,
        seed: int = 0,
    ) -> None:
        _check_files(source, tokenizer, stats)
        _check_numbers(beam, search, segment, right_context)
        _check_devices(device, features, dtype, graphs)
        if device == "cpu":
            keep_off_tiles()
        self._beam = beam if search == "beam" else 1
        self._greedy = search == "greedy"
        pieces = WordPieces(tokenizer, SYMBOLS - 1)
        # An option that reads as a number is one, and may be a file's name.
        statistics = load_statistics(Path(str(stats))) if stats is not None else _statistics_of_speech()
        model = _random_model(EmformerShape(segment=segment, right_context=right_context), seed)
        if source is not None:
            load_weights(model, Path(source))
        self._blank = model.blank
        notes = () if source is not None else (self._calibrate(model.to(device), statistics),)
        self._model = model.to(device, torch.float32 if dtype == "int8" else getattr(torch, dtype))
        graphs = device == "cuda" if graphs is None else graphs
        with torch.inference_mode():
            kind = best_for(torch.device(device), dtype, compile)
            self._scorer = _scorer(self._model, kind, self._beam, graphs)
            encoder = EncoderStep(self._model.transcriber, kind, graphs, compile)
        self.network = self._model
        self._parts = Parts(LogMel(statistics).to(features), encoder, pieces, torch.device(device))
        self.info = EngineInfo(
            name="emformer-rnnt",
            version=f"torch {torch.__version__}",
            sample_rate_hz=SAMPLE_RATE_HZ,
            chunk_s=segment * HOP / SAMPLE_RATE_HZ,
            lookahead_s=right_context * HOP / SAMPLE_RATE_HZ,
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            device=device,
            precision=dtype,
            model=Path(source).name if source else "random weights",
            notes=notes,
            untrained=source is None,
        )

    @staticmethod
    def variants(options: Mapping[str, Any]) -> list[Knob]:
        """What may make it quicker than with these options."""
        return emformer_knobs(options)

    def open(self) -> EmformerSession:
        """A new stream."""
        return EmformerSession(self._parts, self._new_search(self._scorer))

    def transcribe(self, batch: Sequence[Audio]) -> list[str]:
        """The text of each utterance; the encoder sees the batch at once, the search one utterance after the other."""
        if self.info.precision == "int8":
            # Only the streaming step has the quantised weights.
            return [self._stream(audio) for audio in batch]
        parts = self._parts
        lead = parts.features.window.new_zeros(parts.lead)
        with torch.inference_mode():
            audios = [torch.from_numpy(audio.samples).to(lead.device) for audio in batch]
            features = [parts.features(torch.cat([lead, audio])) for audio in audios]
            encodings, frames = _encode(self._model, features)
            return [self._text(one[:count]) for one, count in zip(encodings, frames.tolist(), strict=True)]

    def _stream(self, audio: Audio) -> str:
        session = self.open()
        texts = [*session.push(audio.samples), *session.finish()]
        return texts[-1].text if texts else ""

    def _text(self, encodings: Tensor) -> str:
        return self._parts.pieces.text(self._search(self._scorer, encodings))

    def _search(self, scorer: Scorer, encodings: Tensor) -> list[int]:
        search = self._new_search(scorer)
        for part in encodings.split(self._model.transcriber.shape.segment_frames):
            search.advance(part)
        search.close()
        return search.best()

    def _symbols(self, scorer: Scorer, encoded: Sequence[Tensor], seconds: float) -> int:
        """How many symbols are emitted, counted no further than it matters."""
        count = 0
        for encodings in encoded:
            search = self._new_search(scorer)
            for part in encodings.split(self._model.transcriber.shape.segment_frames):
                search.advance(part)
                if count + len(search.best()) > FAR_TOO_MANY_PER_S * seconds:
                    break
            search.close()
            count += len(search.best())
        return count

    def _new_search(self, scorer: Scorer) -> BeamSearch | GreedySearch:
        return GreedySearch(scorer, self._blank) if self._greedy else BeamSearch(scorer, self._blank, self._beam)

    @torch.inference_mode()
    def _calibrate(self, model: Transducer, statistics: Statistics) -> str:
        """A note on the random weights, after their blank was set so that symbols come as often as in speech."""
        self._model = model
        device = model.joiner.linear.weight.device
        audios = _speech()
        seconds = sum(len(audio) for audio in audios) / SAMPLE_RATE_HZ
        # As a stream hears it: random weights emit other symbols when the frames lie a little elsewhere.
        lead = torch.zeros(lead_of(model.transcriber.shape))
        speech = [LogMel(statistics)(torch.cat([lead, audio])) for audio in audios]
        encoded = [_encode(model, [one.to(device)])[0][0] for one in speech]
        scorer = _scorer(model, best_for(device, "float32"), self._beam, graphs=False)
        rate = calibrate_blank(model, lambda: self._symbols(scorer, encoded, seconds) / seconds)
        return (
            f"random weights: times are real, texts are not; the blank was set so that {rate:.1f} symbols a second "
            "are emitted on speech"
        )


def _random_model(shape: EmformerShape, seed: int) -> Transducer:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Transducer(shape).eval().requires_grad_(False)


def _scorer(model: Transducer, kind: type[Linear], beam: int, graphs: bool) -> Scorer:
    predictor, joiner = PredictorStep(model.predictor, kind), JoinerStep(model.joiner, kind)
    return Scorer(predictor, joiner, beam, model.transcriber.shape.segment_frames, graphs)


def _encode(model: Transducer, features: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The encodings of whole utterances, and how many frames each has."""
    weight = model.joiner.linear.weight
    lengths = torch.tensor([len(one) for one in features], device=weight.device)
    padded = torch.nn.utils.rnn.pad_sequence(list(features), batch_first=True)
    padded = torch.nn.functional.pad(padded, (0, 0, 0, model.transcriber.shape.right_context))
    return model.transcriber(padded.to(weight.device, weight.dtype), lengths)  # type: ignore[no-any-return]


def _speech() -> list[Tensor]:
    utterances = bundled_corpus().utterances[:CALIBRATION_UTTERANCES]
    return [torch.from_numpy(load(utterance.path, SAMPLE_RATE_HZ).samples) for utterance in utterances]


def _statistics_of_speech() -> Statistics:
    """Mean and deviation of the features of some speech, for weights that bring none."""
    features = torch.cat([LogMel()(audio) for audio in _speech()])
    return Statistics(features.mean(dim=0), 1 / features.std(dim=0))


def _check_files(source: str | None, tokenizer: str | None, stats: str | None) -> None:
    if source is not None and (tokenizer is None or stats is None):
        raise StopwavError(
            f"emformer-rnnt:{source} needs the tokenizer and the statistics that the checkpoint was trained with: "
            f"emformer-rnnt:{source},tokenizer=SPM_MODEL,stats=JSON"
        )


def _check_numbers(beam: object, search: str, segment: object, right_context: object) -> None:
    if not isinstance(beam, int) or isinstance(beam, bool) or beam < 1:
        raise StopwavError(f"emformer-rnnt: beam={beam}: a whole number, at least 1")
    if search not in ("beam", "greedy"):
        raise StopwavError(f"emformer-rnnt: search={search}: beam or greedy")
    shape = EmformerShape()
    longest = shape.left_context * shape.stride
    if not isinstance(segment, int) or segment % shape.stride or not shape.stride <= segment <= longest:
        raise StopwavError(
            f"emformer-rnnt: segment={segment}: frames of 10 ms, a multiple of {shape.stride} up to {longest}"
        )
    if not isinstance(right_context, int) or right_context % shape.stride or not 0 <= right_context <= longest:
        raise StopwavError(
            f"emformer-rnnt: right_context={right_context}: frames of 10 ms, "
            f"0 or a multiple of {shape.stride} up to {longest}"
        )


def _check_devices(device: str, features: str, dtype: str, graphs: bool | None) -> None:
    for option, name in (("device", device), ("features", features)):
        if name not in ("cpu", "cuda"):
            raise StopwavError(f"emformer-rnnt: {option}={name}: cpu or cuda")
        if name == "cuda" and not torch.cuda.is_available():
            raise StopwavError(
                f"emformer-rnnt: {option}=cuda: PyTorch {torch.__version__} sees no NVIDIA GPU here; use cpu"
            )
    if features == "cuda" and device == "cpu":
        raise StopwavError("emformer-rnnt: features=cuda with device=cpu would copy twice; add device=cuda")
    if dtype not in PRECISIONS:
        raise StopwavError(f"emformer-rnnt: dtype={dtype}: {', '.join(PRECISIONS)}")
    if dtype == "int8" and device == "cuda":
        raise StopwavError("emformer-rnnt: dtype=int8 is dynamic quantisation, which PyTorch has for the CPU only")
    if graphs and device == "cpu":
        raise StopwavError("emformer-rnnt: graphs=true needs device=cuda: they are CUDA graphs")
