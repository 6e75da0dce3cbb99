"""What casts doubt on a comparison as a whole: the machine, the corpus, and engines that do not do the same thing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stopwav.errors import Caution
from stopwav.record import Record
from stopwav.studies.compare.energy import Energy
from stopwav.studies.compare.pieces import Entrant
from stopwav.studies.compare.side import device_of
from stopwav.studies.corpus_header import header_warnings


def run_cautions(record: Record, sides: Sequence[Entrant], energy: Energy | None) -> Iterator[Caution]:
    """The doubts about every engine's numbers."""
    yield from header_warnings(record.header)
    for problem in record.header.corpus["problems"]:
        yield Caution("corpus", f"{problem['where']}: {problem['message']}")
    inputs, different = len(record.header.corpus["inputs"]), len(record.header.corpus["utterances"])
    if inputs > different:
        yield Caution(
            "samples-repeat",
            f"the corpus has {different} utterances: {inputs} samples take each {inputs // different} times or more, "
            "and intervals rest on the utterances",
        )
    yield from _differences(record, sides)
    if energy is not None and energy.log_fault:
        yield Caution("meter-log", energy.log_fault)
    if not record.complete:
        yield Caution("incomplete", "the run stopped early; --resume goes on")


def _differences(record: Record, sides: Sequence[Entrant]) -> Iterator[Caution]:
    """What makes engines hard to compare, though nothing forbids it."""
    languages = {side.name: side.info["language"] for side in sides if side.info.get("language")}
    if len(set(languages.values())) > 1:
        told = ", ".join(f"{name} {language}" for name, language in languages.items())
        yield Caution(
            "languages", f"the engines recognise different languages ({told}): their word errors differ by it"
        )
    for side, engine in zip(sides, record.header.spec["engines"], strict=True):
        device = device_of(engine)
        if side.info and str(side.info["device"]).split(":")[0] != device.split(":")[0]:
            yield Caution(
                "device",
                f"{side.name} runs on {side.info['device']} but was timed as on {device}: name it as device=…",
            )
