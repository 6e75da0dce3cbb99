"""Rounds of workloads in a run file: written and read back, and measured only where they are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

from pydantic import Field, model_validator

from stopwav.errors import Caution
from stopwav.measure.memory import CudaMemory, CudaPeak, HostPeak
from stopwav.measure.plan import Plan, Workload
from stopwav.measure.rounds import Round, interleave_rounds
from stopwav.measure.sampler import MAX_WARMUP_S, MIN_VALUE_S, MIN_WARMUP_CALLS, Samples
from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.studies.piece_kinds import Key
from stopwav.studies.resume import AGAIN
from stopwav.studies.stored_fields import (
    Bytes,
    Count,
    PositiveSeconds,
    Seconds,
    StoredCaution,
    StoredEngine,
    StoredFields,
    StoredHostPeak,
    StoredList,
    readable,
)


class StoredSamples(StoredFields):
    """The times of a round."""

    first_s: Seconds
    warmup_s: StoredList[Seconds]
    loops: Annotated[int, Field(gt=0)]
    values_s: Annotated[StoredList[PositiveSeconds], Field(min_length=1)]
    device_values_s: StoredList[Seconds]
    stages_s: StoredList[dict[str, Seconds]]
    cautions: StoredList[StoredCaution]

    @model_validator(mode="after")
    def _as_long(self) -> StoredSamples:
        for name, values in (("device_values_s", self.device_values_s), ("stages_s", self.stages_s)):
            if values and len(values) != len(self.values_s):
                raise ValueError(f"{name} has {len(values)} values, and values_s has {len(self.values_s)}")
        return self


class StoredCudaMemory(StoredFields):
    """The memory of a device at one moment."""

    allocated_bytes: Bytes
    reserved_bytes: Bytes
    device_bytes: Bytes


class StoredCudaPeak(StoredFields):
    """The peak memory of a device in a pass."""

    peak: StoredCudaMemory
    baseline: StoredCudaMemory
    device_method: str


class StoredRound(StoredFields):
    """The data of a round that completed."""

    load_s: Seconds
    samples: StoredSamples
    memory: StoredHostPeak | None
    cuda_memory: StoredCudaPeak | None
    throttled: bool
    engine: StoredEngine
    emitted_tokens: Count | None = None
    # Older runs have a process per round.
    opened: bool = True
    leftover_bytes: Bytes = 0


@dataclass(frozen=True)
class RoundPlace:
    """Where the rounds of one workload stand in a run file."""

    kind: str
    parts: tuple[str | int, ...]

    def key(self, index: int, attempt: int) -> Key:
        """The key of a round; `attempt` is 1 for a round that was measured again."""
        return (self.kind, index, *self.parts, attempt)

    def rounds(self, record: Record) -> list[Round]:
        """The rounds that are there."""
        pieces = (piece for piece in record.pieces if piece.key[0] == self.kind)
        return [round_from_piece(piece) for piece in pieces if tuple(piece.key[2:-1]) == self.parts]


def missing_rounds(record: Record, place: RoundPlace, index: int) -> Iterator[Key]:
    """Yield the key of a round that the run lacks, or of its repetition where the processor was throttled."""
    piece = record.find(place.key(index, 0))
    if piece is None:
        yield place.key(index, 0)
    elif piece.data.get("throttled") and place.key(index, 1) not in record:
        yield place.key(index, 1)


def round_to_piece(key: Key, round_: Round) -> Piece:
    """Return the piece that stores a round."""
    data: dict[str, Any] = {}
    if round_.samples is not None:
        data = {
            "load_s": round_.load_s,
            "samples": {**asdict(round_.samples), "cautions": [[c.code, c.message] for c in round_.samples.cautions]},
            "memory": asdict(round_.memory) if round_.memory else None,
            "cuda_memory": asdict(round_.cuda_memory) if round_.cuda_memory else None,
            "throttled": round_.throttled,
            **({} if round_.opened else {"opened": False, "leftover_bytes": round_.leftover_bytes}),
            **round_.facts,
        }
    return Piece(key=list(key), status=round_.status, message=round_.message, last_words=round_.last_words, data=data)


def round_from_piece(piece: Piece) -> Round:
    """Return the round that a piece holds."""
    index, data = int(piece.key[1]), piece.data
    if "samples" not in data:
        return Round(index, piece.status, piece.message, piece.last_words, machine=piece.machine)
    return Round(
        index,
        piece.status,
        load_s=data["load_s"],
        samples=_samples(data["samples"]),
        memory=HostPeak(**data["memory"]) if data["memory"] else None,
        cuda_memory=_cuda_peak(data["cuda_memory"]) if data["cuda_memory"] else None,
        throttled=data["throttled"],
        facts={"engine": data["engine"]},
        opened=data.get("opened", True),
        leftover_bytes=data.get("leftover_bytes", 0),
        machine=piece.machine,
    )


def take_visit(record: Record, place: RoundPlace, index: int, visit: Callable[[], Round | None]) -> bool:
    """Measure one round unless the record has it, and store it at once; return whether the record has it then.

    `visit` returns the round, or None where there was no time for it. A throttled one is repeated once.
    """
    attempts = [round_ for round_ in _previous_rounds(record, place, index) if round_.index == index]
    while not attempts or (len(attempts) == 1 and attempts[0].throttled):
        round_ = visit()
        if round_ is None:
            break
        attempts.append(replace(round_, index=index))
        _store(record, place, attempts[-1])
    return bool(attempts)


def take_round_in_turn(
    record: Record,
    places: Sequence[RoundPlace],
    index: int,
    workloads: Sequence[Workload],
    plan: Plan,
    devices: Sequence[str],
) -> None:
    """Measure one round of each workload, interleaved, unless the record has it, and store it at once."""
    previous = [_previous_rounds(record, place, index) for place in places]

    def store(which: int, round_: Round) -> None:
        _store(record, places[which], round_)

    interleave_rounds(workloads, plan, devices=devices, only=[index], previous_rounds=previous, on_round=store)


def _previous_rounds(record: Record, place: RoundPlace, index: int) -> list[Round]:
    """The rounds that are stored, and this one too where it is not to be tried: it is then stored as skipped."""
    with readable(record, f"rounds of {place.kind} {place.parts}", AGAIN):
        previous = place.rounds(record)
    reason = "" if any(round_.index == index for round_ in previous) else skip_reason(previous)
    if reason:
        previous.append(Round(index, "skipped", reason))
        _store(record, place, previous[-1])
    return previous


def _store(record: Record, place: RoundPlace, round_: Round) -> None:
    attempt = sum(earlier.index == round_.index for earlier in place.rounds(record))
    record.append(round_to_piece(place.key(round_.index, attempt), round_))


def failure_message(failure: Round | Piece) -> str:
    """Return why a round or a pass failed, with the last words of its process."""
    words = f"; its last words: {failure.last_words}" if failure.last_words else ""
    return f"{failure.message}{words}"


def skip_reason(rounds: Sequence[Round]) -> str:
    """Return why no further round is tried; empty where one is.

    What ran out of memory or time would only do so again, and a model that is not there would be looked for in every
    round of every workload.
    """
    for number, round_ in enumerate(rounds):
        if round_.status in ("oom", "timeout") or (round_.status == "error" and number == 0):
            return f"not tried again after round {round_.index}: {round_.message}"
    return ""


def round_time_s(plan: Plan, call_s: float, load_s: float) -> float:
    """Return how long a round may take: load, first call, warm-up, values, memory pass; it is killed at the limit."""
    warm_up_s = min(max(plan.warmup_s, MIN_WARMUP_CALLS * call_s), MAX_WARMUP_S + call_s)
    # The plan stops between these two, sooner on a quiet machine: the middle.
    fewest_s = max(plan.min_values_s, plan.min_values * max(call_s, MIN_VALUE_S))
    most_s = plan.max_values * max(call_s, MIN_VALUE_S)
    values_s = (min(fewest_s, plan.max_values_s + call_s) + min(most_s, plan.max_values_s + call_s)) / 2
    return load_s + min(call_s + warm_up_s + values_s + call_s, plan.time_limit_s)


def _samples(fields: dict[str, Any]) -> Samples:
    lists = {name: tuple(fields[name]) for name in ("warmup_s", "values_s", "device_values_s", "stages_s")}
    cautions = tuple(Caution(*caution) for caution in fields["cautions"])
    return Samples(first_s=fields["first_s"], loops=fields["loops"], cautions=cautions, **lists)


def _cuda_peak(fields: dict[str, Any]) -> CudaPeak:
    return CudaPeak(CudaMemory(**fields["peak"]), CudaMemory(**fields["baseline"]), fields["device_method"])
