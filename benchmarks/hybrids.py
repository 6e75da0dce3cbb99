"""The published comparison of two hybrid recognisers, repeated on this machine. Prints a summary per CTC weight.

    python benchmarks/hybrids.py [--weights 0,0.3,1] [--frames 100,200,400,800,1600] [--samples 12] [--rounds 3]
                                 [--device cpu|cuda] [--energy-time 60] [--no-energy] [--meter-csv FILE]
                                 [--save stopwav-runs]

Each weight is one run in which both models take turns: the question is which of the two to ship. After the summaries
come one table over all weights and lengths, the resolution of the energy counter, and whether "the LSTM is slower" is
supported at each weight. Rounds are short, a few values each; with the default plan it is, for each weight W and
device D,
`stopwav compare conformer-hybrid,ctc_weight=W,device=D lstm-hybrid,ctc_weight=W,device=D --energy --expect …`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stopwav import Plan, compare
from stopwav.record import Record, Result
from stopwav.report.document import Detail
from stopwav.report.markdown import render_markdown, table_text
from stopwav.report.text import format_value
from stopwav.stats import Estimate
from stopwav.studies.study import StudyRun

# The published relation of seconds per utterance on an edge board, LSTM against Conformer.
EXPECTED = {"0": "faster", "1": "faster", "0.3": "slower"}
# The warm-up, of at least three calls, is most of a round at 16 s of audio, which leaves one or two values.
PLAN = Plan(min_values=3, max_values=20, warmup_s=0.5, min_values_s=0.5, max_values_s=2.0)
# The columns of the table over all weights: metric, scale, and maximum number of decimals.
COLUMNS = {
    "latency, ms": ("latency", 1e3, 2),
    "tokens": ("emitted_tokens", 1.0, 0),
    "J per audio s, gross": ("energy_per_audio_s_gross", 1.0, 3),
    "net": ("energy_per_audio_s_net", 1.0, 3),
    "W": ("mean_power", 1.0, 1),
    "idle W": ("idle_power", 1.0, 1),
}


def main() -> None:
    """Measure, and print the summaries, the table, and the verdict on the hypothesis."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", default="0,0.3,1")
    parser.add_argument("--frames", default="100,200,400,800,1600")
    parser.add_argument("--samples", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--energy-time", type=float, default=60.0, help="seconds of work at each length, all rounds")
    parser.add_argument("--no-energy", dest="energy", action="store_false")
    parser.add_argument("--meter-csv", help="log of an external power meter, which may grow during the run")
    parser.add_argument("--save", type=Path, default=Path("stopwav-runs"))
    chosen = parser.parse_args()
    lengths: list[tuple[str, Result]] = []
    verdicts: list[str] = []
    for weight in chosen.weights.split(","):
        record = measured(weight, chosen)
        run = StudyRun(record)
        summary: Any = run.extras["card"]
        print(render_markdown(run.document(Detail())), flush=True)
        lengths += [(weight, result) for result in run.results if result.kind == "length"]
        slower = (expected for expected in summary.expectations if " slower " in expected.text)
        claim = f"- CTC weight {weight}, the LSTM is slower"
        verdicts += [f"{claim}: {expected.judgement} ({expected.reason})" for expected in slower]
    rows = [row(weight, length) for weight, length in lengths]
    headings = ["model", "CTC weight", "audio, s", *COLUMNS, "sampled / counter"]
    print(table_text(headings, ["left", *["right"] * (len(headings) - 1)], rows), end="\n\n")
    print("\n".join([*dict.fromkeys(line for _, length in lengths for line in counters(length)), *verdicts]))


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
        meter_csv=chosen.meter_csv,
        expect=[f"{lstm} {relation} {conformer}" for relation in relations],
        plan=PLAN,
        save=chosen.save,
        resume=True,
    )


def row(weight: str, length: Result) -> list[str]:
    """The row of one model at one weight and length; a dash where there is no number."""
    model, _, _ = str(length.params["of"]).partition(",")
    missing = Estimate(None)
    columns = [(length.metrics.get(metric, missing), scale, most) for metric, scale, most in COLUMNS.values()]
    cells = [format_value(*column) for column in columns]
    # If the meter covers the whole machine, only the GPU has a cross-check, under its own name.
    ratios = [estimate for name, estimate in length.metrics.items() if name.startswith("sampled_to_counter")]
    ratio = next((estimate for estimate in ratios if estimate.value is not None), missing)
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
        _, prefix, part = name.partition("counter_step_")
        if prefix:
            cells = format_value(step, most=6), format_value(length.metrics[f"counter_interval_{part}"], 1e3)
            yield f"- Counter of {part}: steps of {cells[0]} J or more, every {cells[1]} ms"


if __name__ == "__main__":
    main()
