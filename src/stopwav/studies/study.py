"""A study: everything that belongs to one question, as one object; and the list of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from stopwav.errors import StopwavError, suggestion
from stopwav.plugins import entry_points

if TYPE_CHECKING:
    from stopwav.record import Record, Result
    from stopwav.report.chart import Chart
    from stopwav.report.document import Detail, Document
    from stopwav.studies.comparable import Comparable
    from stopwav.studies.definition import Definitions
    from stopwav.studies.forecast import Forecast
    from stopwav.studies.piece_kinds import Key, PieceKind
    from stopwav.studies.recognised_text import RecognisedText
    from stopwav.studies.spec import StudySpec

# A line per study: its name, the question that it answers, and where its object is. It is imported when first needed.
LISTED = {
    "latency": ("How long a listener waits for each word, and why.", "stopwav.studies.latency.study:STUDY"),
    "grid": ("Whether it is real-time and fits in memory, by duration × batch.", "stopwav.studies.grid.study:STUDY"),
    "compare": (
        "Which model to ship: size, speed, energy, errors side by side.",
        "stopwav.studies.compare.study:STUDY",
    ),
    "load": ("How many people it can serve at once, under an objective.", "stopwav.studies.load.study:STUDY"),
    "loss": ("Which transducer loss is right, fast and small.", "stopwav.studies.loss.study:STUDY"),
    "step": ("Where a training step goes: time and memory of each module.", "stopwav.studies.step.study:STUDY"),
}
# Packages add theirs through entry points of this group, named by the study.
GROUP = "stopwav.studies"


class Extra(Protocol):
    """Something that a run says besides its results, such as the verdicts of a comparison."""

    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Study:
    """One question: its settings, what measures it, what the run says, and how that is shown."""

    name: str
    spec: type[StudySpec]
    # The function of the same name in Python.
    run: Callable[..., Record]
    results: Callable[[Record], list[Result]]
    document: Callable[[StudyRun, Detail], Document]
    charts: Callable[[StudyRun], Mapping[str, Chart]]
    definitions: Definitions
    # The question as a sentence, for the help of its verb.
    question: str
    # The settings of a first run, for `stopwav init`.
    example: Mapping[str, Any]
    verb: Verb = field(default_factory=lambda: Verb())
    # The settings that these stand for, where something else may stand in the place of one, such as a recipe file. The
    # second argument names the settings that were given and not left at their defaults.
    expand: Callable[[dict[str, Any], Collection[str]], dict[str, Any]] = lambda settings, given: settings
    # What is to be said of the settings before and after that, in one line; "" for nothing.
    expansion_note: Callable[[Mapping[str, Any], Mapping[str, Any]], str] = lambda settings, expanded: ""
    # How long a run of these settings may take.
    forecast: Callable[[Any], Forecast] | None = None
    # The real-time factor and the seconds of loading of each engine in a run, or in the first pieces of one: forecasts
    # of all studies rest on them. None where its runs do not tell.
    speeds: Callable[[Record], Mapping[str, tuple[float, float]]] | None = None
    # What would stop a run of these settings at once: pairs of a setting and the reason.
    problems: Callable[[Any], Iterable[tuple[str, str]]] = lambda spec: ()
    # The pieces that a run may hold; None where they are not checked.
    pieces: Callable[[Record], Iterable[PieceKind]] | None = None
    # The keys of its plan that a run lacks; the pieces of what failed are part of the plan.
    missing: Callable[[Record], Iterable[Key]] = lambda record: ()
    # What a run says besides its results, by its key in `--json`; None where it has nothing to say.
    extras: Mapping[str, Callable[[StudyRun], Extra | None]] = field(default_factory=dict)
    # What its charts and pages show that is not in its results.
    view: Callable[[StudyRun], Mapping[str, Any]] = lambda run: {}
    # How `diff` and `gate` compare two runs of it; None where they do not.
    comparable: Comparable | None = None
    # The texts that engines recognised; None where its runs hold none.
    texts: Callable[[StudyRun], list[RecognisedText]] | None = None
    # Its streams as a Chrome trace; None where it has none.
    trace: Callable[[Sequence[Record]], dict[str, Any]] | None = None
    # Several runs of this study alone, in place of the usual table on top of their page.
    comparison: Callable[[Sequence[StudyRun]], Document] | None = None
    # How the codes of those warnings begin that say why something was not measured: the exit code is then 1.
    failure_codes: tuple[str, ...] = ()
    # The same of results that were left out on purpose, which is no failure.
    skip_codes: tuple[str, ...] = ()
    # The kinds of results that a history follows; None where the study is not followed over time.
    followed: tuple[str, ...] | None = None
    # Whether these also stand in one table with those of other runs.
    side_by_side: bool = True
    # The settings in words that tell a point in a history from that of another study or setting.
    series: str = ""


@dataclass(frozen=True)
class Verb:
    """The parts of a study's verb besides measuring and printing."""

    # Options of the verb that are no settings of the study, as typer parameters by name.
    options: Mapping[str, Any] = field(default_factory=dict)
    # Before anything is measured: the settings to run with, or None where there is nothing left to do.
    prepare: Callable[[dict[str, Any], Sequence[str]], dict[str, Any] | None] = lambda settings, given: settings
    # After the run, before its results are printed.
    after: Callable[[Record, Mapping[str, Any]], None] = lambda record, settings: None


