"""The Emformer RNN-T: a streaming transducer in our own PyTorch, every part of which can be exchanged and timed.

Without a checkpoint its weights are random. Its blank is calibrated for the search that is used, and the search is held
at the rate of speech, so that symbols come as often as from a trained one: its times are meaningful, its text is not,
and every report says so.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stopwav.engines.emformer_batch import StreamBatch
from stopwav.engines.emformer_session import EmformerSession, SharedParts, lead_samples
from stopwav.engines.named_models import PUBLISHED, published_files
from stopwav.engines.protocol import EngineInfo, Knob, Session
from stopwav.engines.tokenizer import WordPieces
from stopwav.engines.toolkit import check_choice, check_whole_number
from stopwav.errors import StopwavError
from stopwav.models.batched_beam import BatchedBeam
from stopwav.models.batched_greedy import BatchedGreedy, Rows
from stopwav.models.checkpoint import Linear, disable_amx_in_vm, fastest_linear, load_statistics, load_weights
from stopwav.models.emformer import EmformerShape
from stopwav.models.features import HOP, SAMPLE_RATE_HZ, LogMel, Statistics
from stopwav.models.search import BeamSearch, GreedySearch, Scorer, SymbolRate
from stopwav.models.step_graphs import StepGraphs
from stopwav.models.transducer import (
    CUTOFF_SYMBOLS_PER_S,
    SYMBOLS,
    TARGET_SYMBOLS_PER_S,
    EncoderStep,
    JoinerStep,
    PredictorStep,
    Transducer,
    calibrate_blank,
)
from stopwav.speech.audio import Audio, load
from stopwav.speech.corpus import bundled_corpus
from stopwav.speech.events import Hypothesis

NAME = "emformer-rnnt"
PRECISIONS = ("float32", "float16", "bfloat16", "int8")
# The speech by which random weights normalise their features and calibrate their blank: about 10 s.
CALIBRATION_UTTERANCES = 2
# Streams advanced together that there is room for at first, and how many are in one step at most, by device and
# whether the search is greedy: on a GPU larger steps are hardly faster per stream, and take memory.
FIRST_STREAMS = 64
MOST_TOGETHER = {("cpu", True): 64, ("cpu", False): 32, ("cuda", True): 4096, ("cuda", False): 2048}
# Settings to try: half of the beam that the published analysis used, and the narrowest one.
NARROWER_BEAMS = (5, 1)
COMPILERS = ("c++", "g++", "clang++")


class EmformerRnnt:
    """The engine `emformer-rnnt[:CHECKPOINT,tokenizer=SPM_MODEL,stats=JSON][,beam=10][,device=cuda]…`.

    With `:torchaudio` checkpoint, tokenizer and statistics are those that torchaudio publishes.
    """

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
        streams: int = FIRST_STREAMS,
    ) -> None:
        published = (NAME, source) in PUBLISHED
        if published:
            source, tokenizer, stats = published_files(NAME, source, tokenizer=tokenizer, stats=stats)
        _check_files(source, tokenizer, stats)
        _check_numbers(beam, search, segment, right_context)
        check_whole_number(NAME, "streams", streams, 1)
        _check_devices(device, features, dtype, graphs)
        if device == "cpu":
            disable_amx_in_vm()
        self._beam = beam if search == "beam" else 1
        self._greedy = search == "greedy"
        pieces = WordPieces(tokenizer, SYMBOLS - 1)
        # An option that looks like a number is parsed as one, and may be the name of a file.
        statistics = load_statistics(Path(str(stats))) if stats is not None else _speech_statistics()
        model = _random_model(EmformerShape(segment=segment, right_context=right_context), seed)
        if source is not None:
            load_weights(model, Path(source))
        self._blank = model.blank
        frame_s = model.transcriber.shape.stride * HOP / SAMPLE_RATE_HZ
        self._symbol_rate = SymbolRate(TARGET_SYMBOLS_PER_S * frame_s) if source is None else None
        symbols_per_s = self._calibrate(model.to(device), statistics) if source is None else None
        self._model = model.to(device, torch.float32 if dtype == "int8" else getattr(torch, dtype))
        graphs = device == "cuda" if graphs is None else graphs
        with torch.inference_mode():
            kind = fastest_linear(torch.device(device), dtype, compile)
            self._kind, self._streams, self._graphs = kind, streams, graphs
            self._batch: StreamBatch | None = None
            self._scorer = _make_scorer(self._model, kind, self._beam, graphs)
            encoder = EncoderStep(self._model.transcriber, kind, graphs, compile)
        self.network = self._model
        self._parts = SharedParts(LogMel(statistics).to(features), encoder, pieces, torch.device(device))
        self.info = EngineInfo(
            name=NAME,
            version=f"torch {torch.__version__}",
            sample_rate_hz=SAMPLE_RATE_HZ,
            chunk_s=segment * HOP / SAMPLE_RATE_HZ,
            lookahead_s=right_context * HOP / SAMPLE_RATE_HZ,
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            device=device,
            precision=dtype,
            language="en" if published else "",
            model=Path(source).name if source else "random weights",
            notes=() if symbols_per_s is None else (_note(symbols_per_s),),
            untrained=source is None,
            symbols_per_s=symbols_per_s,
        )

    @staticmethod
    def variants(options: Mapping[str, Any]) -> list[Knob]:
        """Return the settings that may be faster, those that this machine does not support with the reason."""
        return [*_precisions(options), *_searches(options), *_contexts(options), *_devices(options), *_compile(options)]

    def open(self) -> EmformerSession:
        """Return a new stream."""
        return EmformerSession(self._parts, self._new_search(self._scorer), self.stream_batch)

    def advance_all(self, calls: Sequence[tuple[Session, NDArray[np.float32] | None]]) -> list[Sequence[Hypothesis]]:
        """Advance many streams in one step of the network; those that were advanced alone before stay alone."""
        parts = self._parts
        sessions = [each for each, _ in calls if isinstance(each, EmformerSession) and each.parts is parts]
        if len(set(map(id, sessions))) != len(calls):
            raise StopwavError(f"{NAME}: advance_all takes sessions of this engine, each once")
        streams = [session.join() for session in sessions]
        pairs = zip(streams, calls, strict=True)
        together = [(stream, samples) for stream, (_, samples) in pairs if stream is not None]
        results = iter(self.stream_batch().advance(together) if together else ())
        return [
            next(results) if stream is not None else session.finish() if samples is None else session.push(samples)
            for stream, (session, samples) in zip(streams, calls, strict=True)
        ]

    @torch.inference_mode()
    def stream_batch(self) -> StreamBatch:
        """Return the streams that are advanced together; their tensors are made when they are first needed."""
        if self._batch is None:
            most = MOST_TOGETHER[self._parts.device.type, self._greedy]
            self._batch = StreamBatch(self._parts, self._batched_search, self._streams, most, self._graphs)
        return self._batch

    def _batched_search(self, slots: int, rows: Rows, graphs: StepGraphs) -> BatchedGreedy | BatchedBeam:
        predictor, joiner = PredictorStep(self._model.predictor, self._kind), JoinerStep(self._model.joiner, self._kind)
        if self._greedy:
            return BatchedGreedy(predictor, joiner, self._blank, slots, rows, graphs, rate=self._symbol_rate)
        return BatchedBeam(predictor, joiner, self._blank, self._beam, slots, rows, graphs, rate=self._symbol_rate)

    def transcribe(self, batch: Sequence[Audio]) -> list[str]:
        """Return the text of each utterance; the encoder processes a whole batch, the search one after the other."""
        if self.info.precision == "int8":
            # Only the streaming step has quantised weights.
            return [self._stream(audio) for audio in batch]
        parts = self._parts
        lead = parts.features.window.new_zeros(parts.lead_samples)
        with torch.inference_mode():
            audios = [torch.from_numpy(audio.samples).to(lead.device) for audio in batch]
            features = [parts.features(torch.cat([lead, audio])) for audio in audios]
            encodings, frames = _encode(self._model, features)
            return [self._text(encoded[:count]) for encoded, count in zip(encodings, frames.tolist(), strict=True)]

    def _stream(self, audio: Audio) -> str:
        session = self.open()
        hypotheses = [*session.push(audio.samples), *session.finish()]
        return hypotheses[-1].text if hypotheses else ""

    def _text(self, encodings: Tensor) -> str:
        search = self._new_search(self._scorer)
        for segment in encodings.split(self._model.transcriber.shape.segment_frames):
            search.advance(segment)
        search.close()
        return self._parts.pieces.text(search.best())

    def _count_symbols(self, scorer: Scorer, utterances: Sequence[Tensor], seconds: float) -> int:
        """Count the symbols that are emitted, up to the cutoff."""
        count = 0
        for encodings in utterances:
            search = self._new_search(scorer)
            for segment in encodings.split(self._model.transcriber.shape.segment_frames):
                search.advance(segment)
                if count + len(search.best()) > CUTOFF_SYMBOLS_PER_S * seconds:
                    break
            search.close()
            count += len(search.best())
        return count

    def _new_search(self, scorer: Scorer) -> BeamSearch | GreedySearch:
        if self._greedy:
            return GreedySearch(scorer, self._blank, rate=self._symbol_rate)
        return BeamSearch(scorer, self._blank, self._beam, rate=self._symbol_rate)

    @torch.inference_mode()
    def _calibrate(self, model: Transducer, statistics: Statistics) -> float:
        """Set the blank so that symbols come as often as in speech, and return how many a second come."""
        self._model = model
        device = model.joiner.linear.weight.device
        audios = _speech()
        seconds = sum(len(audio) for audio in audios) / SAMPLE_RATE_HZ
        # With the silence of a stream: random weights emit other symbols when the frames shift a little.
        lead = torch.zeros(lead_samples(model.transcriber.shape))
        features = [LogMel(statistics)(torch.cat([lead, audio])) for audio in audios]
        utterances = [_encode(model, [frames.to(device)])[0][0] for frames in features]
        scorer = _make_scorer(model, fastest_linear(device, "float32"), self._beam, graphs=False)
        return calibrate_blank(model, lambda: self._count_symbols(scorer, utterances, seconds) / seconds)


def _note(symbols_per_s: float) -> str:
    return (
        f"random weights: times are real, texts are not; the blank was set so that speech emits {symbols_per_s:.1f} "
        "symbols a second"
    )


def _random_model(shape: EmformerShape, seed: int) -> Transducer:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Transducer(shape).eval().requires_grad_(False)


def _make_scorer(model: Transducer, kind: type[Linear], beam: int, graphs: bool) -> Scorer:
    predictor, joiner = PredictorStep(model.predictor, kind), JoinerStep(model.joiner, kind)
    return Scorer(predictor, joiner, beam, model.transcriber.shape.segment_frames, graphs)


def _encode(model: Transducer, features: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the encodings of whole utterances, and the number of frames of each."""
    weight = model.joiner.linear.weight
    lengths = torch.tensor([len(frames) for frames in features], device=weight.device)
    padded = torch.nn.utils.rnn.pad_sequence(list(features), batch_first=True)
    padded = torch.nn.functional.pad(padded, (0, 0, 0, model.transcriber.shape.right_context))
    return model.transcriber(padded.to(weight.device, weight.dtype), lengths)  # type: ignore[no-any-return]


