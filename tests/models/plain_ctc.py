"""CTC written for reading, one text at a time: the reference for the tensors."""

import itertools
import math
from collections import defaultdict

import numpy as np

Labels = tuple[int, ...]


def collapsed(path: Labels) -> Labels:
    """The text that a label for each frame stands for."""
    return tuple(label for label, _ in itertools.groupby(path) if label != 0)


def texts(probabilities: np.ndarray) -> dict[Labels, float]:
    """The probability of every text, summed over every way to label the frames; `(time, tokens)`, no last token."""
    probability_of: dict[Labels, float] = defaultdict(float)
    for path in itertools.product(range(probabilities.shape[1] - 1), repeat=len(probabilities)):
        probability_of[collapsed(path)] += math.prod(probabilities[time, label] for time, label in enumerate(path))
    return dict(probability_of)


def prefix_probability(probabilities: np.ndarray, text: Labels) -> float:
    """The probability that the text begins so, by the recursion over frames."""
    if not text:
        return 1.0
    on_label, on_blank = _ends(probabilities, text[:-1])
    reached = 0.0
    for time, frame in enumerate(probabilities):
        again = len(text) > 1 and text[-1] == text[-2]
        reached += (on_blank[time] + (0.0 if again else on_label[time])) * frame[text[-1]]
    return reached


def text_probability(probabilities: np.ndarray, text: Labels) -> float:
    """The probability that this is the whole text."""
    on_label, on_blank = _ends(probabilities, text)
    return on_label[-1] + on_blank[-1]


def _ends(probabilities: np.ndarray, text: Labels) -> tuple[list[float], list[float]]:
    """For each time from 0 on: the probability that exactly the text was said, its last frame a label, or a blank."""
    on_label, on_blank = [0.0], [0.0 if text else 1.0]
    before = _ends(probabilities, text[:-1]) if text else ([0.0] * (len(probabilities) + 1),) * 2
    again = len(text) > 1 and text[-1] == text[-2]
    for time, frame in enumerate(probabilities):
        arrive = before[1][time] + (0.0 if again else before[0][time]) if text else 0.0
        label, blank = on_label[-1], on_blank[-1]
        on_label.append((label + arrive) * frame[text[-1]] if text else 0.0)
        on_blank.append((label + blank) * frame[0])
    return on_label, on_blank


def beam_search(probabilities: np.ndarray, beam: int) -> tuple[Labels, float]:
    """The likeliest text that a beam of texts finds, frame by frame, with dictionaries."""
    kept: dict[Labels, tuple[float, float]] = {(): (1.0, 0.0)}
    for frame in probabilities:
        grown: dict[Labels, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for text, (on_blank, on_label) in kept.items():
            grown[text][0] += (on_blank + on_label) * frame[0]
            if text:
                grown[text][1] += on_label * frame[text[-1]]
            for label in range(1, len(frame) - 1):
                again = bool(text) and label == text[-1]
                grown[(*text, label)][1] += (on_blank if again else on_blank + on_label) * frame[label]
        best = sorted(grown.items(), key=lambda item: -sum(item[1]))[:beam]
        kept = {text: (blank, label) for text, (blank, label) in best}
    text, sums = max(kept.items(), key=lambda item: sum(item[1]))
    return text, sum(sums)
