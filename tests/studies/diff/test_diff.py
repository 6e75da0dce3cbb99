"""`stopwav.diff`: verdicts at their level, planted changes found, refusals, and hostile names. See figures with -s."""

import html
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import command
from markdown_it import MarkdownIt
from rich.console import Console
from scipy import stats as scipy_stats
from stored_runs import DATA
from synthetic_runs import UTTERANCES, saved, synthetic_run

import stopwav
from stopwav.cli.diff import parse_threshold
from stopwav.record import Record
from stopwav.report.document import Document
from stopwav.report.markdown import render_markdown
from stopwav.report.terminal import print_document
from stopwav.report.text import plain
from stopwav.stats.change import Change, answer_all, ask_errors, ask_nothing, ask_ratio
from stopwav.studies.diff.diff import Diff
from stopwav.studies.diff.document import diff_document

CLAIMS = {"faster", "slower", "smaller", "bigger", "better", "worse"}


def changes(compared: Diff, item: int = 0) -> dict[str, Change]:
    return {change.metric: change for change in compared.items[item].changes}


@pytest.mark.parametrize("pairs", [40, pytest.param(200, marks=pytest.mark.soak)])
def test_a_against_a_claims_a_change_no_more_often_than_its_level(pairs: int) -> None:
    """5 rounds a side, rounds differing by 1.3 %: at threshold 0, where a claim is a false one."""
    any_claim = by_metric = 0
    for seed in range(pairs):
        a, b = (synthetic_run(2 * seed + side, rounds=5) for side in (0, 1))
        by_name = changes(stopwav.diff(a, b, threshold=0))
        any_claim += any(change.verdict in CLAIMS for change in by_name.values())
        by_metric += (by_name["rtf"].p_value or 0) < 0.05
    print(
        f"A against A, {pairs} pairs: {any_claim / pairs:.1%} with any claim, {by_metric / pairs:.1%} p < 0.05 for RTF"
    )
    # One metric on its own is at its level, and all ten together are no worse (chance alone: one in a thousand).
    assert scipy_stats.binomtest(by_metric, pairs, 0.05).pvalue > 0.001
    assert scipy_stats.binomtest(any_claim, pairs, 0.05, alternative="greater").pvalue > 0.001


@pytest.mark.parametrize("pairs", [20, pytest.param(100, marks=pytest.mark.soak)])
def test_a_planted_slowdown_of_five_percent_is_found(pairs: int) -> None:
    """10 rounds a side, rounds differing by 1.3 %, the default threshold of 1 %."""
    found = others = 0
    for seed in range(pairs):
        a, b = synthetic_run(2 * seed), synthetic_run(2 * seed + 1, slowdown=0.05)
        seen = changes(stopwav.diff(a, b))
        found += all(seen[metric].verdict == "slower" for metric in ("rtf", "chunk_lag_p50"))
        others += any(seen[metric].verdict in CLAIMS for metric in ("load_time", "peak_host_bytes", "wer"))
    print(f"planted 5 %, {pairs} pairs: found in {found / pairs:.1%}; false claims beside it in {others / pairs:.1%}")
    assert found / pairs >= 0.95
    assert others / pairs <= 0.05


def test_each_sort_of_number_has_its_own_words() -> None:
    before = synthetic_run(1, wrong=(0,) * UTTERANCES)
    after = synthetic_run(2, slowdown=0.2, growth=0.2, wrong=(5,) * UTTERANCES)
    there, back = changes(stopwav.diff(before, after)), changes(stopwav.diff(after, before))
    assert [there[name].verdict for name in ("rtf", "peak_host_bytes", "load_time")] == [
        "slower",
        "bigger",
        "undecided",
    ]
    assert [back[name].verdict for name in ("rtf", "peak_host_bytes")] == ["faster", "smaller"]
    assert there["rtf"].value == pytest.approx(1.2, rel=0.03)
    assert not there["rtf"].paired
    assert there["wer"].paired


