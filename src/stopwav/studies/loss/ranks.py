"""Which loss is first: by paired rounds on the batches that all of them got through."""

from __future__ import annotations

from collections.abc import Mapping

from stopwav.stats import Estimate
from stopwav.stats.verdict import paired_verdict
from stopwav.studies.loss.metrics import Steps, over_batches, round_locations, step_values


def ranks(measured: Mapping[str, Steps]) -> dict[str, Estimate]:
    """The rank of each loss that was measured: 1 and the number of losses that are faster beyond doubt.

    Losses that cannot be told apart share a rank. With one round there is no doubt to be had, and the order is that of
    the times.
    """
    present = {name: steps for name, steps in measured.items() if steps.good}
    found = {}
    for name, steps in present.items():
        others = {other: theirs for other, theirs in present.items() if other != name}
        faster = [other for other, theirs in others.items() if _is_faster(theirs, steps)]
        found[name] = Estimate(float(1 + len(faster)), n=len(present), note=_note(present))
    return found


def _note(present: Mapping[str, Steps]) -> str:
    rounds = min(len({one.index for taken in steps.good.values() for one in taken}) for steps in present.values())
    return "by the times of one round: no verdict" if rounds < 2 else "losses that cannot be told apart share a rank"


def _is_faster(a: Steps, b: Steps) -> bool:
    """Whether a is faster than b, on the batches that both got through."""
    shared = [number for number in a.good if number in b.good]
    if not shared:
        # Nothing to pair: the one with a time at all over more batches is not the faster one for it.
        return False
    first, second = round_locations(a, shared), round_locations(b, shared)
    both = sorted(first.keys() & second.keys())
    if len(both) < 2:
        ours, theirs = over_batches(a, step_values).value, over_batches(b, step_values).value
        return ours is not None and theirs is not None and ours < theirs
    verdict = paired_verdict([first[index] for index in both], [second[index] for index in both])
    return verdict.kind == "slower"
