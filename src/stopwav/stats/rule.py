"""The rule of a verdict: how far its interval reaches, and its p value, given when rounds may stop.

`fixed` is Student's t, for a number of rounds that was chosen before any of them was seen. `anytime` is a confidence
sequence: all its intervals, one after each round, contain the truth together with the confidence. So it may be looked
at after every round, and stopped at whatever moment and for whatever reason.

The sequence is that of Gaussian values of unknown variance, by a mixture over the ratio of mean and standard deviation
(H. Wang and A. Ramdas, "Anytime-valid t-tests and confidence sequences for Gaussian means with unknown variance", 2023,
after T. L. Lai, "On Confidence Sequences", 1976). With t the mean in standard errors, r = t² / (n - 1), and k = c² /
(n + c²), the likelihood ratio of the mixture against a mean of 0 is

    √k · ((1 + r) / (1 + k·r))^(n/2),

which exceeds 1/α at some n with a probability of α at most, where the mean is 0.
"""

from __future__ import annotations

import math
from typing import Literal

from stopwav.stats.intervals import t_quantile, t_tail

Rule = Literal["fixed", "anytime"]

# c² of the sequence: its mixture is over effects of about 1/c, or 3.2 standard deviations of a round. It is valid with
# any c², which moves only the number of rounds. Of values from 0.01 to 4 in benchmarks/stopping_rules.py this one is
# within a tenth of the fewest rounds for changes of 3, 5 and 10 %; larger ones have no interval from 3 rounds at all.
PRIOR_ROUNDS = 0.1
_NAMES: dict[Rule, str] = {
    "fixed": "Student t, for a fixed number of rounds",
    "anytime": "confidence sequence, valid at any stop",
}


def rule_text(rule: Rule, confidence: float | None = None) -> str:
    """Return the rule in a few words, for tables and notes, with the confidence where it is given."""
    return _NAMES[rule] if confidence is None else f"{100 * confidence:.4g} % {_NAMES[rule]}"


def interval_reach(rule: Rule, confidence: float, df: float, n: int, weight: float) -> float:
    """Return how many standard errors the interval of a mean reaches to either side; infinite from too few rounds.

    `df` are the degrees of freedom of Student's t. `n` counts rounds, of the side that has fewer, and `weight` is the
    squared ratio of the standard deviation of a round and the standard error; they are equal for paired rounds.
    """
    if rule == "fixed":
        return t_quantile((1 + confidence) / 2, df)
    k = PRIOR_ROUNDS / (weight + PRIOR_ROUNDS)
    # The likelihood ratio above, equal to 1/α, solved for r; where k · bound ≥ 1 it does not get as large for any r.
    log_bound = -(2 * math.log(1 - confidence) + math.log(k)) / n
    if math.log(k) + log_bound >= 0:
        return math.inf
    bound = math.exp(log_bound)
    return math.sqrt((n - 1) * (bound - 1) / (1 - k * bound))


def two_sided_p_value(rule: Rule, t: float, df: float, n: int, weight: float) -> float:
    """Return the p value of a mean `t` standard errors away from the truth; under `anytime` it holds at any stop."""
    if rule == "fixed":
        return 2 * t_tail(t, df)
    k = PRIOR_ROUNDS / (weight + PRIOR_ROUNDS)
    r = t * t / (n - 1)
    return math.exp(min(0.0, -0.5 * math.log(k) - n / 2 * (math.log1p(r) - math.log1p(k * r))))


def fewest_rounds(rule: Rule, confidence: float) -> int:
    """Return from how many rounds on there is an interval at all."""
    n = 2
    while math.isinf(interval_reach(rule, confidence, n - 1, n, n)):
        n += 1
    return n
