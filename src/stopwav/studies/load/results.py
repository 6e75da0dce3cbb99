"""The results of a load run: a capacity per target, and a row per level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stopwav.errors import Caution
from stopwav.piece import Piece
from stopwav.record import Record, Result
from stopwav.stats import Estimate
from stopwav.studies.corpus_header import header_warnings, language_warnings
from stopwav.studies.load.judgement import Judgement, judge
from stopwav.studies.load.level_table import LevelKey, LevelTable, by_reason, level_pieces, level_tables
from stopwav.studies.load.metrics import level_metrics
from stopwav.studies.load.spec import LoadSpec
from stopwav.studies.load.state import TargetState, target_states
from stopwav.studies.stored_fields import stored_spec

# Chunks that waited longer than this in our client are reported: the server did not read.
HELD_S = 0.1


def load_results(record: Record) -> list[Result]:
    """Return the capacity of every target, then its levels in rising order."""
    spec = stored_spec(LoadSpec, record.header)
    tables, pieces = level_tables(record), level_pieces(record)
    states = target_states(record, spec)
    results = []
    for target in spec.names:
        own = {key: pieces[key] for key in pieces if key[0] == target}
        results.append(_capacity(record, spec, target, states[target], own))
        results += [_level(record, spec, key, tables.get(key), own[key]) for key in own]
    return results


def level_name(key: LevelKey) -> str:
    """Return the name of a level."""
    target, streams, faulty = key
    return f"{target} @ {streams}{' + faults' if faulty else ''}"


def is_untrained(record: Record, target: str) -> bool:
    """Whether a target reports random weights."""
    return any(bool(facts.get("engine", {}).get("untrained")) for facts in _facts(record, target))


def _facts(record: Record, target: str) -> Iterator[Mapping[str, Any]]:
    """What each round of a target says of it."""
    for piece in record.pieces:
        if piece.key[0] == "level" and piece.key[2] == target:
            yield piece.data.get("target", {})


def _languages(record: Record, target: str) -> set[str]:
    return {
        str(language)
        for facts in _facts(record, target)
        for language in (
            facts.get("engine", {}).get("language", ""),
            *facts.get("capabilities", {}).get("languages", ()),
        )
    }


def capacity_estimate(spec: LoadSpec, state: TargetState) -> Estimate:
    """Return the capacity of a target, with its interval."""
    valid = [streams for streams, judgement in state.judgements.items() if judgement.verdict != "invalid"]
    if not valid:
        note = "no level is valid: this client was late" if state.judgements else "no level was measured"
        return Estimate(None, unit="streams", note=note)
    found, most = state.bounds, max(valid)
    n = sum(state.rounds.values())
    high = None if found.surely_not is None else float(found.surely_not - 1)
    if high is None and all(state.judgements[streams].verdict == "holds" for streams in valid):
        tried = "1 stream was" if most == 1 else f"{most} streams were"
        note = f"at least: no more than {tried} tried"
        return Estimate(float(found.holds), float(found.surely), n=n, unit="streams", note=note, code="at-least")
    if high is None:
        return Estimate(
            float(found.holds),
            float(found.surely),
            n=n,
            unit="streams",
            note="it is not sure yet at which level the objective fails",
            code="open",
        )
    return Estimate(float(found.holds), float(found.surely), high, n=n, unit="streams")


def _capacity(
    record: Record, spec: LoadSpec, target: str, state: TargetState, pieces: dict[LevelKey, list[Piece]]
) -> Result:
    failed = [piece for own in pieces.values() for piece in own if piece.status != "ok"]
    warnings = [Caution(f"level-{piece.status}", f"{_at(int(piece.key[3]))}: {piece.message}") for piece in failed]
    invalid = {n: judgement for n, judgement in state.judgements.items() if judgement.verdict == "invalid"}
    for streams, judgement in invalid.items():
        warnings.append(Caution("invalid-level", f"{_at(streams)}: {judgement.reason}"))
    warnings += header_warnings(record.header)
    warnings += language_warnings(record.header, target, _languages(record, target))
    if not record.complete:
        warnings.append(
            Caution(
                "incomplete",
                "the run was stopped before it was complete; continue it with the same command and --resume",
            )
        )
    return Result(
        name=target,
        params={
            "target": target,
            "setting": spec.setting_of(target),
            "objective": spec.objective.text,
            "pace": spec.pace,
            "levels": len(state.judgements),
        },
        status="ok" if state.judgements else failed[0].status if failed else "skipped",
        metrics={"capacity": capacity_estimate(spec, state)},
        warnings=tuple(dict.fromkeys(warnings)),
        kind="target",
    )


def _level(record: Record, spec: LoadSpec, key: LevelKey, level: LevelTable | None, pieces: Sequence[Piece]) -> Result:
    target, streams, faulty = key
    params: dict[str, object] = {"target": target, "streams": streams, "faults": faulty, "rounds": len(pieces)}
    if level is None:
        return Result(level_name(key), params, pieces[0].status, kind="level")
    judgement = judge(spec.objective, level)
    params |= {
        "verdict": judgement.verdict,
        "sure": judgement.sure,
        "conditions": {judged.condition.text: judged.side for judged in judgement.conditions},
        "failures": {reason: len(messages) for reason, messages in by_reason(level.failures).items()},
        "faulty_sessions": _endings(level),
    }
    return Result(
        name=level_name(key),
        params=params,
        status="ok",
        metrics={**level_metrics(level, spec.seed, is_untrained(record, target)), **_over(judgement)},
        warnings=tuple(_level_warnings(judgement, level)),
        kind="level",
    )


def _over(judgement: Judgement) -> dict[str, Estimate]:
    """The shares that the conditions of the objective limit."""
    return {
        judged.condition.over_metric: Estimate(judged.over, n=judged.events, note="counted; see the verdict")
        for judged in judgement.conditions
        if judged.over is not None and judgement.verdict != "invalid"
    }


def _endings(level: LevelTable) -> dict[str, int]:
    """How the faulty sessions ended: as the server saw fit, or open until the level was over."""
    endings: dict[str, int] = {}
    for kind, ended in (pair for round_ in level.rounds for pair in round_.faults):
        endings[f"{kind}: {ended}"] = endings.get(f"{kind}: {ended}", 0) + 1
    return dict(sorted(endings.items()))


def _at(streams: int) -> str:
    return f"{streams} stream{'' if streams == 1 else 's'}"


def _level_warnings(judgement: Judgement, level: LevelTable) -> list[Caution]:
    warnings = []
    if judgement.verdict in ("invalid", "unstable"):
        warnings.append(Caution(judgement.verdict, judgement.reason))
    if level.invalid_rounds:
        counted = f"{level.invalid_rounds} of {len(level.rounds) + level.invalid_rounds} rounds"
        warnings.append(Caution("invalid-round", f"{counted} not counted: {level.invalid_because}"))
    for judged in judgement.conditions:
        if judged.value is None and level.table and not judged.events:
            warnings.append(Caution("no-value", f"{judged.condition.text} cannot hold: {judged.note}"))
    for round_ in level.rounds:
        if round_.server_end:
            warnings.append(
                Caution("server-ended", f"round {round_.index + 1}: {round_.server_end}; it was started again")
            )
    for reason, messages in by_reason(level.failures).items():
        warnings.append(Caution(f"session-{reason}", f"{len(messages)} of {level.sessions} sessions, {messages[0]}"))
    if level.held_s > HELD_S:
        warnings.append(Caution("held-back", f"the server did not read for {level.held_s:.1f} s; chunks waited for it"))
    return warnings
