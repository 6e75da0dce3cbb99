"""What would help, as people see it: in the terminal and as Markdown."""

import re

import pytest
from explained_runs import explained_run
from markdown_it import MarkdownIt
from shown_runs import markdown, printed, study_run
from stored_runs import HOSTILE

from stopwav.stats.change import answer_all, ask_nothing, ask_ratio
from stopwav.studies.latency.document import explanation_finding
from stopwav.studies.latency.explain import Explanation, Gain, LeftOut, ranked
from stopwav.studies.study import StudyRun

BEFORE = (0.040, 0.042, 0.041)


def gain(setting: str, factor: float, algorithmic_s: float = 0.0, rounds: int = 3) -> Gain:
    """A setting that takes the chunk lag times a factor, the algorithm's 200 ms and what is given beside."""
    lags = [factor * value * (1 + 0.001 * index) for index, value in enumerate(BEFORE)][:rounds]
    waits = [0.2 + value for value in BEFORE][:rounds], [0.2 + algorithmic_s + value for value in lags]
    questions = [
        ask_ratio("longest_wait_p95", "s", "time", *waits, 0.01, paired=True),
        ask_ratio("chunk_lag_p95", "s", "time", BEFORE[:rounds], lags, 0.01, paired=True),
        ask_ratio("chunk_lag_p50", "s", "time", BEFORE[:rounds], lags, 0.01, paired=True),
        ask_nothing("wer", "", 0.01, "untrained", "untrained"),
    ]
    felt, p95, p50, wer = answer_all(questions)
    return Gain(setting, algorithmic_s, felt, p95, p50, wer)


def explanation(*gains: Gain, left_out: tuple[LeftOut, ...] = ()) -> Explanation:
    return Explanation("emformer", "longest_wait_p95", ranked(gains), left_out)


def shown(of: Explanation) -> StudyRun:
    """A run that says so."""
    run = study_run(explained_run({"any=1": {}}, rounds=1))
    run.extras = {"explanation": of}
    return run


EXPLANATION = explanation(
    gain("beam=1", 1.0),
    gain("dtype=int8", 0.5),
    gain("segment=8", 0.9, -0.08),
    left_out=(LeftOut("device=cuda", "no GPU", "unavailable"),),
)


def table_of(text: str) -> str:
    """The table of what would help, as HTML."""
    _, heading, after = text.partition("| setting |")
    return MarkdownIt("commonmark").enable("table").render(heading + after.partition("\n\n")[0])


def test_the_best_stands_first_with_its_gain_and_verdict() -> None:
    text = printed(shown(EXPLANATION), every_metric=True).partition("What would help")[2]
    assert text.index("segment=8") < text.index("dtype=int8") < text.index("beam=1")
    assert "-84" in text, "80 ms of the algorithm and a tenth of 41 ms"
    assert "faster" in text
    assert re.search(r"WER, points +untrained", text)
    assert "not measured: device=cuda: no GPU" in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_the_sentence_says_what_helps_and_by_how_much() -> None:
    assert explanation_finding(EXPLANATION) == (
        "emformer: of 3 settings tried, 2 shorten the wait: segment=8 by 84 ms, dtype=int8 by 20 ms"
    )
    assert "1 shortens the wait" in explanation_finding(explanation(gain("a=1", 0.5), gain("b=1", 1.0)))


def test_what_is_not_shown_is_not_said_to_help() -> None:
    found = explanation(gain("dtype=int8", 0.5, rounds=1))
    assert explanation_finding(found) == (
        "emformer: none of 1 settings tried is shown to shorten the wait; 1 undecided (9 more rounds should decide)"
    )
    assert explanation_finding(explanation()) == "emformer: no setting could be measured"


def test_markdown_is_a_table_with_a_row_for_each_setting() -> None:
    html = table_of(markdown(shown(EXPLANATION)))
    assert html.count("<tr>") == 4
    assert html.index(">segment=8</td>") < html.index(">dtype=int8</td>") < html.index(">beam=1</td>")


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_do_nothing(name: str) -> None:
    found = explanation(gain(name, 0.5), left_out=(LeftOut(name, name, "failed"),))
    assert "\x1b" not in printed(shown(found))
    html = table_of(markdown(shown(found)))
    assert not any(tag in html for tag in ("<script", "<img", "<a "))
    assert html.count("<tr>") == 2
