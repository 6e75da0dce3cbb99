"""Generators on machines of a cluster: they begin together whatever their clocks say, and each is checked by itself."""

from __future__ import annotations

from pathlib import Path

import cloudpickle
import pytest
from home_cluster import HomeCluster, HomeLink, HomeMachine
from level_data import UTTERANCE, session
from noise_corpus import write_corpus

import stopwav
from stopwav.record import Record
from stopwav.speech.stored_trace import trace_lists
from stopwav.studies.launch import run as launch
from stopwav.studies.launch.host import Answer
from stopwav.studies.load import plan
from stopwav.studies.load.level_table import invalid_reason, read_level

# The clock of each machine is ahead of ours by so much.
AHEAD_S = {"first": 500.0, "second": -40.0}


class SkewedLink(HomeLink):
    """A machine with a clock of its own: what its processes say of the time, and are told of it, is by that clock."""

    def send(self, request: bytes, time_limit_s: float) -> bytes:
        method, arguments = cloudpickle.loads(request)
        ahead_ns = round(AHEAD_S[self.machine.name] * 1e9)
        if method == "call" and arguments[1] == "run":
            number, name, packed, limit_s = arguments
            sessions, origin_ns, *rest = cloudpickle.loads(packed)
            packed = cloudpickle.dumps((sessions, origin_ns - ahead_ns, *rest))
            request = cloudpickle.dumps((method, (number, name, packed, limit_s)))
        answer = super().send(request, time_limit_s)
        if method == "call" and arguments[1] == "clock":
            ok, known = cloudpickle.loads(answer)
            outcome = type(known.outcome)("ok", known.outcome.value + ahead_ns)
            answer = cloudpickle.dumps((ok, Answer(outcome, known.begun_s, known.ended_s)))
        return bytes(answer)


class SkewedCluster(HomeCluster):
    """Lends two such machines, each to one."""

    def lease(self, *arguments: object) -> HomeLink:
        free = next(machine for machine in self.machines if not machine.lent)
        free.lent += 1
        return SkewedLink(free)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    """A level of four streams, sent by two machines."""
    for name in ("THOROUGH_S", "PATIENCE_S"):
        monkeypatch.setattr(plan, name, 1.0)
    cluster = SkewedCluster(*(HomeMachine(name) for name in AHEAD_S))
    monkeypatch.setattr(launch, "open_cluster", lambda destination: cluster)
    corpus = write_corpus(tmp_path / "corpus", count=3, seconds=0.5)
    with stopwav.BackgroundServer("fake,final=one", "--protocol", "vosk") as server:
        return stopwav.load(
            [f"vosk-server:{server.url()}"],
            streams=[4],
            slo="failed<50%",
            corpus=corpus,
            words=corpus / "words.ctm",
            rounds=1,
            save=tmp_path / "runs",
            on="ray",
            generators=2,
        )


def test_two_generators_share_a_level_from_a_common_start(run: Record) -> None:
    data = next(piece.data for piece in run.pieces if piece.key[0] == "level")
    assert [round(clock["offset_s"]) for clock in data["clocks"]] == list(AHEAD_S.values())
    assert all(0 < clock["round_trip_s"] < 1 for clock in data["clocks"])
    assert {fields.get("client", 0) for fields in data["sessions"]} == {0, 1}
    assert len(data["processors"]) == 2
    counted = [fields for fields in data["sessions"] if fields["part"] == "steady" and fields["trace"]]
    assert counted
    for fields in counted:
        lists = trace_lists(fields["trace"])
        # Without the difference of the clocks they would be late, or early, by minutes.
        assert abs(lists.start_s[0] - lists.due_s[0]) < 10


def test_one_late_generator_among_others_is_seen() -> None:
    """One session in 200 is late, by less than is forgiven to any chunk: among all of them it would not show."""
    punctual = [{**session(begin_s=0.1 * number), "client": 0} for number in range(200)]
    late = {**session(begin_s=3.0, late_s=0.02), "client": 1}
    whole = {"ramp_s": 2.0, "steady_s": 20.0, "processors": [0.1, 0.1], "faults": [], "looks": [], "prime_s": 0.1}
    together = read_level([UTTERANCE], 4, {0: {**whole, "sessions": [*punctual, late]}})
    assert invalid_reason(together) == "client 2 of 2 sent chunks 20.0 ms late (P99), 20 ms at most"
    as_one = read_level([UTTERANCE], 4, {0: {**whole, "sessions": [*punctual, {**late, "client": 0}]}})
    assert invalid_reason(as_one) == ""