def _speech() -> list[Tensor]:
    utterances = bundled_corpus().utterances[:CALIBRATION_UTTERANCES]
    return [torch.from_numpy(load(utterance.path, SAMPLE_RATE_HZ).samples) for utterance in utterances]


def _speech_statistics() -> Statistics:
    """Return mean and deviation of the features of some speech, for random weights."""
    features = torch.cat([LogMel()(audio) for audio in _speech()])
    return Statistics(features.mean(dim=0), 1 / features.std(dim=0))


def _check_files(source: str | None, tokenizer: str | None, stats: str | None) -> None:
    if source is not None and (tokenizer is None or stats is None):
        raise StopwavError(
            f"{NAME}:{source} needs the tokenizer and the statistics that the checkpoint was trained with: "
            f"{NAME}:{source},tokenizer=SPM_MODEL,stats=JSON"
        )


def _check_numbers(beam: object, search: str, segment: object, right_context: object) -> None:
    check_whole_number(NAME, "beam", beam, 1)
    check_choice(NAME, "search", search, ("beam", "greedy"))
    shape = EmformerShape()
    stride, longest = shape.stride, shape.left_context * shape.stride
    if not isinstance(segment, int) or segment % stride or not stride <= segment <= longest:
        raise StopwavError(
            f"{NAME}: segment={segment}: must be a multiple of {stride} up to {longest}, in frames of 10 ms"
        )
    if not isinstance(right_context, int) or right_context % stride or not 0 <= right_context <= longest:
        raise StopwavError(
            f"{NAME}: right_context={right_context}: must be 0 or a multiple of {stride} up to {longest}, "
            "in frames of 10 ms"
        )


