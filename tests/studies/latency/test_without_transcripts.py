"""Runs whose utterances have no transcript, all or some: what rests on one is absent or of the others."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from command_line import command
from latency_runs import MakeCorpus, script
from shown_runs import markdown, page, printed, study_run
from stored_runs import REAL, changed, results_of

import stopwav
from stopwav.record import NO_TRANSCRIPT, Record, Result

# What needs a transcript, as far as a run has it.
NEEDING = {
    *(f"{name}_p50" for name in ("word_latency", "committed_latency", "stabilisation")),
    *("wer", "cer", "words_recognised", "al", "laal", "al_ca", "laal_ca", "share_waiting", "waterfall_queue"),
    *("first_word_latency_p50", "final_latency_p50"),
}
NOT_NEEDING = {
    *("rtf", "rtfx", "keeps_up", "backlog_slope", "upwr", "normalised_erasure", "dal", "dal_ca", "load_time"),
    *("peak_host_bytes", "inference_p50", "chunk_lag_p95"),
}


def without(tmp_path: Path, kept: int) -> Path:
    """The stored run with real recognisers, of whose utterances only so many keep their transcript."""

    def change(lines: list[dict[str, Any]]) -> None:
        for utterance in lines[0]["corpus"]["utterances"][kept:]:
            utterance["text"], utterance["words"] = None, []

    return changed(REAL, tmp_path / f"kept{kept}.jsonl", change)


def result_of(path: Path) -> Result:
    return stopwav.results(Record.read(path))[0]


def test_nothing_rests_on_transcripts_that_are_not_there(tmp_path: Path) -> None:
    result, before = result_of(without(tmp_path, 0)), results_of(REAL)[0]
    for name in NEEDING:
        estimate = result.metrics[name]
        assert (estimate.value, estimate.code, estimate.note) == (None, NO_TRANSCRIPT, "no transcript"), name
    for name in NOT_NEEDING:
        assert result.metrics[name] == before.metrics[name], name
    assert result.metrics["first_word_latency_from_start_p50"] == before.metrics["first_word_latency_from_start_p50"]
    assert result.metrics["final_latency_from_end_p50"] == before.metrics["final_latency_from_end_p50"]
    assert (result.status, result.params["utterances"], result.params["transcripts"]) == ("ok", 4, 0)
    codes = [warning.code for warning in result.warnings]
    assert codes.count(NO_TRANSCRIPT) == 1
    assert "no-word-times" not in codes


def test_the_others_have_errors_and_word_latency(tmp_path: Path) -> None:
    mixed, before = result_of(without(tmp_path, 2)), results_of(REAL)[0]
    assert (mixed.params["utterances"], mixed.params["transcripts"]) == (4, 2)
    for name in NOT_NEEDING:
        assert mixed.metrics[name] == before.metrics[name], name

    def cut(lines: list[dict[str, Any]]) -> None:
        kept = lines[0]["corpus"]["utterances"][:2]
        lines[0]["corpus"]["utterances"] = kept
        names = [utterance["id"] for utterance in kept]
        lines[:] = [line for line in lines if line.get("key", [""])[0] != "stream" or line["key"][3] in names]

    alone = result_of(changed(REAL, tmp_path / "alone.jsonl", cut))
    for name in NEEDING:
        assert mixed.metrics[name] == alone.metrics[name], name
    (warning,) = [warning.message for warning in mixed.warnings if warning.code == NO_TRANSCRIPT]
    assert warning.startswith("2 of 4 utterances without a transcript: WER, CER and word latency are of the others")


@pytest.mark.parametrize("kept", [0, 2])
def test_every_medium_shows_them(tmp_path: Path, kept: int) -> None:
    run = study_run(Record.read(without(tmp_path, kept)))
    text, page_text = printed(run, every_metric=True), page(run)
    assert text.count("! no-transcript") == 1
    assert ("no transcripts" in text) == (kept == 0)
    assert "word error rate (WER), %" in text
    assert "time to first partial" in text
    assert ("character error rate (CER), %" in text) == (kept > 0)
    assert ("word latency is unknown (no transcript); chunk latency" in " ".join(text.split())) == (kept == 0)
    for shown in (page_text, markdown(run)):
        assert f"{4 - kept} of 4 utterances without a transcript" in shown


def test_a_run_without_transcripts_is_compared_by_what_it_has(tmp_path: Path) -> None:
    path = without(tmp_path, 0)
    compared = stopwav.diff(path, path)
    changes = {change.metric: change for change in compared.items[0].changes}
    assert compared.items[0].utterances == 4
    for metric in ("word_latency_p50", "final_latency_p50", "wer", "cer"):
        assert (changes[metric].value, changes[metric].note, changes[metric].code) == (
            None,
            "no transcript",
            NO_TRANSCRIPT,
        )
    assert changes["rtf"].value == 1
    assert stopwav.gate(path, path).passed
    assert command("diff", path, path).code == 0
    assert command("history", path.parent, "--json").code == 0


def test_utterances_with_and_without_a_transcript_are_not_the_same_ones(tmp_path: Path) -> None:
    none, some = without(tmp_path, 0), without(tmp_path, 2)
    assert stopwav.diff(none, some, force=True).items[0].utterances == 2
    lost = changed(none, tmp_path / "lost.jsonl", lambda lines: lines[0]["corpus"]["utterances"].pop())
    names = [fields["id"] for fields in Record.read(lost).header.corpus["utterances"]]
    changed(lost, lost, lambda lines: lines.__setitem__(slice(None), [
        line for line in lines if line.get("key", [""])[0] != "stream" or line["key"][3] in names
    ]))  # fmt: skip
    compared = stopwav.diff(none, lost, force=True).items[0]
    assert (compared.utterances, len(compared.lost)) == (3, 1)


def test_the_character_error_rate_is_compared_as_the_word_error_rate_is() -> None:
    compared = stopwav.diff(REAL, REAL)
    changes = {change.metric: change for change in compared.items[0].changes}
    before = results_of(REAL)[0].metrics
    for metric in ("wer", "cer"):
        assert changes[metric].a == before[metric].value
        assert (changes[metric].verdict, changes[metric].paired) == ("same", True)
    assert before["cer"].low is not None
    assert before["cer"].value < before["wer"].value


def test_a_folder_of_audio_alone_is_measured_by_every_study(tmp_path: Path, tiny_corpus: MakeCorpus) -> None:
    corpus = tiny_corpus(count=2)
    for name in ("transcripts.txt", "words.ctm"):
        (corpus / name).unlink()
    engine = script(tmp_path, partials=["red", "red fox"], final="red fox", service_ms=1)
    save = ("--save", tmp_path / "runs", "--rounds", 1)
    done = command("latency", engine, "--corpus", corpus, "--json", "--print-texts", *save)
    assert done.code == 0, done.stderr
    (result,) = json.loads(done.stdout)["results"]
    assert result["metrics"]["rtf"]["value"] > 0
    assert (result["metrics"]["wer"]["value"], result["metrics"]["wer"]["note"]) == (None, "no transcript")
    assert [(text["utterance"], text["reference"], text["text"]) for text in result["texts"]] == [
        ("u000", None, "red fox"),
        ("u001", None, "red fox"),
    ]
    header = Record.read(Path(json.loads(done.stdout)["run"])).header
    assert [utterance["text"] for utterance in header.corpus["utterances"]] == [None, None]
    done = command("compare", engine, engine, "--corpus", corpus, "--samples", 2, "--frames", 10, "--json", *save)
    assert done.code == 0, done.stderr
    printed_json = json.loads(done.stdout)
    assert printed_json["results"][0]["metrics"]["cer"]["note"] == "no transcript"
    assert printed_json["results"][0]["metrics"]["latency_mean"]["value"] > 0
    wer = next(verdict for verdict in printed_json["card"]["verdicts"] if verdict["metric"] == "wer")
    assert (wer["verdict"], wer["note"]) == ("undecided", "no transcript")
    text = command("report", printed_json["run"])
    assert text.code == 0
    assert text.stdout.count("no transcript") >= 4  # WER and CER of both, and the warning
    (corpus / "broken.wav").write_bytes(b"")
    grid = ("grid", engine, "--audio", corpus, "--durations", 0.7, "--batch-sizes", 1, "--json", *save)
    done = command(*grid)
    assert done.code == 1, done.stderr
    (cell, *_) = json.loads(done.stdout)["results"]
    assert cell["metrics"]["rtf"]["value"] > 0
    assert any(
        warning["code"] == "corpus" and "broken.wav is empty" in warning["message"] for warning in cell["warnings"]
    )


def test_align_says_that_there_is_nothing_to_align(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "x.wav", np.zeros(8000), 16_000)
    done = command("align", tmp_path, "--output", tmp_path / "w.ctm")
    assert done.code == 2
    assert "nothing to align: none of 1 utterance has a transcript" in done.stderr
    assert not (tmp_path / "w.ctm").exists()


def test_the_audio_of_a_folder_is_in_a_row(tmp_path: Path, tiny_corpus: MakeCorpus) -> None:
    from stopwav.studies.audio_input import audio_digest, make_audio

    corpus = tiny_corpus(count=2)
    first, second = (soundfile.read(corpus / f"u00{number}.wav", dtype="float32")[0] for number in (0, 1))
    samples = make_audio(str(corpus), 1.2, 16_000, 0).samples
    np.testing.assert_array_equal(samples, np.concatenate([first, second, first])[:19_200])
    digest = audio_digest(str(corpus))
    shutil.copytree(corpus, tmp_path / "moved")
    assert audio_digest(str(tmp_path / "moved")) == digest
