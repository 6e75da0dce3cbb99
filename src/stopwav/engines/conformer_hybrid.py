"""The Conformer of the hybrid comparison: an encoder of 12 blocks, CTC, and a Transformer decoder over 5,000 pieces."""

from __future__ import annotations

from collections.abc import Sequence

from stopwav.engines.hybrid_options import HybridOptions
from stopwav.engines.hybrid_recogniser import HybridRecogniser
from stopwav.speech.audio import Audio


class ConformerHybrid:
    """The engine `conformer-hybrid[:CHECKPOINT,tokenizer=TOKENS][,ctc_weight=0.3][,beam=10][,device=cuda]…`."""

    def __init__(
        self,
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
        self._recogniser = HybridRecogniser("conformer-hybrid", options)
        self.info = self._recogniser.info
        self.network = self._recogniser.network

    @property
    def emitted_tokens(self) -> list[int]:
        """How many tokens each text of the last batch has: it decides the time that searching takes."""
        return self._recogniser.emitted_tokens

    def transcribe(self, batch: Sequence[Audio]) -> list[str]:
        """The text of each utterance."""
        return self._recogniser.transcribe(batch)
