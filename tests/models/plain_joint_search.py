"""Joint search written for reading: one utterance, one hypothesis at a time, everything recomputed at every step."""

import math

import numpy as np
import torch
from plain_ctc import prefix_probability, text_probability

from stopwav.models.hybrid import Hybrid
from stopwav.models.joint_search import LengthLimits

Tokens = tuple[int, ...]


def attention_scores(model: Hybrid, encodings: torch.Tensor, text: Tokens) -> np.ndarray:
    """The log-probabilities of what follows a text, from the first token on."""
    state = model.decoder.start(encodings[None], torch.tensor([len(encodings)]), 1)
    for token in (model.shape.tokens - 1, *text):
        scores = model.decoder(torch.tensor([[token]]), state)
    return scores[0, 0].numpy()


def ctc_scores(probabilities: np.ndarray, text: Tokens) -> np.ndarray:
    """The log-probabilities that the text begins with this one and a token; the last: that it is this one."""
    tokens = probabilities.shape[1]
    begins = [0.0, *(prefix_probability(probabilities, (*text, token)) for token in range(1, tokens - 1))]
    with np.errstate(divide="ignore"):
        return np.log([*begins, text_probability(probabilities, text)])


def plain_search(
    model: Hybrid, encodings: torch.Tensor, probabilities: np.ndarray, weight: float, limits: LengthLimits, beam: int
) -> tuple[Tokens, float]:
    """Return the best text and its score; every length is tried, and no search ends early."""
    end = model.shape.tokens - 1
    running: list[tuple[Tokens, float]] = [((), 0.0)]
    best: tuple[Tokens, float] = ((), -math.inf)
    for length in range(limits.max_tokens + 1):
        grown = []
        for text, so_far in running:
            by_attention = so_far + attention_scores(model, encodings, text)
            by_ctc = ctc_scores(probabilities, text)
            for token in range(1, end + 1):
                if length < limits.min_tokens if token == end else length >= limits.max_tokens:
                    continue
                parts = [
                    (1 - weight) * by_attention[token] if weight < 1 else 0,
                    weight * by_ctc[token] if weight else 0,
                ]
                grown.append((sum(parts), text, token, by_attention[token]))
        grown = sorted((item for item in grown if item[0] > -math.inf), reverse=True)[:beam]
        best = max(
            [best, *((text, score) for score, text, token, _ in grown if token == end)], key=lambda item: item[1]
        )
        running = [((*text, token), attention) for _, text, token, attention in grown if token != end]
    return best