def test_the_error_rate_is_compared_over_the_same_utterances() -> None:
    generator = np.random.default_rng(0)
    words = np.full(200, 10)
    errors = generator.binomial(10, 0.1, 200)
    more = errors + (generator.random(200) < 0.3)
    for a, b, verdict in ((errors, more, "worse"), (more, errors, "better"), (errors, errors, "same")):
        (change,) = answer_all([ask_errors("wer", a, b, words, 0.01)])
        assert change.verdict == verdict
        assert change.value == pytest.approx((b.sum() - a.sum()) / words.sum())
    few = errors.copy()
    few[0] += 1
    (change,) = answer_all([ask_errors("wer", errors, few, words, 0.01)])
    assert (change.verdict, change.note) == ("undecided", "more samples would decide; more rounds would not")
    assert ask_errors("wer", [0], [1], [0], 0.01).answer(0.95).note == "no error rate: the totals add up to 0"


def test_an_error_rate_that_only_chance_moves_is_rarely_called_better_or_worse() -> None:
    claims = 0
    for seed in range(150):
        a, b = np.random.default_rng(seed).binomial(10, 0.1, (2, 40))
        (change,) = answer_all([ask_errors("wer", a, b, np.full(40, 10), 0.0, seed)])
        claims += change.verdict in CLAIMS
    print(f"WER, A against A: {claims / 150:.1%} better or worse")
    assert claims / 150 <= 0.1


def test_metrics_are_decided_together() -> None:
    noise = np.random.default_rng(3).normal(0, 0.01, (2, 10))
    a, b = np.exp(noise[0]), 1.016 * np.exp(noise[1])
    alone = ask_ratio("rtf", "", "time", a, b, 0.0)
    assert answer_all([alone])[0].confidence == pytest.approx(0.95)
    others = [ask_ratio("load_time", "s", "time", np.exp(noise[0]), np.exp(noise[1]), 0.0)] * 9
    together = answer_all([alone, *others, ask_nothing("wer", "", 0.0, "no reason")])
    assert together[0].confidence == pytest.approx(0.995)  # 10 tests; what cannot be asked is none
    assert (together[0].low or 0) < (answer_all([alone])[0].low or 0)
    assert together[-1].note == "no reason"


def test_one_round_a_side_stays_undecided_with_the_reason() -> None:
    by_name = changes(stopwav.diff(synthetic_run(1, rounds=1), synthetic_run(2, rounds=1, slowdown=0.5)))
    assert (by_name["rtf"].verdict, by_name["rtf"].note) == ("undecided", "needs at least 2 rounds per side")
    assert by_name["rtf"].value == pytest.approx(1.5, rel=0.1)


def test_a_metric_without_a_ratio_is_left_out_with_the_reason() -> None:
    early, late = synthetic_run(1), synthetic_run(2)
    for record in (early, late):
        for fields in record.header.corpus["utterances"]:
            fields["words"] = [[word, start, end + 10] for word, start, end in fields["words"]]
    by_name = changes(stopwav.diff(early, late))
    assert by_name["word_latency_p50"].verdict == "undecided"
    assert "not above zero" in by_name["word_latency_p50"].note
    assert by_name["rtf"].value is not None


def test_the_bootstrap_free_values_are_those_of_the_report() -> None:
    """Ratios are of the numbers that `results` shows, round by round."""
    record = synthetic_run(1, rounds=1)
    (result,) = stopwav.results(record)
    for name, change in changes(stopwav.diff(record, record)).items():
        assert change.a == pytest.approx(result.metrics[name].value)


def test_lost_utterances_are_named_and_the_rest_is_compared() -> None:
    compared = stopwav.diff(synthetic_run(1), synthetic_run(2, lost=[(0, 1), (3, 2)]))
    assert compared.items[0].lost == ("u1", "u2")
    assert compared.items[0].utterances == UTTERANCES - 2
    assert "engine: b lost u1, u2, left out of the comparison" in compared.remarks
    everything = [(index, utterance) for index in range(10) for utterance in range(UTTERANCES)]
    assert stopwav.diff(synthetic_run(1), synthetic_run(2, lost=everything)).items[0].changes == ()