class StudyRun:
    """A run with its study: its results and whatever else is derived from it, each computed once.

    Everything that reads a run goes through here: one that was edited is an error in one line, whatever is asked of it.
    """

    def __init__(self, record: Record) -> None:
        self.record = record
        self.study = study_of(record)
        check_run(record, self.study)

    @cached_property
    def results(self) -> list[Result]:
        """The results, computed again from the raw observations."""
        with self._reading("results"):
            return self.study.results(self.record)

    @property
    def followed(self) -> list[Result]:
        """The results that a history follows."""
        return [result for result in self.results if result.kind in (self.study.followed or ())]

    @cached_property
    def extras(self) -> dict[str, Extra]:
        """Everything besides its results, by its key in `--json`."""
        with self._reading("results"):
            computed = {key: extra(self) for key, extra in self.study.extras.items()}
        return {key: extra for key, extra in computed.items() if extra is not None}

    @cached_property
    def view(self) -> Mapping[str, Any]:
        """The data of its charts and page that are not in its results."""
        with self._reading("results"):
            return self.study.view(self)

    @cached_property
    def charts(self) -> Mapping[str, Chart]:
        """Its charts by name, in the order in which a page shows them."""
        from altair.utils.schemapi import debug_mode

        # Altair checks every part of every chart against its schema, which takes longer than all the rest; tests do it.
        with debug_mode(False), self._reading("charts"):
            return self.study.charts(self)

    @cached_property
    def texts(self) -> list[RecognisedText] | None:
        """The texts that its engines recognised; None where it holds none."""
        with self._reading("texts"):
            return None if self.study.texts is None else self.study.texts(self)

    def document(self, detail: Detail) -> Document:
        """Return the run as a document, with the recognised texts where they are asked for, and on the page.

        There, and where every metric is asked for, are the words that were taken for each other.
        """
        with self._reading("results"):
            from stopwav.report.document import Note
            from stopwav.studies.budget import rounds_text
            from stopwav.studies.engine_names import label_line

            document = self.study.document(self, detail)
            if document.record is not None:
                document = replace(document, rounds=rounds_text(document.record, piece_kinds(document.record)))
            blocks = [*document.blocks]
            if document.record is not None and (line := label_line(document.record.header.spec)):
                blocks.append(Note(line))
            # Imported when needed, as above.
            if detail.page or detail.every_metric:
                from stopwav.studies.confusions import confusion_blocks

                blocks += confusion_blocks(self.texts)
            if detail.page or detail.print_texts:
                from stopwav.studies.recognised_text import text_blocks

                blocks += text_blocks(self.texts, detail)
            return replace(document, blocks=tuple(blocks))

    def _reading(self, what: str) -> AbstractContextManager[None]:
        """What goes wrong in here is an error in one line."""
        # Imported when needed: pydantic takes longer than `--help` may.
        from stopwav.studies.stored_fields import readable

        return readable(self.record, f"{what} of this run")


def check_run(record: Record, study: Study, then: str = "measure again") -> None:
    """Raise for a run whose header or pieces no run of the study has, or that says it is complete and is not."""
    from stopwav.studies.corpus_header import check_header
    from stopwav.studies.piece_kinds import check_complete, check_pieces
    from stopwav.studies.stored_fields import readable

    with readable(record, "header", then):
        check_header(record.header)
        if study.pieces is not None:
            check_pieces(record, study.pieces(record))
        check_complete(record, study.missing(record))


def lazily(module: str, name: str) -> Callable[..., Any]:
    """Return a function of a module that is imported when it is first called: Altair takes longer than all the rest."""

    def call(*arguments: Any) -> Any:
        return getattr(import_module(module), name)(*arguments)

    return call


def study_names() -> list[str]:
    """Return the names of all studies, those of other packages last."""
    return list(dict.fromkeys([*LISTED, *(point.name for point in entry_points(GROUP))]))


def find_study(name: str) -> Study:
    """Return the study of that name."""
    if name in LISTED:
        module, _, attribute = LISTED[name][1].partition(":")
        study: Study = getattr(import_module(module), attribute)
        return study
    for point in entry_points(GROUP):
        if point.name == name:
            loaded: Study = point.load()
            return loaded
    raise StopwavError(f"unknown study {name!r}: {suggestion(name, study_names())}")


def study_of(record: Record) -> Study:
    """Return the study that a run is of."""
    try:
        return find_study(record.header.study)
    except StopwavError:
        raise StopwavError(
            f"{record.path}: a run of {record.header.study!r}, which this version of stopwav does not know"
        ) from None


def piece_kinds(record: Record) -> Iterable[PieceKind]:
    """Return the kinds of pieces that a run may hold; none where its study does not say."""
    pieces = study_of(record).pieces
    return () if pieces is None else pieces(record)


def results(record: Record) -> list[Result]:
    """Return the results of a run, computed again from its raw observations."""
    return StudyRun(record).results
