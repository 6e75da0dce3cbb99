"""Lhotse cuts: plain ones are read where their audio lies; mixed and changed ones are made by the package `lhotse`."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError
from stopwav.speech import ctm
from stopwav.speech.cache_folder import cache_folder
from stopwav.speech.corpora.json_lines import Entry
from stopwav.speech.corpora.manifest import corpus_stem
from stopwav.speech.corpora.name import CorpusName
from stopwav.speech.corpora.rows import label
from stopwav.speech.utterance import Corpus, Problem, Utterance, Word, assemble, id_of, one_line

WRITE_AUDIO = "write its audio to files first, with CutSet.save_audios"


class _WrongCutError(Exception):
    """Why a cut cannot be used."""


def is_cut(fields: Mapping[str, Any]) -> bool:
    """Whether an object of a JSON file is a cut."""
    return "supervisions" in fields or "tracks" in fields or str(fields.get("type", "")).endswith("Cut")


def load_cuts(name: CorpusName, entries: Sequence[Entry], problems: Sequence[Problem]) -> Corpus:
    """Load the cuts of a file: the words of all their supervisions, and their times where there is an alignment.

    Commands are never run, and nothing is downloaded. Relative paths start from the folder of the file or, as in
    Lhotse, from the current one.
    """
    utterances: list[tuple[str, Utterance]] = []
    refused = list(problems)
    words: dict[str, list[Word]] = {}
    for entry in entries:
        try:
            utterance = _utterance(name.path.parent, entry.fields)
            times = [word for start_s, part in _supervisions(entry.fields) for word in _words(start_s, part)]
        except _WrongCutError as error:
            refused.append(Problem(entry.where, str(error)))
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
            reason = one_line(f"{type(error).__name__}: {error}")[:80]
            refused.append(Problem(entry.where, f"not a cut as Lhotse writes it ({reason}); correct it"))
        else:
            utterances.append((entry.where, utterance))
            if times:
                words.setdefault(utterance.id, times)
    corpus = assemble(corpus_stem(name.path), utterances, refused)
    usable = {utterance.id for utterance in corpus.utterances}
    return ctm.attach(corpus, {key: times for key, times in words.items() if key in usable}, name.path.name)


def _utterance(folder: Path, cut: Mapping[str, Any]) -> Utterance:
    supervisions = [supervision for _, supervision in _supervisions(cut)]
    texts = [str(supervision["text"]) for supervision in supervisions if supervision.get("text")]
    found = _located(folder, cut)
    plain = _plain_audio(found)
    path, channel, start_s, end_s = (_rendered(found), None, 0.0, None) if plain is None else plain
    return Utterance(
        id=id_of(str(cut["id"])),
        path=path,
        text=one_line(" ".join(texts)) if texts else None,
        start_s=start_s,
        end_s=end_s,
        speaker=_only(supervisions, "speaker"),
        language=_only(supervisions, "language"),
        channel=channel,
    )


def _supervisions(cut: Mapping[str, Any]) -> list[tuple[float, Mapping[str, Any]]]:
    """Return the supervisions of a cut and its tracks by their start, each with when its recording begins in the cut.

    A cut from the middle of a recording begins after it: that time is negative.
    """
    found = []
    for offset_s, part in _parts(cut, 0.0):
        recording_s = offset_s - _seconds(part.get("start", 0.0))
        for each in part.get("supervisions", ()):
            start_s = float(each["start"])
            if not -ctm.OVERSHOOT_S <= start_s <= start_s + _seconds(each["duration"]) <= _length_s(part):
                raise _WrongCutError("its supervision reaches beyond it; trim the cuts to their supervisions")
            found.append((offset_s + start_s, recording_s, each))
    return [(recording_s, each) for _, recording_s, each in sorted(found, key=lambda item: item[0])]


def _length_s(cut: Mapping[str, Any]) -> float:
    return _seconds(cut["duration"]) + ctm.OVERSHOOT_S


def _parts(cut: Mapping[str, Any], offset_s: float) -> Iterator[tuple[float, Mapping[str, Any]]]:
    """Yield a cut that is not mixed, or those of its tracks, each with when it begins."""
    if "tracks" not in cut:
        yield offset_s, cut
    for track in cut.get("tracks", ()):
        yield from _parts(track["cut"], offset_s + _seconds(track.get("offset", 0.0)))


def _only(supervisions: Sequence[Mapping[str, Any]], key: str) -> str:
    """Return the label that all supervisions share, "" where they have several."""
    labels = {label(supervision.get(key)) for supervision in supervisions}
    return labels.pop() if len(labels) == 1 else ""


def _words(recording_s: float, supervision: Mapping[str, Any]) -> Iterator[Word]:
    """Yield the aligned words of a supervision; their times in the file count from the start of the recording."""
    for symbol, start_s, duration_s, *_ in (supervision.get("alignment") or {}).get("word", ()):
        word_s = recording_s + float(start_s)
        yield Word(str(symbol), round(word_s, 6), round(word_s + float(duration_s), 6))


def _located(folder: Path, cut: Mapping[str, Any]) -> dict[str, Any]:
    """Return a cut whose sources are files with full paths; raise where one is no file or is not there."""
    if "tracks" in cut:
        tracks = [{**track, "cut": _located(folder, track["cut"])} for track in cut["tracks"]]
        return {**cut, "tracks": tracks}
    if str(cut.get("type", "")) == "PaddingCut":
        return dict(cut)
    if not cut.get("recording"):
        raise _WrongCutError("it has no recording, only features or nothing; write cuts with their recordings")
    sources = []
    for source in cut["recording"]["sources"]:
        if source["type"] != "file":
            kind = f"its audio is of type {one_line(str(source['type']))!r}"
            raise _WrongCutError(f"{kind}; stopwav runs no commands and downloads nothing: {WRITE_AUDIO}")
        path = folder / source["source"]
        path = path if os.path.isfile(path) or not os.path.isfile(source["source"]) else Path(source["source"])
        if not os.path.isfile(path):
            raise _WrongCutError(f"no audio: {one_line(str(path))} does not exist; correct the path")
        sources.append({**source, "source": str(path.absolute())})
    return {**cut, "recording": {**cut["recording"], "sources": sources}}


def _plain_audio(cut: Mapping[str, Any]) -> tuple[Path, int | None, float, float | None] | None:
    """Return file, channel, start and end of a cut that is an unchanged part of one file; None of any other."""
    if "tracks" in cut or "recording" not in cut or cut["recording"].get("transforms"):
        return None
    wanted = cut["channel"] if isinstance(cut["channel"], list) else [cut["channel"]]
    source = next((source for source in cut["recording"]["sources"] if set(wanted) <= set(source["channels"])), None)
    if source is None or (len(wanted) > 1 and len(wanted) < len(source["channels"])):
        return None
    channel = source["channels"].index(wanted[0]) if len(wanted) < len(source["channels"]) else None
    start_s, duration_s = _seconds(cut["start"]), _seconds(cut["duration"])
    whole = start_s == 0.0 and duration_s == _seconds(cut["recording"]["duration"])
    return Path(source["source"]), channel, start_s, None if whole else start_s + duration_s


def _rendered(cut: Mapping[str, Any]) -> Path:
    """Return the file of a cut that lhotse has to make: it is made once, and kept in the user's cache folder."""
    root = cache_folder()
    if root is None:
        raise _WrongCutError("it is mixed or changed, and there is no cache folder to make it in: set STOPWAV_CACHE")
    sizes = sorted((path, os.path.getsize(path), os.stat(path).st_mtime_ns) for path in _files(cut))
    key = hashlib.sha256(json.dumps([cut, sizes], sort_keys=True).encode()).hexdigest()[:32]
    path = root / "cuts" / f"{key}.wav"
    if os.path.isfile(path):
        return path
    try:
        import soundfile
        from lhotse import CutSet
    except ImportError as error:
        advice = f"pip install 'stopwav[lhotse]', or {WRITE_AUDIO}"
        raise _WrongCutError(f"it is mixed or changed, and {error.name or error} is not installed: {advice}") from error
    try:
        made = next(iter(CutSet.from_dicts([dict(cut)])))
        samples, rate_hz = made.load_audio(), made.sampling_rate
    except Exception as error:  # whatever lhotse raises about a cut is a problem of that cut
        raise _WrongCutError(f"lhotse cannot make its audio ({one_line(str(error))[:120]}); {WRITE_AUDIO}") from error
    partial = path.with_suffix(f".{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(partial, samples.T, rate_hz, format="WAV", subtype="FLOAT")
        os.replace(partial, path)  # another process finds all of it or nothing
    except (OSError, RuntimeError) as error:
        raise StopwavError(f"cannot write {path} ({error}); set STOPWAV_CACHE to another folder") from error
    return path


def _files(cut: Mapping[str, Any]) -> Iterator[str]:
    for _, part in _parts(cut, 0.0):
        if part.get("recording"):
            yield from (source["source"] for source in part["recording"]["sources"])


def _seconds(value: Any) -> float:
    seconds = math.nan if isinstance(value, bool) else float(value)
    if not 0.0 <= seconds < math.inf:
        raise _WrongCutError(f"{one_line(repr(value))[:40]} is not a time in seconds; correct it")
    return seconds
