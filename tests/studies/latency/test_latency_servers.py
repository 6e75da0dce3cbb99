"""Latency through a server: against a scripted one, whose every delay is known, and one that fails in every way."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from command_line import command
from latency_runs import MakeCorpus, run
from scripted_deepgram import Reply, ScriptedDeepgram, serving
from stored_runs import changed

import stopwav
from stopwav.record import Record, Result
from stopwav.speech.latency import shown_texts, word_delays
from stopwav.speech.waterfall import WATERFALL
from stopwav.studies.corpus_header import header_utterances
from stopwav.studies.latency.pairs import engine_verdicts
from stopwav.studies.latency.stream_table import read_trace

pytest.importorskip("websockets")

# Of the corpus here: words of an utterance of 0.5 s, in chunks of 0.1 s.
REPLIES = (Reply(2, 0.03, "red"), Reply(5, 0.02, "red fox", final=True))


def only(record: Record) -> Result:
    (result,) = stopwav.results(record)
    return result


def latencies_s(record: Record) -> dict[str, float | None]:
    """The latency of each word of the first stream."""
    piece = next(piece for piece in record.pieces if piece.key[0] == "stream")
    assert piece.status == "ok", piece.message
    (utterance,) = (u for u in header_utterances(record.header) if u.id == piece.key[3])
    trace = read_trace(piece)
    return {delay.word.text: delay.latency_s for delay in word_delays(trace, utterance.words, shown_texts(trace.texts))}


def test_word_latencies_come_back(tiny_corpus: MakeCorpus, tmp_path: Path) -> None:
    corpus = tiny_corpus(count=1)
    with serving(ScriptedDeepgram(REPLIES)) as server:
        record = run(server, corpus, tmp_path)
    words = header_utterances(record.header)[0].words
    # The third chunk is due at 0.3 s, the end at 0.5 s.
    wanted = {words[0].text: 0.3 + 0.03 - words[0].end_s, words[1].text: 0.5 + 0.02 - words[1].end_s}
    result = only(record)
    assert result.status == "ok"
    assert result.params["pace"] == "real"
    for word, latency_s in latencies_s(record).items():
        # On a busy machine a message may be late, but never early.
        assert wanted[word] - 0.001 <= (latency_s or 0.0) <= wanted[word] + 0.25
    for name in ("rtf", "rtfx", "keeps_up", "chunk_lag_p95", "service_p50", "load_time", "peak_host_bytes"):
        assert result.metrics[name].value is None
        assert result.metrics[name].note == "not visible behind a protocol"
    assert result.metrics["wer"].value == 0.0
    assert result.metrics["network"].value is not None


@pytest.mark.alone
@pytest.mark.parametrize("seed", range(3))
def test_every_word_latency_is_within_one_percent_and_5_ms(tiny_corpus: MakeCorpus, tmp_path: Path, seed: int) -> None:
    """Delays per chunk and per word, with jitter, and finals in the wrong order: in one of three attempts."""
    import random

    drawn = random.Random(seed)
    corpus = tiny_corpus(count=1, seconds=1.0)
    first, second = drawn.uniform(0.05, 0.4), drawn.uniform(0.05, 0.4)
    replies = [
        Reply(5, first, "red"),
        # The second segment is final before the first one is.
        Reply(10, second, "fox", start_s=0.5, final=True),
        Reply(10, second + drawn.uniform(0.05, 0.2), "red", start_s=0.0, final=True),
    ]
    error_s, attempt = math.inf, 0
    while error_s > 0.005 and attempt < 3:
        with serving(ScriptedDeepgram(replies)) as server:
            record = run(server, corpus, tmp_path / str(attempt))
        words = header_utterances(record.header)[0].words
        wanted = {words[0].text: 0.6 + first - words[0].end_s, words[1].text: 1.0 + second - words[1].end_s}
        measured = latencies_s(record)
        error_s = max(abs((measured[word] or 9.0) - wanted[word]) - 0.01 * abs(wanted[word]) for word in wanted)
        attempt += 1
    assert error_s <= 0.005


def test_endpoints_have_a_latency(tiny_corpus: MakeCorpus, tmp_path: Path) -> None:
    corpus = tiny_corpus(count=8, seconds=1.0)
    names = [f"u{index:03d}" for index in range(8)]
    (corpus / "words.ctm").write_text("".join(f"{name} 1 0.0 0.1 red\n{name} 1 0.1 0.1 fox\n" for name in names))
    # The second word ends at 0.2 s, and the fourth chunk at 0.4 s.
    replies = (*REPLIES[:1], Reply(3, 0.1, "red fox", final=True, endpoint=True))
    with serving(ScriptedDeepgram(replies)) as server:
        record = run(server, corpus, tmp_path, streams=8)
    assert only(record).status == "ok", only(record).warnings
    endpoint = only(record).metrics["endpoint_latency_p50"]
    assert 0.299 <= (endpoint.value or 0.0) <= 0.55


def test_several_streams_at_a_time(tiny_corpus: MakeCorpus, tmp_path: Path) -> None:
    script = ScriptedDeepgram(REPLIES)
    with serving(script) as server:
        record = run(server, tiny_corpus(count=5), tmp_path, streams=4)
    assert script.most == 4
    assert record.complete
    assert only(record).params["utterances"] == 5


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (
            ScriptedDeepgram(REPLIES, close_code=1011, close_after=2),
            "closed: deepgram: the server closed the connection",
        ),
        (ScriptedDeepgram(REPLIES, close_after=2), "closed: "),
        (ScriptedDeepgram(REPLIES, says="not JSON"), "garbage: deepgram: the server sent"),
        (ScriptedDeepgram(REPLIES, says='{"type": "Error", "description": "out of credits"}'), "error: "),
    ],
)
def test_a_server_that_fails_is_a_result(
    script: ScriptedDeepgram, reason: str, tiny_corpus: MakeCorpus, tmp_path: Path
) -> None:
    with serving(script) as server:
        record = run(server, tiny_corpus(count=1), tmp_path)
    result = only(record)
    assert result.status == "error"
    message = next(warning.message for warning in result.warnings if warning.code == "stream-error")
    assert reason in message
    if script.close_code != 1000:
        assert f"(code {script.close_code})" in message


def test_a_server_that_is_not_there_is_known_at_once(tiny_corpus: MakeCorpus, tmp_path: Path) -> None:
    done = command(
        "latency",
        "deepgram:ws://127.0.0.1:9",
        "--corpus",
        tiny_corpus(),
        "--save",
        tmp_path,
        "--no-html",
        "--rounds",
        1,
    )
    assert done.code == 2
    assert "the server was not reached: deepgram: cannot connect to ws://127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_key_is_nowhere(tiny_corpus: MakeCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "0123456789abcdef0123456789abcdef"
    monkeypatch.setenv("DEEPGRAM_API_KEY", key)
    with serving(ScriptedDeepgram(echoes_key=True)) as server:
        done = command("latency", server, "--corpus", tiny_corpus(count=1), "--save", tmp_path, "--rounds", 1)
    assert done.code == 2
    assert "no such key" in done.stdout
    assert key not in done.stdout + done.stderr
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert key.encode() not in path.read_bytes(), path


@pytest.mark.parametrize(("late_s", "valid"), [(0.03, True), (0.2, False)])
def test_chunks_that_we_sent_late_are_not_the_servers_latency(
    late_s: float, valid: bool, tiny_corpus: MakeCorpus, tmp_path: Path
) -> None:
    with serving(ScriptedDeepgram(REPLIES)) as server:
        record = run(server, tiny_corpus(count=1), tmp_path)

    def delay(lines: list[dict[str, Any]]) -> None:
        for line in lines:
            if line.get("key", [""])[0] == "stream":
                trace = line["data"]["trace"]
                trace["sent"] = [due_s + late_s for due_s in trace["due"]]

    result = only(Record.read(changed(record.path, tmp_path / "late.jsonl", delay)))
    (warning,) = (warning for warning in result.warnings if warning.code == "send-lateness")
    assert f"{1e3 * late_s:.0f} ms late (P99)" in warning.message
    latency = result.metrics["word_latency_mean"]
    assert (latency.value is not None) == valid
    if not valid:
        assert latency.code == "invalid"
        assert "our own client" in latency.note
    # What was written does not depend on when.
    assert result.metrics["wer"].value == 0.0


def test_the_network_of_a_protocol_without_ping_is_unknown_and_not_zero(
    tiny_corpus: MakeCorpus, tmp_path: Path
) -> None:
    with serving(ScriptedDeepgram(REPLIES)) as server:
        record = run([server, server], tiny_corpus(count=1), tmp_path)
    _, second = (result.name for result in stopwav.results(record))

    def forget(lines: list[dict[str, Any]]) -> None:
        for line in lines:
            if line.get("key", [""])[0] == "stream" and line["key"][2] == second:
                line["data"]["trace"]["network_s"] = None

    path = changed(record.path, tmp_path / "without.jsonl", forget)
    known, unknown = (result.metrics for result in stopwav.results(Record.read(path)))
    for name in ("network", "waterfall_network"):
        assert known[name].value is not None
        assert unknown[name].value is None
        assert "no ping" in unknown[name].note
    # All else is the server's, so that the parts still add up.
    parts = [unknown[f"waterfall_{part}"].value or 0.0 for part in WATERFALL]
    assert sum(parts) == pytest.approx(unknown["word_latency_mean"].value)
    assert "the protocol has no ping" in " ".join(command("report", path, "--all").stdout.split())


def test_what_needs_a_process_says_so(tmp_path: Path) -> None:
    done = command("compare", "deepgram:ws://127.0.0.1:9", "--save", tmp_path)
    assert done.code == 2
    assert "is a server, which `stopwav latency` measures" in done.stderr


def test_a_run_through_a_server_is_reported_and_compared(tiny_corpus: MakeCorpus, tmp_path: Path) -> None:
    corpus = tiny_corpus(count=2)
    with serving(ScriptedDeepgram(REPLIES)) as server:
        record = run([server, "fake"], corpus, tmp_path, rounds=2)
    page = tmp_path / "page.html"
    assert command("report", record.path, "--html", page).code == 0
    assert page.stat().st_size > 10_000
    printed = json.loads(command("report", record.path, "--json").stdout)
    assert [result["status"] for result in printed["results"]] == ["ok", "ok"]
    assert command("report", record.path, "--trace", tmp_path / "trace.json").code == 0
    # The engine in a process has a real-time factor, and the server it is compared with none.
    shown = command("report", record.path, "--all").stdout
    assert "Against" in shown
    assert "real-time factor (RTF), ×" not in " ".join(shown.split())
    compared = json.loads(command("diff", record.path, record.path, "--json").stdout)["results"]
    remote, local = ({change["metric"]: change for change in result["changes"]} for result in compared)
    for metric in ("chunk_lag_p50", "rtf", "load_time", "peak_host_bytes"):
        assert remote[metric]["value"] is None
        assert "not visible behind a protocol" in remote[metric]["note"]
        assert local[metric]["value"] is not None


def test_times_that_are_not_valid_are_not_compared(tiny_corpus: MakeCorpus, tmp_path: Path) -> None:
    with serving(ScriptedDeepgram(REPLIES)) as server:
        record = run([server, server], tiny_corpus(count=8), tmp_path, streams=8)

    def delay(lines: list[dict[str, Any]]) -> None:
        for line in lines:
            if line.get("key", [""])[0] == "stream":
                trace = line["data"]["trace"]
                trace["sent"] = [due_s + 0.2 for due_s in trace["due"]]

    late = Record.read(changed(record.path, tmp_path / "late.jsonl", delay))
    before, after = (engine_verdicts(record) for record in (record, late))
    assert before is not None
    assert after is not None
    assert before.verdicts[0].felt.value is not None
    assert after.verdicts[0].felt.value is None
    assert "our own client" in after.verdicts[0].felt.note


def test_every_metric_of_a_server_has_its_definition_and_unit(tiny_corpus: MakeCorpus, tmp_path: Path) -> None:
    from stopwav.studies.latency.definitions import DEFINITIONS

    with serving(ScriptedDeepgram(REPLIES)) as server:
        record = run(server, tiny_corpus(count=1), tmp_path)
    metrics = only(record).metrics
    assert {"send_lateness_p99", "network", "endpoint_latency_p50"} <= metrics.keys()
    for name, estimate in metrics.items():
        definition = DEFINITIONS.find(name)
        assert definition is not None, name
        assert definition.unit == estimate.unit, name
