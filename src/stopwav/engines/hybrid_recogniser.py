"""The two hybrid engines: a network with CTC and attention, from a seed or a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from stopwav.engines.protocol import EngineInfo
from stopwav.engines.tokenizer import TokenList
from stopwav.engines.toolkit import check_choice, check_torch_device, check_whole_number
from stopwav.errors import StopwavError
from stopwav.measure.stages import stage
from stopwav.models.checkpoint import disable_amx_in_vm, load_statistics, load_tensors, read_rules, read_tensors, rename
from stopwav.models.conformer import ConformerShape
from stopwav.models.features import BANDS, FBANK_HALF_WINDOW, HOP, SAMPLE_RATE_HZ, Fbank, Statistics
from stopwav.models.hybrid import Decoding, Hybrid, decode, encode
from stopwav.models.lstm import LstmShape
from stopwav.speech.audio import Audio

PRECISIONS = ("float32", "float16", "bfloat16")
# A trained decoder ends its texts itself; CTC cannot place more tokens than there are frames.
TRAINED_MAX_LEN_RATIO = 1.0


@dataclass(frozen=True)
class Family:
    """One of the two engines: its name, its sizes, and the tokens of speech per encoder frame of 40 ms."""

    engine: str
    shape: ConformerShape | LstmShape
    tokens_per_frame: float


FAMILIES = (
    # 12 blocks, CTC, and a Transformer decoder over 5,000 pieces.
    # Word pieces in read speech: 3 to 4 a second (LibriSpeech with 4,096 of them: about 3.3).
    Family("conformer-hybrid", ConformerShape(), 3.5 / 25),
    # Four bidirectional layers, CTC, and an LSTM decoder over 27 characters.
    # Letters and spaces in read speech: 14 to 17 a second.
    Family("lstm-hybrid", LstmShape(), 15 / 25),
)


@dataclass(frozen=True)
class HybridOptions:
    """The options of both engines."""

    source: str | None
    tokenizer: str | None
    names: str | None
    stats: str | None
    ctc_weight: float
    beam: int
    max_len_ratio: float | None
    device: str
    dtype: str
    seed: int

    def check(self, engine: str) -> None:
        """Raise an error in one line for an invalid option."""
        if self.source is not None and not os.path.isfile(self.source):
            raise StopwavError(f"{engine}:{self.source}: no such file; give a checkpoint, or none for random weights")
        if self.source is not None and self.tokenizer is None:
            raise StopwavError(
                f"{engine}:{self.source} needs the tokens that the checkpoint was trained with: "
                f"{engine}:{self.source},tokenizer=TOKENS"
            )
        for option, value in (("names", self.names), ("stats", self.stats)):
            if self.source is None and value is not None:
                raise StopwavError(f"{engine}: {option}={value} needs a checkpoint: write {engine}:CHECKPOINT,…")
        if not _is_number(self.ctc_weight) or not 0 <= self.ctc_weight <= 1:
            raise StopwavError(
                f"{engine}: ctc_weight={self.ctc_weight}: must be from 0, attention alone, to 1, CTC alone"
            )
        check_whole_number(engine, "beam", self.beam, 1)
        ratio = self.max_len_ratio
        if ratio is not None and (not _is_number(ratio) or not 0 < ratio <= 1):
            raise StopwavError(f"{engine}: max_len_ratio={ratio}: must be above 0 and at most 1 token per frame")
        if not isinstance(self.seed, int) or isinstance(self.seed, bool):
            raise StopwavError(f"{engine}: seed={self.seed}: must be a whole number")
        check_choice(engine, "dtype", self.dtype, PRECISIONS)
        check_torch_device(engine, self.device)

    def decoding(self, tokens_per_frame: float) -> Decoding:
        """Return the options of decoding; with random weights a text is as long as the ratio, or speech, says."""
        if self.source is not None:
            max_ratio = TRAINED_MAX_LEN_RATIO if self.max_len_ratio is None else self.max_len_ratio
            return Decoding(self.ctc_weight, self.beam, 0.0, max_ratio)
        ratio = tokens_per_frame if self.max_len_ratio is None else self.max_len_ratio
        return Decoding(self.ctc_weight, self.beam, ratio, ratio)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class HybridRecogniser:
    """The engine `NAME[:CHECKPOINT,tokenizer=TOKENS][,ctc_weight=0.3][,beam=10][,device=cuda]…` of a family's name."""

    def __init__(
        self,
        engine: str,
        source: str | None = None,
        tokenizer: str | None = None,
        names: str | None = None,
        stats: str | None = None,
        ctc_weight: float = 0.3,
        beam: int = 10,
        max_len_ratio: float | None = None,
        device: str = "cpu",
        dtype: str = "float32",
        seed: int = 0,
    ) -> None:
        options = HybridOptions(source, tokenizer, names, stats, ctc_weight, beam, max_len_ratio, device, dtype, seed)
        options.check(engine)
        if device == "cpu":
            disable_amx_in_vm()
        self._family = family = next(family for family in FAMILIES if family.engine == engine)
        self._tokens = TokenList(tokenizer, family.shape.tokens)
        self._decoding = options.decoding(family.tokens_per_frame)
        self._device = torch.device(device)
        self.network, statistics = _load_network(family, options)
        self.network.to(self._device, getattr(torch, dtype))
        self._features = Fbank(statistics)
        # The number of tokens of each text of the last batch: it decides how long a search takes.
        self.emitted_tokens: list[int] = []
        self.info = EngineInfo(
            name=engine,
            version=f"torch {torch.__version__}",
            sample_rate_hz=SAMPLE_RATE_HZ,
            parameters=sum(parameter.numel() for parameter in self.network.parameters()),
            device=device,
            precision=dtype,
            model=Path(source).name if source else "random weights",
            notes=() if source else (_note(self._decoding),),
            untrained=source is None,
            # The best label of each frame: no search.
            data_dependent=not (ctc_weight == 1 and beam == 1),
        )

    @torch.inference_mode()
    def transcribe(self, batch: Sequence[Audio]) -> list[str]:
        """Return the text of each utterance; encoder and search process the whole batch at once."""
        for audio in batch:
            self._check_length(len(audio.samples))
        with stage("features"):
            features = [self._features(self._pad(torch.from_numpy(audio.samples))) for audio in batch]
        if self._device.type != "cpu":
            with stage("copy"):
                features = [frames.to(self._device) for frames in features]
                self._synchronize()
        with stage("encoder"):
            encodings, lengths = encode(self.network, features)
            self._synchronize()
        with stage("search"):
            texts = decode(self.network, encodings, lengths, self._decoding)
        with stage("post"):
            self.emitted_tokens = [len(tokens) for tokens in texts]
            return [self._tokens.text(tokens) for tokens in texts]

    def _check_length(self, samples: int) -> None:
        shape = self._family.shape
        frames = shape.frames(1 + samples // HOP)
        if shape.max_frames is not None and frames > shape.max_frames:
            raise StopwavError(
                f"{self._family.engine}: an utterance of {samples / SAMPLE_RATE_HZ:.1f} s is {frames} encoder frames, "
                f"and the maximum is {shape.max_frames}: cut it into shorter ones"
            )

    def _pad(self, samples: Tensor) -> Tensor:
        """Append silence to samples that are too few to make one encoder frame."""
        minimum = max(FBANK_HALF_WINDOW + 1, (self._family.shape.min_features - 1) * HOP)
        return torch.nn.functional.pad(samples, (0, max(0, minimum - len(samples))))

    def _synchronize(self) -> None:
        """Wait for the device at the end of a stage, so that each stage has its own work and no other's."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


# The registry's entries.
conformer_hybrid = partial(HybridRecogniser, "conformer-hybrid")
lstm_hybrid = partial(HybridRecogniser, "lstm-hybrid")


def _load_network(family: Family, options: HybridOptions) -> tuple[Hybrid, Statistics | None]:
    """Return the network, and the statistics of its features where there are any."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        network = Hybrid(family.shape).eval()
    if options.source is None:
        return network, None
    path = Path(options.source)
    rules = read_rules(str(options.names)) if options.names is not None else []
    tensors = rename(read_tensors(path), rules, path)
    statistics = _pop_statistics(tensors, path)
    if options.stats is not None:
        statistics = load_statistics(Path(str(options.stats)))
    _check_family(family, tensors, path)
    hint = f"expected a state dict of {family.engine}"
    if options.names is None:
        hint += "; for one with ESPnet's names add names=espnet"
    load_tensors(network, tensors, path, hint)
    return network, statistics


def _pop_statistics(tensors: dict[str, Tensor], path: Path) -> Statistics | None:
    """Remove the statistics from a checkpoint's tensors and return them, `None` where it has none."""
    mean, deviation = (tensors.pop(f"statistics.{name}", None) for name in ("mean", "deviation"))
    if mean is None or deviation is None:
        return None
    if mean.shape != (BANDS,) or deviation.shape != (BANDS,):
        raise StopwavError(
            f"{path}: its statistics are {mean.numel()} and {deviation.numel()} values, but there are {BANDS} mel bands"
        )
    return Statistics(mean.float(), 1 / deviation.float())


def _check_family(family: Family, tensors: dict[str, Tensor], path: Path) -> None:
    """Raise an error for a checkpoint of the other family."""
    for other in FAMILIES:
        if other is family:
            continue
        with torch.device("meta"):
            names = Hybrid(other.shape).state_dict().keys()
        if names <= tensors.keys():
            raise StopwavError(
                f"{path}: a checkpoint of {other.engine}, not of {family.engine}; write {other.engine}:{path},…"
            )


def _note(decoding: Decoding) -> str:
    note = "random weights: times are real, texts are not"
    if decoding.ctc_weight == 1:
        return note
    return f"{note}; every text is stopped at {decoding.max_len_ratio:g} tokens per encoder frame"
