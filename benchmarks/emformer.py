"""torchaudio's streaming Emformer RNN-T against ours: same weights, same audio, one interleaved run.

    python benchmarks/emformer.py [--device cpu|cuda] [--utterances 6] [--rounds 2] [--compile] [--threads N]
                                  [--torchaudio FOLDER]

Prints a Markdown table of the time per 160 ms chunk at beam 10. The weights are random, and the blank is calibrated so
that symbols are as frequent as in speech. Decoders take turns utterance by utterance, so that a drift of the machine
affects all of them. FOLDER holds torchaudio's `models/*.py`, for machines on which its binary part does not load.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torchaudio_models import load_models

from stopwav.measure.machine import describe
from stopwav.models.checkpoint import disable_amx_in_vm, fastest_linear
from stopwav.models.features import HOP, SAMPLE_RATE_HZ, LogMel, LogMelStream, Statistics
from stopwav.models.search import BeamSearch, Scorer
from stopwav.models.transducer import (
    CUTOFF_SYMBOLS_PER_S,
    EncoderStep,
    JoinerStep,
    PredictorStep,
    Transducer,
    calibrate_blank,
)
from stopwav.speech.audio import load
from stopwav.speech.corpus import bundled_corpus
from stopwav.stats import nearest_rank

BEAM = 10
# Decoded before the measurement: kernels are chosen, memory is allocated, graphs and caches are warm.
WARM_UP_UTTERANCES = 1


@dataclass
class Times:
    """Seconds per chunk."""

    inference_s: list[float] = field(default_factory=list)
    encoder_s: list[float] = field(default_factory=list)


class Decoder:
    """One variant of our decoder."""

    def __init__(self, model: Transducer, dtype: str, graphs: bool = False, compiled: bool = False) -> None:
        device = model.joiner.linear.weight.device
        model = copy.deepcopy(model).to(torch.float32 if dtype == "int8" else getattr(torch, dtype))
        kind = fastest_linear(device, dtype, compiled)
        predictor, joiner = PredictorStep(model.predictor, kind), JoinerStep(model.joiner, kind)
        self._scorer = Scorer(predictor, joiner, BEAM, model.transcriber.shape.segment_frames, graphs)
        self._encoder = EncoderStep(model.transcriber, kind, graphs, compiled)
        self._blank = model.blank

    def decode(self, segments: Sequence[Tensor], times: Times) -> list[int]:
        """The symbols of an utterance."""
        inputs = [segment.to(self._encoder.dtype) for segment in segments]
        state, search = self._encoder.initial_state(), BeamSearch(self._scorer, self._blank, BEAM)
        for segment in inputs:
            start = now_s(segment)
            encodings = self._encoder(segment, state)
            middle = now_s(segment)
            search.advance(encodings)
            end = now_s(segment)
            times.inference_s.append(end - start)
            times.encoder_s.append(middle - start)
        search.close()
        return search.best()


class TorchaudioDecoder:
    """torchaudio's decoder."""

    def __init__(self, models: Any, model: Transducer) -> None:
        theirs = models.emformer_rnnt_base(model.symbols).eval()
        theirs.load_state_dict(model.state_dict())
        self._decoder = models.RNNTBeamSearch(theirs.to(model.joiner.linear.weight.device), model.blank)
        self._encode = self._decoder.model.transcribe_streaming

    def decode(self, segments: Sequence[Tensor], times: Times) -> list[int]:
        """The symbols of an utterance; its encoder is timed in a separate pass."""
        length = torch.tensor([len(segments[0])], device=segments[0].device)
        state = None
        for segment in segments:
            start = now_s(segment)
            _, _, state = self._encode(segment[None], length, state)
            times.encoder_s.append(now_s(segment) - start)
        hypotheses, state = None, None
        for segment in segments:
            start = now_s(segment)
            hypotheses, state = self._decoder.infer(segment, length, BEAM, state, hypotheses)
            times.inference_s.append(now_s(segment) - start)
        return hypotheses[0][0][1:] if hypotheses else []


def now_s(tensor: Tensor) -> float:
    """The time at which all work of the tensor's device is done."""
    if tensor.is_cuda:
        torch.cuda.synchronize(tensor.device)
    return time.perf_counter()


