"""What may be asked of the hybrid recognisers, checked before anything is loaded."""

from __future__ import annotations

import os
from dataclasses import dataclass

from stopwav.engines.toolkit import check_one_of, check_torch_device
from stopwav.errors import StopwavError
from stopwav.models.hybrid import Decoding

PRECISIONS = ("float32", "float16", "bfloat16")
# A trained decoder ends its texts itself; CTC can lay no more tokens than there are frames.
TRAINED_MAX_LEN_RATIO = 1.0


@dataclass(frozen=True)
class HybridOptions:
    """The options of `conformer-hybrid` and `lstm-hybrid`."""

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
        """Nothing; an error in one line where an option cannot be."""
        if self.source is not None and not os.path.isfile(self.source):
            raise StopwavError(f"{engine}:{self.source}: no such file; name a checkpoint, or none for random weights")
        if self.source is not None and self.tokenizer is None:
            raise StopwavError(
                f"{engine}:{self.source} needs the tokens that the checkpoint was trained with: "
                f"{engine}:{self.source},tokenizer=TOKENS"
            )
        for option, value in (("names", self.names), ("stats", self.stats)):
            if self.source is None and value is not None:
                raise StopwavError(f"{engine}: {option}={value} is for a checkpoint: write {engine}:CHECKPOINT,…")
        if not _is_number(self.ctc_weight) or not 0 <= self.ctc_weight <= 1:
            raise StopwavError(f"{engine}: ctc_weight={self.ctc_weight}: from 0, attention alone, to 1, CTC alone")
        if not _is_whole(self.beam) or self.beam < 1:
            raise StopwavError(f"{engine}: beam={self.beam}: a whole number, at least 1")
        ratio = self.max_len_ratio
        if ratio is not None and (not _is_number(ratio) or not 0 < ratio <= 1):
            raise StopwavError(f"{engine}: max_len_ratio={ratio}: tokens per encoder frame, above 0 and at most 1")
        if not _is_whole(self.seed):
            raise StopwavError(f"{engine}: seed={self.seed}: a whole number")
        check_one_of(engine, "dtype", self.dtype, PRECISIONS)
        check_torch_device(engine, self.device)

    def decoding(self, tokens_per_frame: float) -> Decoding:
        """How texts are searched for; those of random weights are as long as the ratio says, speech's by default."""
        if self.source is not None:
            longest = TRAINED_MAX_LEN_RATIO if self.max_len_ratio is None else self.max_len_ratio
            return Decoding(self.ctc_weight, self.beam, 0.0, longest)
        ratio = tokens_per_frame if self.max_len_ratio is None else self.max_len_ratio
        return Decoding(self.ctc_weight, self.beam, ratio, ratio)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, float) or _is_whole(value)
