"""A real Ray cluster of three nodes on this machine: the same pieces and numbers as here, whatever is killed."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray_nodes import NODES, RayNodes, ray_nodes
from small_studies import SmallStudy, planned

import stopwav
from stopwav.errors import StopwavError
from stopwav.record import Record

pytest.importorskip("ray", reason="Ray is not installed: pip install 'stopwav[ray]'")
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

# Each of these is killed so often, at random moments.
KILLS = 20
STUDIES = ("grid", "compare", "loss")


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    with ray_nodes() as cluster:
        yield cluster


def observed(record: Record) -> dict[tuple[str | int, ...], object]:
    """What the scripted engine and the oracle determine: every piece, how it ended, and its text or its error."""
    scripted = ("text", "id", "audio_s", "emitted_tokens", "deviations", "deterministic", "gap")
    return {
        tuple(piece.key): (piece.status, {name: piece.data[name] for name in scripted if name in piece.data})
        for piece in record.pieces
    }


@pytest.mark.parametrize("study", ["latency", *STUDIES, "step"])
def test_a_run_has_the_pieces_and_texts_of_a_local_one(study: str, nodes: RayNodes, tmp_path: Path) -> None:
    small = SmallStudy(study, tmp_path)
    local, remote = small.run(tmp_path / "local", rounds=2), small.run(tmp_path / "ray", rounds=2, on=nodes.on)
    assert remote.complete
    assert observed(remote) == observed(local)
    assert [result.name for result in stopwav.results(remote)] == [result.name for result in stopwav.results(local)]
    assert all(piece.ran is not None for piece in remote.pieces if piece.status == "ok")


def test_pieces_that_have_a_machine_alone_never_overlap_on_it(nodes: RayNodes, tmp_path: Path) -> None:
    """Six commands at once on three machines: by the times in their own pieces, two are never on one machine."""
    command = [sys.executable, "-m", "stopwav", "grid", "fake", "--durations", "0.2,0.4", "--batch-sizes", "1,2"]
    commands = [
        subprocess.Popen(
            [*command, "--rounds", "1", "--on", nodes.on, "--no-html", "--save", str(tmp_path / str(number))],
            stdout=subprocess.DEVNULL,
        )
        for number in range(2 * NODES)
    ]
    assert [process.wait(300) for process in commands] == [0] * len(commands)
    spans: dict[str, list[tuple[float, float, Path]]] = {}
    for path in tmp_path.glob("*/*.jsonl"):
        for piece in Record.read(path).pieces:
            assert piece.ran is not None
            spans.setdefault(piece.machine, []).append((piece.ran.begun_s, piece.ran.ended_s, path))
    assert len(spans) == NODES
    assert sum(map(len, spans.values())) == 4 * len(commands)
    for of_machine in spans.values():
        for (_, ended_s, _), (begun_s, _, _) in itertools.pairwise(sorted(of_machine)):
            assert ended_s <= begun_s


@pytest.mark.parametrize("study", STUDIES)
def test_nodes_that_are_killed_lose_nothing_and_repeat_nothing(study: str, nodes: RayNodes, tmp_path: Path) -> None:
    small = SmallStudy(study, tmp_path)
    wanted = planned(small.run(tmp_path / "local", rounds=6))
    drawn, kills, runs = random.Random(study), 0, 0
    while kills < KILLS:
        done: list[Record] = []
        measuring = threading.Thread(
            target=lambda runs=runs, done=done: done.append(small.run(tmp_path / f"run-{runs}", rounds=6, on=nodes.on))
        )
        measuring.start()
        while measuring.is_alive():
            measuring.join(drawn.uniform(0.5, 6.0))
            if measuring.is_alive() and kills < KILLS:
                nodes.kill(drawn.randrange(NODES))
                kills += 1
        (record,) = done  # it raised nothing
        runs += 1
        assert record.complete
        assert planned(record) == wanted
        assert Record.read(record.path).keys == record.keys
        assert len(list(record.path.parent.glob("*.jsonl"))) == 1
    print(f"{study}: {kills} kills in {runs} runs, all complete")


def test_what_no_node_has_is_an_error_in_seconds(nodes: RayNodes, tmp_path: Path) -> None:
    begun_s = time.monotonic()
    with pytest.raises(StopwavError) as raised:
        stopwav.grid("fake", durations=[0.1], batch_sizes=[1], rounds=1, save=tmp_path, on=nodes.on, place="gpu=H200")
    assert "no node has stopwav 1, GPU 1, H200; the 4 there have CPU, stopwav" in str(raised.value)
    assert time.monotonic() - begun_s < 15


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ("ray:127.0.0.1:9", "cannot reach 127.0.0.1:9"),
        ("ray:somewhere", "write the address of its head as ray:HOST:PORT"),
    ],
)
def test_a_cluster_that_is_not_there_is_an_error_in_seconds(on: str, message: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "stopwav", "grid", "fake", "--on", on, "--save", str(tmp_path)]
    begun_s = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert time.monotonic() - begun_s < 15


def test_doctor_prints_every_node(nodes: RayNodes) -> None:
    command = [sys.executable, "-m", "stopwav", "doctor", "--on", nodes.on, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    listed = json.loads(done.stdout)["nodes"]
    assert done.returncode == 0, done.stderr
    assert len(listed) == NODES + 1  # the head too
    assert all(node["problems"] == [] and node["machine"]["cpu"] and node["sensors"] for node in listed)


@pytest.mark.parametrize("study", ["latency", "compare"])
def test_machines_that_share_a_corpus_measure_each_utterance_once(study: str, nodes: RayNodes, tmp_path: Path) -> None:
    small = SmallStudy(study, tmp_path)
    # Long enough that the other machines are there before all is done.
    slow = ["fake,service_ms=200", "fake,service_ms=200,final=one"]
    more = {"samples": 20} if study == "compare" else {}
    local = small.run(tmp_path / "local", **more)
    shared = small.run(tmp_path / "ray", on=nodes.on, machines=NODES, engines=slow, **more)
    assert shared.complete
    kind = "stream" if study == "latency" else "sample"
    machines: dict[object, set[str]] = {}
    for piece in shared.pieces:
        if piece.key[0] == kind:
            machines.setdefault(piece.key[3], set()).add(piece.machine)
    assert machines.keys() == {key[3] for key in local.keys if key[0] == kind}
    assert len([key for key in shared.keys if key[0] == kind]) == 2 * len(machines)
    # The engines of one utterance were on one machine, and the utterances on several.
    assert all(len(of_utterance) == 1 for of_utterance in machines.values())
    assert 1 < len(set.union(*machines.values())) <= NODES
