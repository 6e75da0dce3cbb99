"""Machines that die while a run is on them: it ends complete, and each piece is there once and says where it was."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import cloudpickle
import pytest
from home_cluster import HomeCluster, HomeMachine
from small_studies import FAST, SmallStudy, planned

import stopwav
from stopwav.errors import StopwavError
from stopwav.record import Record
from stopwav.studies.launch import run as launch


@pytest.fixture
def cluster_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., HomeCluster]:
    """Make `--on ray` a cluster of these machines."""

    def make(*machines: HomeMachine) -> HomeCluster:
        cluster = HomeCluster(*machines)
        monkeypatch.setattr(launch, "open_cluster", lambda destination: cluster)
        return cluster

    return make


def dies_once(after: int) -> Callable[[str, tuple[object, ...]], bool]:
    """A machine that dies at its request of this number, calls to processes alone counted."""
    seen = Counter[str]()

    def dies(method: str, arguments: tuple[object, ...]) -> bool:
        seen["all"] += method in ("start", "call")
        return seen["all"] > after

    return dies


@pytest.mark.parametrize("study", ["latency", "grid", pytest.param("compare", marks=pytest.mark.soak)])
def test_a_run_whose_machines_die_has_what_a_local_one_has(
    study: str, tmp_path: Path, cluster_of: Callable[..., HomeCluster]
) -> None:
    small = SmallStudy(study, tmp_path)
    local = small.run(tmp_path / "local")
    drawn = random.Random(study)
    machines = [HomeMachine(f"m{number}", dies_once(drawn.randrange(1, 12))) for number in range(4)]
    cluster = cluster_of(*machines, HomeMachine("last"))
    record = small.run(tmp_path / "cluster", on="ray")
    assert record.complete
    assert cluster.closed
    assert planned(record) == planned(local)
    assert Record.read(record.path).keys == record.keys  # reading raises where a key is there twice
    assert len(list((tmp_path / "cluster").glob("*.jsonl"))) == 1
    assert [machine.alive for machine in machines].count(False) >= 1
    labels = {piece.machine for piece in record.pieces if piece.status == "ok" and piece.machine}
    assert 1 < len(labels) <= 5
    fingerprint = record.header.machine["fingerprint"]
    assert all(label.startswith(f"{fingerprint}/") for label in labels)


@pytest.mark.parametrize(
    "study",
    ["compare", *(pytest.param(study, marks=pytest.mark.soak) for study in ("latency", "grid", "loss", "step"))],
)
def test_every_study_runs_on_a_cluster_without_knowing(
    study: str, tmp_path: Path, cluster_of: Callable[..., HomeCluster]
) -> None:
    if study in ("loss", "step"):
        pytest.importorskip("torch")
    cluster_of(machine := HomeMachine("one"))
    record = SmallStudy(study, tmp_path).run(tmp_path / "runs", on="ray", place="gpu=H200")
    assert record.complete
    assert machine.lent == 1
    measured = [piece for piece in record.pieces if piece.status == "ok"]
    assert measured
    assert all(piece.ran is not None and piece.ran.begun_s < piece.ran.ended_s for piece in measured)
    assert not {"on", "place", "shared"} & record.header.spec.keys()
    assert stopwav.results(record)


def test_a_piece_that_loses_three_machines_is_a_result_with_its_reason(
    tmp_path: Path, cluster_of: Callable[..., HomeCluster]
) -> None:
    def dies(method: str, arguments: tuple[object, ...]) -> bool:
        return method == "call" and arguments[1] == "visit" and cloudpickle.loads(arguments[2])[0].batch_size == 2

    cluster_of(*(HomeMachine(f"m{number}", dies) for number in range(6)))
    record = stopwav.grid("fake", durations=[0.1], batch_sizes=[1, 2], rounds=1, plan=FAST, save=tmp_path, on="ray")
    assert record.complete
    by_size = {piece.key[3]: piece for piece in record.pieces}
    assert by_size[1].status == "ok"
    assert by_size[2].status == "crashed"
    assert by_size[2].message == "tried 3 times, and each time its machine was lost: m2 was lost: it was switched off"


def test_where_no_machine_is_left_the_run_can_be_resumed(
    tmp_path: Path, cluster_of: Callable[..., HomeCluster]
) -> None:
    cluster_of(HomeMachine("only", dies_once(4)))
    settings = {"durations": [0.1, 0.2], "batch_sizes": [1, 2], "rounds": 1, "plan": FAST, "save": tmp_path}
    with pytest.raises(StopwavError, match="no machine is left"):
        stopwav.grid("fake", **settings, on="ray")
    (path,) = tmp_path.glob("*.jsonl")
    before = Record.read(path)
    assert 0 < len(before.pieces) < 4
    assert not before.complete
    record = stopwav.grid("fake", **settings, resume=True)
    assert record.path == path
    assert record.complete
    assert record.keys[: len(before.keys)] == before.keys


def test_a_run_goes_on_on_machines_of_its_kind_alone(tmp_path: Path, cluster_of: Callable[..., HomeCluster]) -> None:
    first, other = HomeMachine("first", dies_once(3)), HomeMachine("other", fingerprint="another")
    cluster = cluster_of(first, other, same := HomeMachine("same"))
    record = stopwav.grid(
        "fake", durations=[0.1, 0.2], batch_sizes=[1, 2], rounds=1, plan=FAST, save=tmp_path, on="ray"
    )
    assert record.complete
    assert (other.lent, same.lent) == (1, 1)
    assert other.answered == ["prepare", "ask"]  # it was looked at, and nothing was measured
    assert len(cluster.machines) == 3


def test_a_machine_that_is_set_up_otherwise_is_an_error_before_anything_is_measured(
    tmp_path: Path, cluster_of: Callable[..., HomeCluster]
) -> None:
    cluster_of(HomeMachine("odd", problems=("numpy 2.4.0 here, 1.26.0 there",)))
    with pytest.raises(StopwavError) as raised:
        stopwav.grid("fake", durations=[0.1], batch_sizes=[1], rounds=1, plan=FAST, save=tmp_path / "runs", on="ray")
    assert str(raised.value) == "odd is not set up as this machine is: numpy 2.4.0 here, 1.26.0 there"
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("engines", "said"),
    [
        (["fake", "fkae"], "^unknown engine 'fkae': did you mean 'fake'"),
        (["nowhere/mine.py:Mine", "fkae"], "^2 engines .* no file 'nowhere/mine.py'; .* unknown engine 'fkae'"),
    ],
)
@pytest.mark.parametrize("study", ["latency", "compare"])
def test_an_engine_that_is_not_there_is_an_error_before_a_machine_is_lent(
    study: str, engines: list[str], said: str, tmp_path: Path, cluster_of: Callable[..., HomeCluster]
) -> None:
    cluster = cluster_of(HomeMachine("idle"))
    with pytest.raises(StopwavError, match=said):
        SmallStudy(study, tmp_path).run(tmp_path / "runs", engines=engines, on="ray")
    assert cluster.machines[0].lent == 0
    assert not (tmp_path / "runs").exists()


def test_machines_that_die_at_once_are_no_endless_loop(tmp_path: Path, cluster_of: Callable[..., HomeCluster]) -> None:
    cluster_of(*(HomeMachine(f"m{number}", lambda method, arguments: True) for number in range(9)))
    with pytest.raises(StopwavError, match="3 machines were lost before they began, m2 last: it was switched off"):
        stopwav.grid("fake", durations=[0.1], batch_sizes=[1], rounds=1, plan=FAST, save=tmp_path, on="ray")


def test_a_run_on_a_shared_machine_says_that_its_times_do_not_count(
    tmp_path: Path, cluster_of: Callable[..., HomeCluster]
) -> None:
    cluster_of(HomeMachine("busy"))
    record = stopwav.grid(
        "fake", durations=[0.1], batch_sizes=[1], rounds=1, plan=FAST, save=tmp_path, on="ray", shared=True
    )
    assert "shared-machine" in [warning["code"] for warning in record.header.warnings]
