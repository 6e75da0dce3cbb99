"""The rounds of a run in its report: those of a fixed plan, or those that a budget had time for."""

from pathlib import Path

import pytest
from stored_runs import DATA
from synthetic_runs import synthetic_run

from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.report.document import Detail
from stopwav.report.markdown import render_markdown
from stopwav.report.provenance import facts
from stopwav.studies.budget import Budget, exact_time_text, rounds_of, store_spent
from stopwav.studies.study import StudyRun, piece_kinds


@pytest.mark.parametrize("path", sorted(DATA.glob("*.jsonl")), ids=lambda path: path.stem)
def test_a_run_of_every_study_says_its_rounds(path: Path) -> None:
    run = StudyRun(Record.read(path))
    planned = run.record.header.spec["rounds"]
    assert len(rounds_of(run.record, piece_kinds(run.record))) == planned
    text = "1 round" if planned == 1 else f"{planned} rounds"
    document = run.document(Detail())
    assert document.rounds == text
    assert f" · {text}<br>" in render_markdown(document)
    assert dict(facts(run.record, document.rounds))["How"].startswith(text)


def of_budget(rounds: int, *seconds: float, budget_s: float | None = 300.0) -> Record:
    spec = {"rounds": None}
    run = synthetic_run(1, rounds=rounds, spec=spec)
    spent = [
        Piece(key=["spent", number], status="ok", data={"seconds": part, "budget_s": budget_s})
        for number, part in enumerate(seconds)
    ]
    return Record(run.path, run.header, [*run.pieces, *spent], complete=True)


def test_a_run_with_a_budget_says_the_rounds_that_are_there_and_their_time() -> None:
    text = "4 rounds in 4 min 51 s of 5 min"
    document = StudyRun(of_budget(4, 100, 191)).document(Detail())
    assert f" · {text}<br>" in render_markdown(document)
    assert document.record is not None
    assert dict(facts(document.record, document.rounds))["How"].startswith(f"{text}, each in fresh processes")
    assert StudyRun(of_budget(1, 20, budget_s=None)).document(Detail()).rounds == "1 round in 20 s"


def test_a_plan_that_was_stopped_says_how_far_it_came() -> None:
    whole = synthetic_run(1, rounds=3)
    pieces = [piece for piece in whole.pieces if int(piece.key[1]) < 2]
    assert StudyRun(Record(whole.path, whole.header, pieces, complete=False)).document(Detail()).rounds == (
        "2 of 3 rounds"
    )


def test_the_time_is_stored_with_the_budget_that_it_is_part_of(tmp_path: Path) -> None:
    run = synthetic_run(1, rounds=1, spec={"rounds": None})
    with Record.create(tmp_path / "run.jsonl", run.header) as record:
        for piece in run.pieces:
            record.append(piece)
        for budget_s, spent_s in ((60.0, 61.0), (120.0, 100.0)):
            store_spent(record, Budget(budget_s, spent_s, now_s=lambda: 0.0))
    assert StudyRun(Record.read(record.path)).document(Detail()).rounds == "1 round in 1 min 40 s of 2 min"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (45, "45 s"),
        (59.6, "1 min"),
        (90, "1 min 30 s"),
        (300, "5 min"),
        (3600, "1 h"),
        (3900, "1 h 5 min"),
    ],
)
def test_times_that_were_measured_have_their_seconds(seconds: float, text: str) -> None:
    assert exact_time_text(seconds) == text
