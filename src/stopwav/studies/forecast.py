"""How long a run may take, on what basis, and what would stop it at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from stopwav.engines.label import read_label
from stopwav.errors import StopwavError
from stopwav.record import Header, Record, read_first_pieces, read_header
from stopwav.speech.audio_file import duration_s
from stopwav.speech.corpus import Corpus
from stopwav.studies.engine_names import engine_settings
from stopwav.studies.run_folder import paths_in
from stopwav.studies.spec import StudySpec
from stopwav.studies.stored_fields import UNREADABLE
from stopwav.studies.study import Study, find_study, study_names

# Without an earlier run, an engine is assumed to work as fast as speech arrives: most are faster.
ASSUMED_RTF = 1.0
# A fresh process takes this long to start and load a small model.
ASSUMED_LOAD_S = 3.0
# Earlier runs whose headers are looked at, newest first, and those of the same engine that are read.
EARLIER_HEADERS, EARLIER_RUNS = 200, 20
# What is read of such a run: its first rounds are enough for an estimate, and a run may have gigabytes.
EARLIER_BYTES = 8_000_000
# Utterances whose length is looked up: enough for the mean, where opening 100,000 files would take minutes.
_LENGTHS = 200


@dataclass(frozen=True)
class Forecast:
    """How long a run may take (None where nothing is known), and on what basis."""

    seconds: float | None
    basis: tuple[str, ...]


class EarlierSpeed(NamedTuple):
    """How fast an engine was in an earlier run: real-time factor, seconds of loading, and the run with its study."""

    rtf: float
    load_s: float
    run: str


def forecast(study: Study, spec: StudySpec) -> Forecast:
    """Return the forecast of a run; its audio may be opened, and nothing is measured."""
    if study.forecast is None:
        return Forecast(None, (f"no estimate for {study.name}",))
    try:
        return study.forecast(spec)
    except UNREADABLE as error:  # the pieces of an earlier run: an estimate is no reason to stop
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        return Forecast(None, (f"no estimate: an earlier run in {spec.save} cannot be read ({reason}); remove it",))


def engine_problems(
    setting: str, engines: Iterable[str], time_limit_s: float = 0.0, *, streaming: bool = False, servers: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield the engines that are not available, each as the setting that names it and the reason."""
    from stopwav.studies.engine_check import check_engines

    for engine in engines:
        try:
            check_engines([engine], time_limit_s, streaming=streaming, servers=servers)
        except StopwavError as error:
            yield setting, str(error)


def earlier_runs(folder: Path, study: str, matches: Callable[[Header], bool]) -> Iterator[Record]:
    """Yield the earlier runs of a study whose headers match, newest first, each with its first pieces alone."""
    read = 0
    for path in paths_in(folder, study)[:EARLIER_HEADERS]:
        try:
            header = read_header(path)
            # A file may have been copied under another name.
            if header.study == study and matches(header) and read < EARLIER_RUNS:
                read += 1
                yield read_first_pieces(path, EARLIER_BYTES)
        except StopwavError:  # no run, or a broken one
            continue


def earlier_speed(engine: str, folder: Path, own: str = "") -> EarlierSpeed | None:
    """Return how fast an engine was in the newest run of any study that measured it; None where none has.

    Runs of the study `own` come first: batches and streams of one engine differ in speed.
    """
    read = 0
    for path, study in _named_like_runs(folder, own):
        try:
            header = read_header(path)
            if header.study != study.name or not _may_measure(header, engine) or read >= EARLIER_RUNS:
                continue
            read += 1
            record = read_first_pieces(path, EARLIER_BYTES)
        except StopwavError:  # no run, or a broken one
            continue
        if study.speeds is not None and (speed := _speed_of(engine, study.speeds(record), header)) is not None:
            return EarlierSpeed(*speed, f"{path.name} (stopwav {study.name})")
    return None


def _speed_of(engine: str, speeds: Mapping[str, tuple[float, float]], header: Header) -> tuple[float, float] | None:
    """The speed of an engine, whatever label it has now and had in the run."""
    setting = read_label(engine).setting
    names = [name for name, other in engine_settings(header.spec).items() if other == setting]
    return next((speeds[name] for name in (*names, setting) if name in speeds), None)


def _named_like_runs(folder: Path, own: str) -> list[tuple[Path, Study]]:
    """The files of studies that tell speeds: those of the study `own`, then all others, each newest first."""
    files = []
    for name in study_names():
        paths = paths_in(folder, name)[:EARLIER_HEADERS]
        if paths and (study := find_study(name)).speeds is not None:
            files += [(path, study) for path in paths if path.is_file()]
    return sorted(files, key=lambda file: (file[1].name != own, -os.path.getmtime(file[0])))


def _may_measure(header: Header, engine: str) -> bool:
    """Whether a run may be of an engine; a grid names its device apart, and the oldest runs no settings to try."""
    setting = read_label(engine).setting
    others = engine_settings(header.spec).values()
    return bool(header.spec.get("explain")) or any(f"{setting},".startswith(f"{other},") for other in others)


def measured_basis(engine: str, rtf: float, load_s: float, run: str) -> str:
    """Return how fast an engine was in an earlier run."""
    return f"{engine}: real-time factor {rtf:.3f} and load {load_s:.1f} s, measured in {run}"


def assumption(engines: list[str], folder: Path | str) -> str:
    """Return the assumption about engines that no earlier run has measured."""
    assumed = f"RTF {ASSUMED_RTF:g} and {ASSUMED_LOAD_S:g} s of loading assumed for {', '.join(dict.fromkeys(engines))}"
    return f"no earlier run in {folder} to calibrate on: {assumed}"


def lengths_of(corpus: Corpus, limit: int | None) -> tuple[int, float, float]:
    """Return how many utterances are streamed, and their mean and largest length in seconds."""
    # Spread over the corpus: the first of a sorted one are all alike.
    step = -(-len(corpus.utterances) // _LENGTHS)
    lengths_s = [duration_s(utterance) for utterance in corpus.utterances[::step]]
    count = min(limit or len(corpus.utterances), len(corpus.utterances))
    return count, sum(lengths_s) / len(lengths_s), max(lengths_s)
