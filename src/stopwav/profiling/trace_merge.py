"""`stopwav.merge_traces`: several traces as one, in which sources neither share processes nor ids."""

from __future__ import annotations

import gzip
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Literal, TextIO, TypeVar

from stopwav.errors import StopwavError, suggestion
from stopwav.profiling.trace_file import BrokenTrace, Event, TraceFile, time_ns, trace_files

Align = Literal["clock", "start"]
ALIGNS: tuple[Align, ...] = ("clock", "start")

BASE = "baseTimeNanoseconds"
# Times since 1970 are beyond this since 2001; those since a machine's start reach it after 31 years.
UNIX_NS = 10**18
# Events by whose ids viewers join them: flows, and asynchronous events, now and in older files.
JOINED = frozenset("stfbneSTpF")
# Ids in the arguments by which torch.profiler's readers join operators, calls of the runtime and kernels.
ARGUMENT_IDS = ("External id", "external id", "correlation")
# Perfetto keeps 32 bits of a process or thread: threads of more, such as pthread's, would become one. Those get numbers
# from here on, beyond those of Linux (22 bits).
LARGEST, FIRST_THREAD = 2**32, 2**30
# Written anew for each process, so that it is named after its source and stands next to its source's others.
REPLACED = frozenset({"process_name", "process_sort_index"})


Container = TypeVar("Container", list[Any], dict[str, Any])


@dataclass(frozen=True)
class TraceSource:
    """One trace in a merged one: its name there, its numbers of processes by the old ones, and how far it was moved."""

    name: str
    file: str
    events: int
    processes: Mapping[str, int]
    first_s: float  # its first event, from the first of all
    moved_s: float  # added to its timestamps