def _check_devices(device: str, features: str, dtype: str, graphs: bool | None) -> None:
    for option, name in (("device", device), ("features", features)):
        check_choice(NAME, option, name, ("cpu", "cuda"))
        if name == "cuda" and not torch.cuda.is_available():
            raise StopwavError(f"{NAME}: {option}=cuda: PyTorch {torch.__version__} finds no NVIDIA GPU here; use cpu")
    if features == "cuda" and device == "cpu":
        raise StopwavError(f"{NAME}: features=cuda with device=cpu would copy twice; add device=cuda")
    check_choice(NAME, "dtype", dtype, PRECISIONS)
    if dtype == "int8" and device == "cuda":
        raise StopwavError(f"{NAME}: dtype=int8 is dynamic quantisation, which PyTorch has only for the CPU")
    if graphs and device == "cpu":
        raise StopwavError(f"{NAME}: graphs=true needs device=cuda: these are CUDA graphs")


def _precisions(options: Mapping[str, Any]) -> Iterator[Knob]:
    dtypes = ("bfloat16", "int8") if options["device"] == "cpu" else ("float16", "bfloat16")
    no_int8 = "" if torch.backends.quantized.engine != "none" else "this build of PyTorch has no int8 products"
    for dtype in dtypes:
        if dtype != options["dtype"]:
            yield Knob({"dtype": dtype}, no_int8 if dtype == "int8" else "")


