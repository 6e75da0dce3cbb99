"""Comparisons that spend a budget: what a round is, what the next one measures, and what can be said at any moment."""

import itertools
import math
import random
import time
from pathlib import Path

import pytest
from compare_runs import TORCH_ENGINE, made_up
from metered import meter_steadily, metered_runner

import stopwav
from stopwav.piece import Piece
from stopwav.record import Header, Record
from stopwav.report.document import Detail
from stopwav.studies.budget import Budget, spent_s
from stopwav.studies.compare import passes
from stopwav.studies.compare import run as run_module
from stopwav.studies.compare.passes import describe_engine
from stopwav.studies.compare.run_data import read_run
from stopwav.studies.compare.schedule import next_work, open_questions, sweep_work
from stopwav.studies.compare.spec import CompareSpec
from stopwav.studies.study import StudyRun

BOTH = ["fake,batch_ms=2", "fake,batch_ms=30"]
SMALL = {"frames": [10, 20], "samples": 6}


def run(save: Path, budget_s: float, engines: list[str] = BOTH, **options: object) -> Record:
    return stopwav.compare(engines, save=save, **{**SMALL, "budget_s": budget_s, **options})  # type: ignore[arg-type]


def keys(record: Record, kind: str) -> list[list[str | int]]:
    return [piece.key for piece in record.pieces if piece.key[0] == kind]