def speech(count: int) -> list[Tensor]:
    """The samples of the first utterances of the bundled corpus."""
    utterances = bundled_corpus().utterances[:count]
    return [torch.from_numpy(load(utterance.path, SAMPLE_RATE_HZ).samples) for utterance in utterances]


def segments_of(features: Tensor, segment: int = 16, ahead: int = 4) -> list[Tensor]:
    """The segments of an utterance, each with its look-ahead."""
    return [features[k : k + segment + ahead] for k in range(0, len(features) - segment - ahead + 1, segment)]


def calibrate(model: Transducer, utterances: Sequence[Sequence[Tensor]]) -> None:
    """Set the blank so that symbols are as frequent as in speech."""
    device = model.joiner.linear.weight.device
    kind = fastest_linear(device, "float32")
    encoder = EncoderStep(model.transcriber, kind)
    scorer = Scorer(PredictorStep(model.predictor, kind), JoinerStep(model.joiner, kind), BEAM, 4)
    encoded = []
    for segments in utterances:
        state = encoder.initial_state()
        encoded.append([encoder(segment, state).clone() for segment in segments])
    seconds = sum(map(len, encoded)) * encoder.shape.segment * HOP / SAMPLE_RATE_HZ

    def symbols_per_s() -> float:
        count = 0
        for encodings in encoded:
            search = BeamSearch(scorer, model.blank, BEAM)
            for part in encodings:
                search.advance(part)
                if count + len(search.best()) > CUTOFF_SYMBOLS_PER_S * seconds:
                    break
            count += len(search.best())
            search.close()
        return count / seconds

    calibrate_blank(model, symbols_per_s)


def variants(device: str, compiled: bool) -> dict[str, dict[str, Any]]:
    """The options of our variants, by their name in the table."""
    if device == "cpu":
        options: dict[str, dict[str, Any]] = {name: {"dtype": name} for name in ("float32", "bfloat16", "int8")}
        return options | ({"float32, compiled": {"dtype": "float32", "compiled": True}} if compiled else {})
    options = {
        "float32, no graphs": {"dtype": "float32"},
        "float32, graphs": {"dtype": "float32", "graphs": True},
        "float16, graphs": {"dtype": "float16", "graphs": True},
        "bfloat16, graphs": {"dtype": "bfloat16", "graphs": True},
    }
    compiled_too = {"float32, compiled, graphs": {"dtype": "float32", "graphs": True, "compiled": True}}
    return options | (compiled_too if compiled else {})


def measure(decoders: dict[str, Any], utterances: Sequence[Sequence[Tensor]], rounds: int) -> dict[str, Times]:
    """The times of each decoder; decoders take turns utterance by utterance, and which one begins rotates."""
    for decoder in decoders.values():
        for segments in utterances[:WARM_UP_UTTERANCES]:
            decoder.decode(segments, Times())
    times = {name: Times() for name in decoders}
    order = list(decoders)
    for turn, segments in enumerate([*utterances] * rounds):
        shift = turn % len(order)
        for name in order[shift:] + order[:shift]:
            decoders[name].decode(segments, times[name])
    return times


def feature_times(samples: Sequence[Tensor], statistics: Statistics, rounds: int) -> dict[str, list[float]]:
    """Seconds per chunk on the CPU: torchaudio's transform of segment and context, ours of the new samples."""
    theirs = their_transform(statistics)
    ours, new, ahead = LogMel(statistics), 16 * HOP, 4 * HOP
    times_s: dict[str, list[float]] = {"torchaudio": [], "ours": []}
    for turn, audio in enumerate([samples[0], *list(samples) * rounds]):
        stream = LogMelStream(ours)
        for start in range(0, len(audio) - new - ahead, new):
            calls: list[tuple[str, Callable[[], object]]] = [
                ("ours", lambda s=stream, a=audio[start : start + new]: s.push(a))  # type: ignore[misc]
            ]
            if theirs is not None:
                chunk = audio[start : start + new + ahead]
                calls.append(("torchaudio", lambda t=theirs, a=chunk: t(a)))  # type: ignore[misc]
            for name, call in calls[:: 1 if turn % 2 else -1]:
                begin = time.perf_counter()
                call()
                elapsed_s = time.perf_counter() - begin
                if turn:  # the first utterance is the warm-up
                    times_s[name].append(elapsed_s)
    return times_s


