"""The published comparison of two hybrid recognisers, taken again on this machine. Prints a card per CTC weight.

    python benchmarks/hybrids.py [--weights 0,0.3,1] [--frames 100,200,400,800,1600] [--samples 12] [--rounds 3]
                                 [--device cpu|cuda] [--energy-time 60] [--no-energy]
                                 [--save stopwav-runs]

Both models at each weight in a run of their own, in which they take turns: the question is which of the two to ship.
After the cards come one table over all weights and lengths, how finely the energy counter counts, and whether "the
LSTM is slower" is supported at each weight. Rounds are short, a few values each; with the rounds of the default plan it
is, for each weight W and device D,
`stopwav compare conformer-hybrid,ctc_weight=W,device=D lstm-hybrid,ctc_weight=W,device=D --energy --expect …`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from stopwav import Plan, card, compare, results
from stopwav.record import Record, Result
from stopwav.report.compare_markdown import compare_markdown
from stopwav.report.markdown import table
from stopwav.report.numbers import format_value
from stopwav.stats import Estimate

# What was published for seconds per utterance on an edge board, LSTM against Conformer.
EXPECTED = {"0": "faster", "1": "faster", "0.3": "slower"}
# Warm-up calls, three at the least, are most of a round at 16 s of audio; a value or two are left for it.
PLAN = Plan(min_values=3, max_values=20, warmup_s=0.5, min_values_s=0.5, max_values_s=2.0)
# The columns of the table over all weights: metric, by what it is multiplied, and how many decimals it has at most.
COLUMNS = {
    "latency, ms": ("latency", 1e3, 2),
    "tokens": ("emitted_tokens", 1.0, 0),
    "J per audio s, gross": ("energy_per_audio_s_gross", 1.0, 3),
    "net": ("energy_per_audio_s_net", 1.0, 3),
    "W": ("mean_power", 1.0, 1),
    "idle W": ("idle_power", 1.0, 1),
}


def main() -> None:
    """Measure, and print the cards, the table, and what became of the hypothesis."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", default="0,0.3,1")
    parser.add_argument("--frames", default="100,200,400,800,1600")
    parser.add_argument("--samples", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--energy-time", type=float, default=60.0, help="seconds of work at each length, all rounds")
    parser.add_argument("--no-energy", dest="energy", action="store_false")
    parser.add_argument("--save", type=Path, default=Path("stopwav-runs"))
    chosen = parser.parse_args()
    lengths: list[tuple[str, Result]] = []
    told: list[str] = []
    for weight in chosen.weights.split(","):
        record = measured(weight, chosen)
        found, decided = results(record), card(record)
        print(compare_markdown(record, found, decided), flush=True)
        lengths += [(weight, one) for one in found if one.params["kind"] == "length"]
        slower = (one for one in decided.expectations if " slower " in one.text)
        told += [f"- CTC weight {weight}, the LSTM is slower: {one.judgement} ({one.reason})" for one in slower]
    rows = [row(weight, one) for weight, one in lengths]
    print(table(["model", "CTC weight", "audio, s", *COLUMNS, "sampled / counter"], rows), end="\n\n")
    print("\n".join([*dict.fromkeys(line for _, one in lengths for line in counters(one)), *told]))


def measured(weight: str, chosen: argparse.Namespace) -> Record:
    """The run of both models at one CTC weight."""
    conformer, lstm = (f"{model}-hybrid,ctc_weight={weight},device={chosen.device}" for model in ("conformer", "lstm"))
    relations = dict.fromkeys(["smaller", EXPECTED.get(weight, "slower"), "slower"])
    return compare(
        [conformer, lstm],
        frames=[int(part) for part in chosen.frames.split(",")],
        samples=chosen.samples,
        rounds=chosen.rounds,
        energy=chosen.energy,
        energy_time_s=chosen.energy_time,
        expect=[f"{lstm} {relation} {conformer}" for relation in relations],
        plan=PLAN,
        save=chosen.save,
        resume=True,
    )


def row(weight: str, length: Result) -> list[str]:
    """The row of one model at one weight and length; a dash where there is no number."""
    model, _, _ = str(length.params["of"]).partition(",")
    nothing = Estimate(None)
    columns = [(length.metrics.get(metric, nothing), scale, most) for metric, scale, most in COLUMNS.values()]
    cells = [format_value(*column) for column in columns]
    # Where the whole machine is metered, only its GPU has a second reading, under a name of its own.
    ratios = [one for name, one in length.metrics.items() if name.startswith("sampled_to_counter")]
    ratio = next((one for one in ratios if one.value is not None), nothing)
    return [model, weight, f"{length.params['audio_s']:g}", *cells, format_value(ratio, most=3)]


def counters(length: Result) -> Iterator[str]:
    """What the joules are of and how finely its counter counts, then the other counters; or why there are no joules."""
    gross = length.metrics.get("energy_per_audio_s_gross")
    if gross is None:
        return
    if gross.value is None:
        yield f"- Energy: {gross.note}"
        return
    yield f"- Joules of {gross.note.partition(';')[0]}"
    for name, step in length.metrics.items():
        _, found, part = name.partition("counter_step_")
        if found:
            cells = format_value(step, most=6), format_value(length.metrics[f"counter_interval_{part}"], 1e3)
            yield f"- Counter of {part}: steps of {cells[0]} J or more, every {cells[1]} ms"


if __name__ == "__main__":
    main()