def _searches(options: Mapping[str, Any]) -> Iterator[Knob]:
    if options["search"] != "beam":
        return
    for beam in NARROWER_BEAMS:
        if beam < options["beam"]:
            yield Knob({"beam": beam})
    yield Knob({"search": "greedy"})


def _contexts(options: Mapping[str, Any]) -> Iterator[Knob]:
    """Yield settings with less audio to wait for; the weights were not trained for them, so check the error rate."""
    stride = EmformerShape().stride
    half = options["segment"] // 2 // stride * stride
    if half >= stride:
        yield Knob({"segment": half})
    if options["right_context"] > 0:
        yield Knob({"right_context": 0})


def _devices(options: Mapping[str, Any]) -> Iterator[Knob]:
    reason = "" if torch.cuda.is_available() else f"PyTorch {torch.__version__} finds no NVIDIA GPU here"
    if options["dtype"] == "int8":
        reason = reason or "dtype=int8 is only for the CPU"
    if options["device"] == "cpu":
        yield Knob({"device": "cuda"}, reason)
        yield Knob({"device": "cuda", "features": "cuda"}, reason)
    elif options["features"] == "cpu":
        yield Knob({"features": "cuda"}, reason)
    if options["device"] == "cuda" and options["graphs"] is False:
        yield Knob({"graphs": True}, reason)


def _compile(options: Mapping[str, Any]) -> Iterator[Knob]:
    if options["compile"]:
        return
    available = options["device"] != "cpu" or any(shutil.which(name) for name in COMPILERS)
    yield Knob({"compile": True}, "" if available else f"no C++ compiler here ({', '.join(COMPILERS)})")