def their_transform(statistics: Statistics) -> Callable[[Tensor], Tensor] | None:
    """The feature transform of torchaudio's pipeline; `None` if torchaudio does not import."""
    try:
        transforms = importlib.import_module("torchaudio.transforms")
    except (ImportError, OSError):
        return None
    mel = transforms.MelSpectrogram(sample_rate=SAMPLE_RATE_HZ, n_fft=400, n_mels=80, hop_length=HOP)

    def transform(samples: Tensor) -> Tensor:
        power: Tensor = mel(samples).transpose(1, 0) * 32767.0**2
        above = power > torch.e
        power[above] = torch.log(power[above])
        power[~above] = power[~above] / torch.e
        return (power - statistics.mean) * statistics.inverse_deviation

    return transform


def cells(values_s: Sequence[float], base_s: Sequence[float] = ()) -> str:
    """P50 and P95 in milliseconds, and the speed-up over the base."""
    if not values_s:
        return "– | –" + (" | – | –" if base_s else "")
    ranks = [nearest_rank(values_s, p) for p in (0.5, 0.95)]
    shown = [f"{rank * 1e3:.2f}" for rank in ranks]
    gains = [f"{nearest_rank(base_s, p) / rank:.2f}×" for p, rank in zip((0.5, 0.95), ranks, strict=True) if base_s]
    return " | ".join([*shown, *gains])


def print_table(times_by_name: dict[str, Times], rates: dict[str, float], features: dict[str, list[float]]) -> None:
    """Print the table."""
    base = times_by_name.get("torchaudio", Times())
    base_s = base.inference_s or next(iter(times_by_name.values())).inference_s
    print("| per 160 ms chunk, ms | P50 | P95 | P50 gain | P95 gain | encoder P50 | encoder P95 | symbols/s |")
    print("|---|---|---|---|---|---|---|---|")
    for name, times in times_by_name.items():
        label = name if name == "torchaudio" else f"ours, {name}"
        print(f"| {label} | {cells(times.inference_s, base_s)} | {cells(times.encoder_s)} | {rates[name]:.2f} |")
    for name in ("torchaudio", "ours"):
        gain = cells(features[name], features["torchaudio"] or features["ours"])
        print(f"| features on the CPU, {name} | {gain} | | | |")


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--utterances", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--torchaudio", type=Path)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--compile", action="store_true")
    return parser.parse_args()


@torch.inference_mode()
def main() -> None:
    """Print the table."""
    chosen = options()
    disable_amx_in_vm()
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    samples = speech(chosen.utterances)
    plain = torch.cat([LogMel()(audio) for audio in samples])
    statistics = Statistics(plain.mean(0), 1 / plain.std(0))
    utterances = [segments_of(LogMel(statistics)(audio).to(chosen.device)) for audio in samples]
    torch.manual_seed(0)
    model = Transducer().eval().requires_grad_(False).to(chosen.device)
    calibrate(model, utterances[:2])
    theirs = load_models(chosen.torchaudio)
    decoders: dict[str, Any] = {"torchaudio": TorchaudioDecoder(theirs[0], model)} if theirs else {}
    decoders |= {name: Decoder(model, **variant) for name, variant in variants(chosen.device, chosen.compile).items()}
    times = measure(decoders, utterances, chosen.rounds)
    seconds = sum(map(len, utterances)) * 16 * HOP / SAMPLE_RATE_HZ
    texts = {name: [decoder.decode(segments, Times()) for segments in utterances] for name, decoder in decoders.items()}
    rates = {name: sum(map(len, symbols)) / seconds for name, symbols in texts.items()}
    machine = describe()
    gpu = f", {torch.cuda.get_device_name()}" if chosen.device == "cuda" else ""
    print(f"{machine.cpu}, {machine.logical_cores} cores, {torch.get_num_threads()} threads{gpu}; torch ", end="")
    print(f"{torch.__version__}, torchaudio {theirs[1] if theirs else 'absent'}; beam {BEAM}, ", end="")
    print(f"{chosen.utterances} utterances of {seconds:.0f} s, {chosen.rounds} rounds\n")
    print_table(times, rates, feature_times(samples, statistics, chosen.rounds))
    if theirs:
        same = [name for name, symbols in texts.items() if name != "torchaudio" and symbols == texts["torchaudio"]]
        print(f"\nExactly torchaudio's symbols: {', '.join(same) or 'none'}.")


if __name__ == "__main__":
    main()