def test_an_unfinished_round_is_left_out() -> None:
    whole = synthetic_run(2)
    torn = stopwav.Record(whole.path, whole.header, whole.pieces[:-4], complete=False)
    compared = stopwav.diff(synthetic_run(1), torn)
    assert changes(compared)["rtf"].n == 9
    assert any("1 unfinished of 10 rounds left out of b" in remark for remark in compared.remarks)


def test_engines_on_one_side_only_are_listed() -> None:
    compared = stopwav.diff(synthetic_run(1, names=["x", "y"]), synthetic_run(2, names=["y", "z"]))
    assert (compared.only_a, compared.only_b, [item.name for item in compared.items]) == (("x",), ("z",), ["y"])
    with pytest.raises(stopwav.StopwavError, match=r"no engine in common: x, y against z, w.*label"):
        stopwav.diff(synthetic_run(1, names=["x", "y"]), synthetic_run(2, names=["z", "w"]))


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({"machine": {"fingerprint": "beef"}}, "other machine"),
        ({"corpus": {"digest": "d2"}}, "other corpus"),
        ({"normaliser": {"version": 2}}, "other normaliser"),
        ({"normaliser": {"name": "whisper-basic"}}, "other normaliser"),
        ({"spec": {"pace": "real"}}, "other pace"),
    ],
)
def test_what_cannot_be_compared_is_refused(header: dict[str, Any], reason: str) -> None:
    a, b = synthetic_run(1), synthetic_run(2, **header)
    with pytest.raises(stopwav.StopwavError, match=rf"cannot be compared .*{reason} \(.* against .*\).*--force"):
        stopwav.diff(a, b)
    compared = stopwav.diff(a, b, force=True)
    assert len(compared.forced) == 1
    assert reason in compared.forced[0]


@pytest.mark.parametrize(
    ("kind", "field", "value", "reason"),
    [
        ("load", "precision", "int8", "precision of engine (float32 against int8)"),
        ("load", "device", "cuda", "device of engine (cpu against cuda)"),
        ("stream", "chunk_s", 0.2, "chunk size of engine (100 ms against 200 ms)"),
    ],
)
def test_other_settings_of_an_engine_are_refused(kind: str, field: str, value: object, reason: str) -> None:
    b = synthetic_run(2)
    for piece in b.pieces:
        if piece.key[0] == kind:
            piece.data["engine" if kind == "load" else "trace"][field] = value
    with pytest.raises(stopwav.StopwavError) as refused:
        stopwav.diff(synthetic_run(1), b)
    assert reason in str(refused.value)


def drawn(seed: int, names: Sequence[int], **corpus: Any) -> Record:
    """A run of some of the utterances of a corpus, in this order."""
    run = synthetic_run(seed, rounds=3)
    listed = [run.header.corpus["utterances"][name] for name in names]
    header = run.header.model_copy(update={"corpus": {**run.header.corpus, "utterances": listed, **corpus}})
    pieces = [p for p in run.pieces if p.key[0] != "stream" or p.key[3] in {f"u{name}" for name in names}]
    return Record(run.path, header, pieces, complete=True)


def test_runs_of_one_corpus_are_compared_over_the_utterances_that_both_drew() -> None:
    compared = stopwav.diff(drawn(1, [4, 0, 2, 3]), drawn(2, [3, 5, 0, 4]))
    (item,) = compared.items
    assert item.utterances == 3
    assert changes(compared)["rtf"].value == pytest.approx(1, rel=0.1)


