"""The published comparison of two hybrid recognisers, taken again on this machine. Prints a card per CTC weight.

    python benchmarks/hybrids.py [--weights 0,0.3,1] [--frames 100,200,400,800,1600] [--samples 12] [--rounds 3]
                                 [--save stopwav-runs]

Both models at each weight in a run of their own, in which they take turns: the question is which of the two to ship.
Rounds are short, a few values each; with the rounds of the default plan it is, for each weight W,
`stopwav compare conformer-hybrid,ctc_weight=W lstm-hybrid,ctc_weight=W --energy --expect …`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from stopwav import Plan, card, compare, results
from stopwav.report.compare_markdown import compare_markdown

# What was published for seconds per utterance on an edge board, LSTM against Conformer.
EXPECTED = {"0": "faster", "1": "faster", "0.3": "slower"}
# Warm-up calls, three at the least, are most of a round at 16 s of audio; a value or two are left for it.
PLAN = Plan(min_values=3, max_values=20, warmup_s=0.5, min_values_s=0.5, max_values_s=2.0)


def main() -> None:
    """Measure, and print the cards."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", default="0,0.3,1")
    parser.add_argument("--frames", default="100,200,400,800,1600")
    parser.add_argument("--samples", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", type=Path, default=Path("stopwav-runs"))
    chosen = parser.parse_args()
    for weight in chosen.weights.split(","):
        conformer, lstm = (f"{model}-hybrid,ctc_weight={weight}" for model in ("conformer", "lstm"))
        expected = [f"{lstm} smaller {conformer}"]
        if weight in EXPECTED:
            expected.append(f"{lstm} {EXPECTED[weight]} {conformer}")
        record = compare(
            [conformer, lstm],
            frames=[int(part) for part in chosen.frames.split(",")],
            samples=chosen.samples,
            rounds=chosen.rounds,
            energy=True,
            expect=expected,
            plan=PLAN,
            save=chosen.save,
            resume=True,
        )
        print(compare_markdown(record, results(record), card(record)), flush=True)


if __name__ == "__main__":
    main()