@dataclass(frozen=True)
class MergedTrace:
    """A merged trace: where it lies, its sources, and the rule by which their times were aligned."""

    path: str
    events: int
    alignment: str
    sources: tuple[TraceSource, ...]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the fields as `--json` prints them."""
        return asdict(self)


@dataclass
class _Scan:
    """A source before it is written: what a first reading, which also proves it whole, found in it."""

    file: TraceFile
    name: str
    events: int = 0
    first_ns: float = math.inf  # a whole number, once there is an event
    # The processes by their old numbers, in the order in which viewers show them: names, and places in that order.
    names: dict[Any, str] = field(default_factory=dict)
    places: dict[Any, float] = field(default_factory=dict)
    processes: dict[Any, int] = field(default_factory=dict)
    # Threads whose numbers are too large for viewers.
    threads: dict[int, int] = field(default_factory=dict)
    moved_ns: int = 0

    @property
    def base_ns(self) -> int | None:
        """When its time begins, in nanoseconds since 1970; None where the file does not say."""
        base = self.file.metadata.get(BASE)
        if isinstance(base, int) and not isinstance(base, bool):
            return base
        return 0 if UNIX_NS < self.first_ns < math.inf else None


def merge_traces(files: Sequence[str | Path], output: str | Path, *, align: Align = "clock") -> MergedTrace:
    """Merge traces (files, or folders of them) into one that Perfetto, chrome://tracing and TensorBoard open.

    Each source gets processes of its own, named after it, and ids of its own. `align="clock"` keeps the real time of
    sources that say when their time begins (`baseTimeNanoseconds`, or microseconds since 1970); one that does not say
    begins with the first of the others, and where none says, all keep their timestamps. With `align="start"` all begin
    together. A broken trace is an error, and nothing is written. An output that ends in `.gz` is compressed.
    """
    if align not in ALIGNS:
        raise StopwavError(f"align {align!r}: {suggestion(align, ALIGNS)}")
    paths = [path for place in files for path in trace_files(Path(place), "merge_traces")]
    target = Path(output)
    if not paths:
        raise StopwavError("merge_traces: no .json or .json.gz file to merge; give traces, or folders of them")
    if any(target.resolve() == path.resolve() for path in paths):
        raise StopwavError(f"merge_traces: {target} is one of the traces and would be overwritten; name another file")
    scans = [_scan(path, name) for path, name in zip(paths, _source_names(paths), strict=True)]
    base_ns, alignment, notes = _align(scans, align)
    _number_processes(scans)
    merged = MergedTrace(str(target), sum(scan.events for scan in scans), alignment, tuple(_sources(scans)), notes)
    _write_whole(target, scans, _metadata(scans, base_ns, merged))
    return merged


def _scan(path: Path, name: str) -> _Scan:
    scan = _Scan(TraceFile(path), name)
    try:
        for event in scan.file.events():
            scan.events += 1
            process = _process(event)
            scan.places.setdefault(process, len(scan.places))
            if event.get("ph") != "M":
                start_ns = time_ns(event.get("ts"))
                scan.first_ns = scan.first_ns if start_ns is None else min(scan.first_ns, start_ns)
                continue
            arguments = event.get("args")
            arguments = arguments if isinstance(arguments, dict) else {}
            if event.get("name") == "process_name":
                scan.names[process] = str(arguments.get("name", ""))
            elif event.get("name") == "process_sort_index" and isinstance(arguments.get("sort_index"), int | float):
                scan.places[process] = arguments["sort_index"]
    except BrokenTrace as error:
        raise StopwavError(f"{path}: {error}; nothing was written, leave it out or give another trace") from error
    if not scan.events:
        raise StopwavError(f"{path}: no events; nothing was written, leave it out or give another trace")
    return scan


def _process(event: Event) -> int | str:
    process = event.get("pid", 0)
    return process if isinstance(process, int | str) else str(process)


def _source_names(paths: Sequence[Path]) -> list[str]:
    """Return a name for each file: its own without endings, after as many folders as tell it from the others."""
    whole = [path.resolve().parts for path in paths]
    names = []
    for parts in whole:
        others = [other for other in whole if other != parts]
        size = next(size for size in count(1) if all(other[-size:] != parts[-size:] for other in others))
        name = "/".join(parts[-size:]).removesuffix(".gz").removesuffix(".json").removesuffix(".pt.trace")
        names.append(name)
    # The same file twice, or one compressed and not.
    return [name if names.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(names, start=1)]


def _align(scans: Sequence[_Scan], align: Align) -> tuple[int | None, str, tuple[str, ...]]:
    """Set how far each source moves; return the base of the merged times, and which rule was used."""
    timed = [scan for scan in scans if scan.first_ns < math.inf]
    bases = {scan.base_ns for scan in timed}
    known = [scan for scan in timed if scan.base_ns is not None]
    if align == "start":
        for scan in timed:
            scan.moved_ns = -int(scan.first_ns)
        return None, "aligned by start: every source begins at 0", ()
    if not known:
        return None, "not aligned: no source says when its time begins, so all keep their timestamps", ()
    # Where all have the same base nothing moves; else times count from the first event: small numbers keep more digits.
    first_ns = min((scan.base_ns or 0) + int(scan.first_ns) for scan in known)
    base_ns = next(iter(bases)) if len(bases) == 1 else first_ns
    assert base_ns is not None
    for scan in timed:
        own_ns = first_ns - int(scan.first_ns) if scan.base_ns is None else scan.base_ns
        scan.moved_ns = own_ns - base_ns
    notes = tuple(
        f"{scan.name}: does not say when its time begins, so it was moved to begin with the first of the others"
        for scan in timed
        if scan.base_ns is None
    )
    return base_ns, f"aligned by clock ({BASE}, or microseconds since 1970)", notes


def _number_processes(scans: Sequence[_Scan]) -> None:
    """Give each process of each source a number that no other has: its own where that is free."""
    used: set[int] = set()
    for scan in scans:
        for process in sorted(scan.places, key=lambda process: scan.places[process]):
            number = process if isinstance(process, int) and 0 <= process < LARGEST else 1
            while number in used:
                number += 1
            used.add(number)
            scan.processes[process] = number


def _sources(scans: Sequence[_Scan]) -> Iterator[TraceSource]:
    starts = [scan.first_ns + scan.moved_ns for scan in scans]
    for scan, start in zip(scans, starts, strict=True):
        first_s = (start - min(starts)) / 1e9 if start < math.inf else 0.0
        processes = {str(process): number for process, number in scan.processes.items()}
        yield TraceSource(scan.name, str(scan.file.path), scan.events, processes, first_s, scan.moved_ns / 1e9)


def _metadata(scans: Sequence[_Scan], base_ns: int | None, merged: MergedTrace) -> dict[str, Any]:
    """Return the keys around the events: those that all sources agree on, and each source's own under `sources`."""
    own = [{key: value for key, value in scan.file.metadata.items() if key != BASE} for scan in scans]
    agreed = {
        key: value
        for metadata in own
        for key, value in metadata.items()
        if all(key in other and other[key] == value for other in own)
    }
    devices = [device for metadata in own for device in _kind(metadata.get("deviceProperties"), list)]
    distinct = [device for index, device in enumerate(devices) if device not in devices[:index]]
    frames = {
        f"{index}:{number}": _moved_frame(frame, index)
        for index, metadata in enumerate(own)
        for number, frame in _kind(metadata.get("stackFrames"), dict).items()
    }
    rest = [
        {key: value for key, value in metadata.items() if key not in agreed and key != "stackFrames"}
        for metadata in own
    ]
    return {
        "schemaVersion": 1,
        **{key: value for key, value in agreed.items() if key != "stackFrames"},
        "traceName": merged.path,
        **({"deviceProperties": distinct} if any("deviceProperties" in metadata for metadata in own) else {}),
        **({"stackFrames": frames} if frames else {}),
        **({BASE: base_ns} if base_ns is not None else {}),
        "sources": [
            {**asdict(source), "metadata": metadata} for source, metadata in zip(merged.sources, rest, strict=True)
        ],
    }