def test_older_runs_of_one_corpus_are_compared_by_what_they_list() -> None:
    def older(seed: int, digest: str, names: Sequence[int]) -> Record:
        run = drawn(seed, names, digest=digest)
        del run.header.corpus["digest_of"]
        return run

    # Their digests were of an order; the newer one is of the corpus.
    assert stopwav.diff(older(1, "d7", [2, 1, 0]), older(2, "d8", [0, 1])).items[0].utterances == 2
    assert stopwav.diff(older(1, "d7", [2, 1, 0]), drawn(2, [0, 1])).items[0].utterances == 2
    with pytest.raises(stopwav.StopwavError, match=r"other corpus \(spoken, digest d7 against spoken, digest d8\)"):
        stopwav.diff(older(1, "d7", [2, 1]), older(2, "d8", [0]))
    other = older(2, "d8", [0, 1])
    other.header.corpus["utterances"][0]["text"] = "another"
    with pytest.raises(stopwav.StopwavError, match=r"other corpus .*; other text or word times of u0; measure"):
        stopwav.diff(older(1, "d7", [0, 1]), other)


def test_other_word_times_are_refused_by_the_name_of_the_utterance() -> None:
    after = drawn(2, [0, 1, 2])
    utterance = after.header.corpus["utterances"][1]
    utterance["words"] = [[text, start_s, end_s + 0.01] for text, start_s, end_s in utterance["words"]]
    with pytest.raises(stopwav.StopwavError, match=r"compared with .*: other text or word times of u1; .*--force"):
        stopwav.diff(drawn(1, [0, 1, 2]), after)


def test_another_study_is_refused_even_by_force() -> None:
    with pytest.raises(stopwav.StopwavError, match="a run of 'grid'"):
        stopwav.diff(synthetic_run(1), DATA / "grid-emformer.jsonl", force=True)


def test_other_software_is_remarked_upon_and_compared() -> None:
    compared = stopwav.diff(
        synthetic_run(1, machine={"packages": {"numpy": "1.26"}}),
        synthetic_run(2, machine={"packages": {"numpy": "2.0"}}, warnings=[{"code": "busy-machine", "message": ""}]),
    )
    assert compared.remarks == ("numpy: 1.26 in a, 2.0 in b", "b was measured under warnings: busy-machine")


@pytest.mark.parametrize(
    ("text", "value"), [("1%", 0.01), ("0.01", 0.01), (" 2.5 % ", 0.025), ("0", 0.0), ("150%", 1.5)]
)
def test_thresholds_are_read(text: str, value: float) -> None:
    assert parse_threshold(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["5", "-1%", "one", "", "%", "nan", "inf"])
def test_other_thresholds_are_refused(text: str) -> None:
    with pytest.raises(stopwav.StopwavError, match=r"as 1% or 0\.01"):
        parse_threshold(text)
    with pytest.raises(stopwav.StopwavError, match="must be 0 or more"):
        stopwav.diff(synthetic_run(1), synthetic_run(2), threshold=-1)


HOSTILE = "a|b`c`*d*\n# e\x1b[31m</code><script>alert(1)</script>[x](http://evil.example) @someone #1 $m$ \u202e"


@pytest.fixture
def hostile() -> Document:
    """The comparison of two runs of an engine with a hostile name."""
    a, b = (synthetic_run(seed, names=[HOSTILE], path=Path(f"{HOSTILE}.jsonl")) for seed in (1, 2))
    return diff_document(stopwav.diff(a, b))


def test_hostile_names_are_text_in_markdown(hostile: Document) -> None:
    text = render_markdown(hostile)
    for raw in ("<script", "`c`", "[x](", "http://", "\x1b", "\u202e", "\n# e", " @", " #1", " $m"):
        assert raw not in text, raw
    rendered = (
        MarkdownIt("commonmark", {"html": True, "linkify": False}).enable("table").render(text).replace("<!-- -->", "")
    )
    # The title of the table is the name, and the item of the list the name with what was found.
    assert html.unescape(re.findall(r"<strong>([^<]*)</strong>", rendered)[0]) == plain(HOSTILE).rstrip()
    assert html.unescape(re.findall(r"<li>([^<]*)</li>", rendered)[0]).startswith(plain(HOSTILE))
    assert not re.search(r"<(script|a|em|img)\b", rendered)
    assert rendered.count("<td") == 5 * 11
    assert rendered.count("<h") == rendered.count("<h3>") == 1