def shown(record: Record) -> str:
    """Everything that can be computed from a run, which must not fail."""
    run = StudyRun(record)
    return repr((run.results, run.extras["card"], run.document(Detail()).findings))


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that advances by a second whenever it is read: a busy machine has as many rounds as a quiet one."""
    now_s = itertools.count()

    def open_counting(spec: CompareSpec, record: Record, begun_s: float) -> Budget:
        return Budget(spec.total_s, spent_s(record), now_s=lambda: float(next(now_s)))

    monkeypatch.setattr(run_module, "open_budget", open_counting)


@pytest.mark.alone
def test_a_run_ends_within_its_budget(tmp_path: Path) -> None:
    def is_in_time() -> bool:
        begin_s = time.monotonic()
        run(tmp_path, 3.0)
        # A tenth, and what a busy machine may add.
        return time.monotonic() - begin_s < 3.3 + 0.7

    assert any(is_in_time() for _ in range(3))


@pytest.mark.usefixtures("counting")
def test_a_budget_has_a_whole_sweep_and_then_rounds_in_which_engines_take_turns(tmp_path: Path) -> None:
    record = run(tmp_path, 180.0, engines=["fake", "fake"])
    assert record.complete
    rounds = {int(key[1]) for key in keys(record, "length")}
    assert rounds == set(range(len(rounds)))
    assert len(rounds) >= 2
    names = ["fake", "fake#2"]
    swept = {(key[2], key[3]) for key in keys(record, "length") if key[1] == 0}
    assert swept == {(name, frames) for name in names for frames in (10, 20)}
    # Both engines transcribe the same inputs in a round, and each round goes on behind the one before.
    samples = keys(record, "sample")
    for index in {key[1] for key in samples}:
        first, second = ([key[3] for key in samples if key[1:3] == [index, name]] for name in names)
        assert first == second
    places = [key[3] for key in samples if key[2] == names[0]]
    assert places == [number % 6 for number in range(len(places))]
    # Loaded once a round.
    assert len(keys(record, "load")) == 2 * len(rounds | {int(key[1]) for key in samples})
    results = stopwav.results(record)
    assert results[0].params["rounds"] == len(rounds | {int(key[1]) for key in samples})
    assert {verdict.change.rule for verdict in stopwav.card(record).by_length} == {"anytime"}
    assert 0 < spent_s(record) <= 200


@pytest.mark.usefixtures("counting")
def test_a_run_stops_once_everything_is_decided_and_precise(tmp_path: Path) -> None:
    record = run(tmp_path, 10_000.0, frames=[10], samples=2, precision=0.5)
    assert record.complete
    assert spent_s(record) < 5000
    card = stopwav.card(record)
    (latency,) = (verdict.change for verdict in card.verdicts if verdict.change.metric == "latency_mean")
    assert latency.verdict == "slower"
    assert latency.n >= 3
    assert [verdict.change.verdict for verdict in card.by_length] == ["slower"]
    # Resumed, it has nothing left to do.
    again = run(tmp_path, 10_000.0, frames=[10], samples=2, precision=0.5, resume=True)
    assert (again.path, again.pieces) == (record.path, record.pieces)


@pytest.mark.usefixtures("counting")
@pytest.mark.parametrize("stopped_after", [pytest.param(1, marks=pytest.mark.soak), 6])
def test_whatever_is_there_is_a_valid_answer_and_is_resumed(stopped_after: int, tmp_path: Path) -> None:
    reports = 0

    def stop(task: str, done: int, total: int) -> None:
        nonlocal reports
        reports += task != "reading audio"
        if reports > stopped_after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, 120.0, progress=stop)
    (path,) = tmp_path.glob("*.jsonl")
    before = Record.read(path)
    text = shown(before)
    card = stopwav.card(before)
    assert not before.complete
    assert "continue with --resume" in text
    # One round names no winner.
    assert {verdict.change.verdict for verdict in (*card.verdicts, *card.by_length)} == {"undecided"}
    assert card.pareto.beaten == ()
    after = run(tmp_path, 120.0, resume=True)
    assert after.path == path
    assert after.complete
    assert after.pieces[: len(before.pieces)] == before.pieces
    assert len({tuple(piece.key) for piece in after.pieces}) == len(after.pieces)


@pytest.mark.usefixtures("counting")
def test_a_finished_run_continues_with_a_larger_budget(tmp_path: Path) -> None:
    first = run(tmp_path, 100.0, engines=["fake", "fake"])
    second = run(tmp_path, 200.0, engines=["fake", "fake"], resume=True)
    assert second.path == first.path
    assert second.complete
    assert len(second.pieces) > len(first.pieces)
    assert spent_s(second) > spent_s(first)


def test_undecided_pairs_imprecise_lengths_and_inputs_not_transcribed_are_open(tmp_path: Path) -> None:
    def questions(time_s, **options: object):  # type: ignore[no-untyped-def]
        record = made_up(tmp_path, time_s, budgeted=True, frames=[100, 800], **options)  # type: ignore[arg-type]
        return open_questions(read_run(record), 0.05)

    noise = random.Random(1)
    apart = questions(lambda name, frames, index: (0.1 if name == "a" else 0.2) * noise.uniform(0.999, 1.001))
    assert not apart
    # b is as fast at 800 frames, which rounds that differ by 1 % do not show; elsewhere it is twice as slow.
    alike = questions(
        lambda name, frames, index: noise.uniform(0.99, 1.01) * (0.1 if name == "a" or frames == 800 else 0.2)
    )
    assert (alike.engines, alike.lengths, alike.inputs) == (("a", "b"), (800,), False)
    # An engine that may be on either side of real time at 1 s, but surely is not at 8 s.
    near = questions(lambda name, frames, index: noise.uniform(0.99, 1.01), engines=["a"])
    assert (near.lengths, near.inputs) == ((100,), False)
    imprecise = questions(lambda name, frames, index: noise.uniform(0.05, 0.2), engines=["a"])
    assert imprecise.lengths == (100, 800)
    # Two rounds are too few, however close they are.
    assert questions(lambda *_: 0.1, engines=["a"], rounds=2).inputs
    failed = questions(lambda name, frames, index: "oom" if frames == 800 else 0.1, engines=["a"])
    assert failed.lengths == ()


def test_a_round_that_does_not_fit_is_made_smaller_or_not_begun(tmp_path: Path) -> None:
    record = made_up(tmp_path, lambda name, frames, index: frames / 100, budgeted=True, rounds=1, frames=[100, 800])
    spec, data = CompareSpec(engines=["a", "b"], frames=[100, 800], samples=20), read_run(record)

    def work(left_s: float):  # type: ignore[no-untyped-def]
        return next_work(spec, data, record, Budget(300.0, 300.0 - left_s, now_s=lambda: 0.0), load_s=2.0)

    # A call of each engine takes 2 s at 100 frames and 16 s at 800; five more rounds of both would take 100 s.
    whole = work(300.0)
    assert sorted(whole.lengths) == [100, 800]
    assert whole.calls_s == {100: 2.0, 800: 16.0}
    assert whole.time_s == pytest.approx(2 + 2 * 18)
    assert list(work(60.0).lengths) == [100]
    assert list(work(3.5).lengths) == []  # inputs alone
    assert work(2.5) is None
    assert list(whole.places)[:2] == [0, 1]  # all 20 were transcribed: from the first on again


def test_the_first_sweep_has_a_quarter_of_the_budget() -> None:
    spec = CompareSpec(engines=["a"], samples=1)
    assert sweep_work(spec, ["a"], Budget(300.0, 5.0, now_s=lambda: 0.0)).time_s == 70.0
    # Resumed late, it is as short as can be.
    late = sweep_work(spec, ["a"], Budget(300.0, 260.0, now_s=lambda: 0.0))
    assert (late.time_s, late.fewest, list(late.lengths)) == (0.0, 1, [100, 200, 400, 800, 1600])


def test_what_is_open_says_how_much_more_time_would_decide(tmp_path: Path) -> None:
    noise = random.Random(2)
    spent = [Piece(key=["spent", number], status="ok", data={"seconds": 30.0}) for number in range(8)]
    record = made_up(
        tmp_path,
        lambda name, frames, index: noise.uniform(0.97, 1.03) * (1.03 if name == "b" else 1.0),
        budgeted=True,
        rounds=6,
        frames=[100],
        more=spent,
    )
    run = StudyRun(record)
    findings = [finding for finding in run.document(Detail()).findings if finding.startswith("Undecided")]
    (latency,) = (v.change for v in run.extras["card"].verdicts if v.change.metric == "latency_mean")  # type: ignore[attr-defined]
    assert latency.verdict == "undecided"
    minutes = math.ceil((8 * 30 + latency.more_rounds * 30) / 60)
    assert findings[0].startswith(f"Undecided: latency ({latency.more_rounds} more rounds); about ")
    assert findings[0].endswith(f"more: --resume --budget {minutes}min")
    assert findings[1].startswith("Undecided: latency at 1 of 1 lengths")


@pytest.mark.usefixtures("counting")
def test_energy_that_does_not_fit_the_budget_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meter_steadily(monkeypatch)
    monkeypatch.setattr(passes, "EngineRunner", metered_runner)
    said: list[str] = []

    class Listener:
        def __call__(self, task: str, done: int, total: int) -> None: ...

        def say(self, text: str) -> None:
            said.append(text)

    record = run(tmp_path, 60.0, engines=["fake,batch_ms=2"], energy=True, progress=Listener())
    assert record.complete
    assert any("no energy: its windows take" in text for text in said)
    energy = stopwav.results(record)[0].metrics["energy_per_audio_s_gross"]
    assert energy.value is None
    assert "the budget had no time for its windows" in energy.note


def test_operations_of_a_slow_engine_are_counted_as_far_as_their_time_allows(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    slow = TORCH_ENGINE.replace("with torch", "import time; time.sleep(batch[0].duration_s)\n        with torch")
    (tmp_path / "slow.py").write_text(slow)
    engine = f"{tmp_path / 'slow.py'}:Tied"
    spec = CompareSpec(engines=[engine], frames=[10, 20, 400, 800])
    header = Header(stopwav="0.1.0", study="compare", started="2026-01-01T00:00:00Z", spec=spec.stored())
    with Record.create(tmp_path / "compare-0.jsonl", header) as record:
        # Two counts of 0.3 s in all; the next would take 4 s, if the machine is quiet.
        describe_engine(spec, record, engine, engine, Budget(300.0), time_s=3.0)
    counted = {piece.key[2]: piece.data for piece in record.pieces if piece.key[0] == "operations"}
    assert counted[10]["multiply_adds"] > 0
    for frames in (400, 800):
        assert counted[frames] == {"multiply_adds": None, "reason": "counting takes more than 3 s of the budget"}