def _kind(value: Any, kind: type[Container]) -> Container:
    """Return the value, or an empty one where it is of another kind."""
    return value if isinstance(value, kind) else kind()


def _moved_frame(frame: Any, index: int) -> Any:
    if isinstance(frame, dict) and "parent" in frame:
        return {**frame, "parent": f"{index}:{frame['parent']}"}
    return frame


def _write_whole(target: Path, scans: Sequence[_Scan], metadata: dict[str, Any]) -> None:
    """Write the merged trace whole or not at all."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(temporary, "wt") if target.suffix == ".gz" else temporary.open("w") as text:
            _write(text, scans, metadata)
        temporary.replace(target)
    except (OSError, BrokenTrace) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise StopwavError(f"{target}: cannot be written ({reason}); name another place") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _write(text: TextIO, scans: Sequence[_Scan], metadata: dict[str, Any]) -> None:
    text.write(json.dumps(metadata)[:-1] + ', "traceEvents": [\n')
    separator = ""
    for event in _merged_events(scans):
        text.write(separator + json.dumps(event))
        separator = ",\n"
    text.write("\n]}\n")


def _merged_events(scans: Sequence[_Scan]) -> Iterator[Event]:
    places = count()
    for scan in scans:
        for process, number in scan.processes.items():
            name = scan.names.get(process, "" if isinstance(process, int) else str(process))
            named = f"{scan.name}: {name}" if name else scan.name
            yield {"ph": "M", "name": "process_name", "pid": number, "tid": 0, "args": {"name": named}}
            place = {"sort_index": next(places)}
            yield {"ph": "M", "name": "process_sort_index", "pid": number, "tid": 0, "args": place}
    numbers = count(1)
    for index, scan in enumerate(scans):
        ids: dict[Any, int] = {}
        for event in scan.file.events():
            if event.get("ph") != "M" or event.get("name") not in REPLACED:
                yield _moved(event, scan, index, ids, numbers)


def _moved(event: Event, scan: _Scan, index: int, ids: dict[Any, int], numbers: Iterator[int]) -> Event:
    """Return the event with the process, time and ids that it has in the merged trace."""

    def new_id(old: Any) -> Any:
        if not isinstance(old, int | str):
            return old
        if old not in ids:
            ids[old] = next(numbers)
        return ids[old]

    moved = {**event, "pid": scan.processes[_process(event)]}
    for key in ("ts", "dur"):
        if isinstance(event.get(key), str) and (text_ns := time_ns(event[key])) is not None:
            moved[key] = text_ns / 1000
    if scan.moved_ns and (start_ns := time_ns(event.get("ts"))) is not None:
        moved["ts"] = (start_ns + scan.moved_ns) / 1000
    if isinstance(thread := event.get("tid"), int) and not 0 <= thread < LARGEST:
        moved["tid"] = scan.threads.setdefault(thread, FIRST_THREAD + len(scan.threads))
    if str(event.get("ph")) in JOINED:
        moved |= {key: new_id(event[key]) for key in ("id", "bind_id") if key in event}
        if isinstance(event.get("id2"), dict):
            moved["id2"] = {key: new_id(old) for key, old in event["id2"].items()}
    elif "bind_id" in event:
        moved["bind_id"] = new_id(event["bind_id"])
    for key in ("sf", "esf"):
        if key in event:
            moved[key] = f"{index}:{event[key]}"
    arguments = event.get("args")
    if isinstance(arguments, dict) and any(key in arguments for key in ARGUMENT_IDS):
        moved["args"] = {
            # 0 means none.
            key: new_id(value) if key in ARGUMENT_IDS and value else value
            for key, value in arguments.items()
        }
    return moved