def test_hostile_names_do_not_reach_the_terminal(hostile: Document) -> None:
    out = io.StringIO()
    print_document(hostile, Console(width=80, file=out))
    assert "\x1b" not in out.getvalue()
    assert "\u202e" not in out.getvalue()
    assert "\\x1b[31m" in out.getvalue().replace("\n", "")


def test_the_command_prints_a_table_markdown_or_json(tmp_path: Path) -> None:
    a = saved(synthetic_run(1), tmp_path / "a.jsonl")
    b = saved(synthetic_run(2, slowdown=0.1), tmp_path / "b.jsonl")
    table = command("diff", a, b)
    assert table.code == 0, table.stderr
    assert table.stdout.startswith("engine: slower in ")
    assert "unpaired" in command("diff", a, b, "--all").stdout
    assert "slower in" in table.stdout
    assert max(len(line) for line in table.stdout.splitlines() if str(tmp_path) not in line) <= 80
    assert "| real-time factor |" in command("diff", a, b, "--markdown").stdout
    printed = json.loads(command("diff", a, b, "--json", "--threshold", "20%").stdout)
    assert set(printed) == {"stopwav", "study", "a", "b", "forced", "remarks", "models", "only_a", "only_b", "results"}
    rtf = next(change for change in printed["results"][0]["changes"] if change["metric"] == "rtf")
    assert (rtf["verdict"], rtf["threshold"], rtf["by"]) == ("small difference", 0.2, "ratio")


def test_the_command_refuses_in_one_line(tmp_path: Path) -> None:
    a = saved(synthetic_run(1), tmp_path / "a.jsonl")
    b = saved(synthetic_run(2, machine={"fingerprint": "beef"}), tmp_path / "b.jsonl")
    refused = command("diff", a, b)
    assert refused.code == 2
    assert refused.stdout == ""
    assert len(refused.stderr.splitlines()) == 1
    assert "other machine" in refused.stderr
    forced = command("diff", a, b, "--force")
    assert forced.code == 0
    assert "compared by force: other machine" in forced.stdout
    hostile = saved(synthetic_run(3, names=[HOSTILE, "x"]), tmp_path / "c.jsonl")
    refused = command("diff", a, hostile)
    assert (refused.code, len(refused.stderr.splitlines()), "\x1b" in refused.stderr) == (2, 1, False)
    assert command("diff", a, b, "--threshold", "5").code == 2
    assert command("diff", a, tmp_path / "none.jsonl").code == 2


def test_runs_that_a_budget_ended_are_compared_by_a_rule_that_allows_it() -> None:
    fixed = [synthetic_run(seed, slowdown=0.1 * seed) for seed in (0, 1)]
    ended = [synthetic_run(seed, slowdown=0.1 * seed, spec={"rounds": None}) for seed in (0, 1)]
    stopped = Record(fixed[1].path, fixed[1].header, fixed[1].pieces, complete=False)
    for a, b, rule in (
        (fixed[0], fixed[1], "fixed"),
        (ended[0], ended[1], "anytime"),
        (fixed[0], ended[1], "anytime"),
        (fixed[0], stopped, "anytime"),  # by a person, who may have looked
    ):
        compared = stopwav.diff(a, b)
        change = changes(compared)["rtf"]
        assert (change.rule, change.paired, change.verdict) == (rule, False, "slower")
        text = render_markdown(diff_document(compared))
        assert ("Welch's t" in text) == (rule == "fixed")
        assert ("confidence sequence, valid at any stop" in text) == (rule == "anytime")
