"""The two hybrid engines: a network from a seed or a checkpoint, and a batch through its stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from stopwav.engines.hybrid_options import HybridOptions
from stopwav.engines.protocol import EngineInfo
from stopwav.engines.token_list import TokenList
from stopwav.errors import StopwavError
from stopwav.measure.stages import stage
from stopwav.models.checkpoint import fill, load_statistics, read_tensors
from stopwav.models.fbank import BANDS, HALF, HOP, SAMPLE_RATE_HZ, Fbank
from stopwav.models.hybrid import Hybrid, decode, encode
from stopwav.models.hybrid_shapes import ConformerShape, LstmShape
from stopwav.models.logmel import Statistics
from stopwav.models.renaming import read_rules, rename
from stopwav.models.weights import keep_off_tiles
from stopwav.speech.audio import Audio


@dataclass(frozen=True)
class Family:
    """One of the two: its engine's name, its sizes, and how many tokens speech has for each encoder frame of 40 ms."""

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
        if options.device == "cpu":
            keep_off_tiles()
        self._family = family = next(one for one in FAMILIES if one.engine == engine)
        self._tokens = TokenList(options.tokenizer, family.shape.tokens)
        self._how = options.decoding(family.tokens_per_frame)
        self._device = torch.device(options.device)
        self.network, statistics = _network(family, options)
        self.network.to(self._device, getattr(torch, options.dtype))
        self._features = Fbank(statistics)
        # How many tokens each text of the last batch has: it decides the time that searching takes.
        self.emitted_tokens: list[int] = []
        self.info = EngineInfo(
            name=engine,
            version=f"torch {torch.__version__}",
            sample_rate_hz=SAMPLE_RATE_HZ,
            parameters=sum(parameter.numel() for parameter in self.network.parameters()),
            device=options.device,
            precision=options.dtype,
            model=Path(options.source).name if options.source else "random weights",
            notes=() if options.source else (_note(self._how.ctc_weight, self._how.max_len_ratio),),
            untrained=options.source is None,
            # The best label of each frame: no search.
            data_dependent=not (options.ctc_weight == 1 and options.beam == 1),
        )

    @torch.inference_mode()
    def transcribe(self, batch: Sequence[Audio]) -> list[str]:
        """The text of each utterance; the batch goes through encoder and search at once."""
        for audio in batch:
            self._check_length(len(audio.samples))
        with stage("features"):
            features = [self._features(self._long_enough(torch.from_numpy(audio.samples))) for audio in batch]
        if self._device.type != "cpu":
            with stage("copy"):
                features = [one.to(self._device) for one in features]
                self._settle()
        with stage("encoder"):
            encodings, lengths = encode(self.network, features)
            self._settle()
        with stage("search"):
            texts = decode(self.network, encodings, lengths, self._how)
        with stage("post"):
            self.emitted_tokens = [len(tokens) for tokens in texts]
            return [self._tokens.text(tokens) for tokens in texts]

    def _check_length(self, samples: int) -> None:
        shape = self._family.shape
        frames = shape.frames(1 + samples // HOP)
        if shape.longest is not None and frames > shape.longest:
            raise StopwavError(
                f"{self._family.engine}: an utterance of {samples / SAMPLE_RATE_HZ:.1f} s is {frames} encoder frames, "
                f"and there are positions for {shape.longest}: cut it into shorter ones"
            )

    def _long_enough(self, samples: Tensor) -> Tensor:
        """The samples, with silence behind them where they are too few to make one encoder frame."""
        least = max(HALF + 1, (self._family.shape.shortest - 1) * HOP)
        return torch.nn.functional.pad(samples, (0, max(0, least - len(samples))))

    def _settle(self) -> None:
        """Wait for the device at the end of a stage, so that each stage holds its own work and no other's."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


# What the registry names.
conformer_hybrid = partial(HybridRecogniser, "conformer-hybrid")
lstm_hybrid = partial(HybridRecogniser, "lstm-hybrid")


def _network(family: Family, options: HybridOptions) -> tuple[Hybrid, Statistics | None]:
    """The network, and the statistics of its features where there are any."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        network = Hybrid(family.shape).eval()
    if options.source is None:
        return network, None
    path = Path(options.source)
    rules = read_rules(str(options.names)) if options.names is not None else []
    tensors = rename(read_tensors(path), rules, path)
    statistics = _own_statistics(tensors, path)
    if options.stats is not None:
        statistics = load_statistics(Path(str(options.stats)))
    _check_family(family, tensors, path)
    way_out = f"a state dict of {family.engine} is expected"
    if options.names is None:
        way_out += ", or names=espnet where it has ESPnet's names"
    fill(network, tensors, path, way_out)
    return network, statistics


def _own_statistics(tensors: dict[str, Tensor], path: Path) -> Statistics | None:
    """The statistics that a checkpoint brings, taken out of it."""
    mean, deviation = (tensors.pop(f"statistics.{name}", None) for name in ("mean", "deviation"))
    if mean is None or deviation is None:
        return None
    if mean.shape != (BANDS,) or deviation.shape != (BANDS,):
        raise StopwavError(
            f"{path}: its statistics are {mean.numel()} and {deviation.numel()} values, but there are {BANDS} mel bands"
        )
    return Statistics(mean.float(), 1 / deviation.float())


def _check_family(family: Family, tensors: dict[str, Tensor], path: Path) -> None:
    """Nothing; an error where the checkpoint is of the other family."""
    for other in FAMILIES:
        if other is family:
            continue
        with torch.device("meta"):
            names = Hybrid(other.shape).state_dict().keys()
        if names <= tensors.keys():
            raise StopwavError(
                f"{path}: a checkpoint of {other.engine}, not of {family.engine}; write {other.engine}:{path},…"
            )


def _note(ctc_weight: float, ratio: float) -> str:
    note = "random weights: times are real, texts are not"
    if ctc_weight == 1:
        return note
    return f"{note}; every text has {ratio:g} tokens per encoder frame, at which its decoding is stopped"
