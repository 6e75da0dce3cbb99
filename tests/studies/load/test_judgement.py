"""Objectives at levels written by hand: what holds, fails, is unstable, or says nothing of the server."""

import numpy as np
import pytest
from level_data import failed, level, session, unfinished

from stopwav.studies.load.judgement import judge, latency_rise
from stopwav.studies.load.level_table import by_reason
from stopwav.studies.load.objective import parse_objective

WORDS = parse_objective("word_latency_p95<1")
FINALS = parse_objective("final_latency_p95<0.8")
FAILURES = parse_objective("failed<1%")


def spread(sessions):
    """The sessions with begins over the steady part."""
    return [{**fields, "begin_s": 20.0 * place / len(sessions)} for place, fields in enumerate(sessions)]


def two_rounds(sessions):
    """The level of these sessions, the second half of them in a fresh round."""
    half = len(sessions) // 2
    return level(spread(sessions[:half]), spread(sessions[half:]))


def only(judgement):
    (judged,) = judgement.conditions
    return judged


def test_a_level_that_holds_and_is_sure():
    judgement = judge(WORDS, two_rounds([session()] * 150))
    judged = only(judgement)
    assert (judgement.verdict, judgement.sure) == ("holds", True)
    assert judged.value == pytest.approx(0.2)
    assert (judged.over, judged.events) == (0.0, 300)
    assert judgement.state(3).holds
    assert judgement.state(3).rounds == 3


def test_a_level_that_holds_in_few_sessions_is_not_sure():
    judgement = judge(WORDS, level(spread([session()] * 10)))
    assert (judgement.verdict, judgement.sure) == ("holds", False)


def test_what_a_single_round_shows_is_not_sure():
    one_round = judge(WORDS, level(spread([session()] * 150)))
    assert (one_round.verdict, one_round.sure, one_round.shown_failing) == ("holds", False, False)
    one_round = judge(WORDS, level(spread([session(second=1.2)] * 20)))
    assert (one_round.verdict, one_round.sure, one_round.shown_failing) == ("fails", False, True)


def test_a_level_that_surely_fails():
    judgement = judge(WORDS, two_rounds([session(second=1.2)] * 20))
    assert (judgement.verdict, judgement.sure) == ("fails", True)
    assert only(judgement).over == 0.5
    assert only(judgement).value == pytest.approx(1.2)


def test_a_level_that_fails_by_chance_is_not_sure():
    judgement = judge(WORDS, level(spread([session()] * 8 + [session(second=1.2)])))
    assert (judgement.verdict, judgement.sure) == ("fails", False)


def test_a_value_at_the_limit_is_not_within_it():
    assert only(judge(WORDS, level([session(first=1.0, second=0.999)]))).over == 0.5


def test_p95_is_below_its_limit_where_at_most_5_percent_are_late():
    at_limit = judge(FINALS, level(spread([session()] * 19 + [session(final=2.0)])))
    assert at_limit.verdict == "holds"
    beyond = judge(FINALS, level(spread([session()] * 18 + [session(final=2.0)])))
    assert beyond.verdict == "fails"


def test_a_final_latency_counts_from_the_last_word():
    assert only(judge(FINALS, level([session(final=0.3)]))).value == pytest.approx(0.4)


def test_sessions_that_fail_or_are_cut_are_late_with_all_that_was_not_seen():
    words = only(judge(WORDS, level([session(), unfinished(), failed(), failed("refused", sent=False)])))
    # Two words in time, one that was seen before the cut, and five that nobody saw.
    assert words.events == 8
    assert words.over == pytest.approx(5 / 8)
    finals = only(judge(FINALS, level([session(), unfinished(), failed(), failed("refused", sent=False)])))
    assert (finals.events, finals.over) == (4, 0.75)
    # Nothing is left of the value of a session that has none.
    assert finals.value == pytest.approx(0.3)


def test_what_a_cut_session_shows_is_not_committed():
    judged = only(judge(parse_objective("committed_latency_p90<3"), level([session(), unfinished()])))
    assert (judged.events, judged.over) == (4, 0.5)


def test_failed_sessions_are_a_share_of_all():
    table = level([session()] * 98 + [failed("refused", sent=False), failed()])
    judged = only(judge(FAILURES, table))
    assert (judged.value, judged.holds) == (0.02, False)
    assert by_reason(table.failures) == {"refused": ["server: refused"], "closed": ["server: closed"]}
    assert (table.sessions, len(table.table), table.unheard_words, table.unfinished) == (100, 99, 2, 0)


def test_no_failure_at_all_is_taken_as_few_enough_and_said():
    judgement = judge(FAILURES, two_rounds([session()] * 10))
    assert (judgement.verdict, judgement.sure) == ("holds", True)
    assert only(judgement).note == "none of 10 sessions failed, which does not show failed<1%"
    some = judge(FAILURES, level([session()] * 200 + [failed()]))
    assert (some.verdict, some.sure) == ("holds", False)


def test_a_cut_session_has_not_failed():
    judged = only(judge(FAILURES, level([session()] * 3 + [unfinished()])))
    assert judged.value == 0


def test_word_errors_are_a_share_of_the_words_of_completed_sessions():
    judged = only(
        judge(parse_objective("wer<10%"), level([session(text="red too")] + [session()] * 3 + [unfinished()]))
    )
    assert judged.value == pytest.approx(1 / 8)
    assert not judged.holds
    none = only(judge(parse_objective("wer<10%"), level([unfinished()])))
    assert (none.value, none.side, none.note) == (None, "open", "no session with a transcript was completed")


def test_all_conditions_have_to_hold():
    both = parse_objective("word_latency_p95<1, final_latency_p95<0.8, failed<1%")
    judgement = judge(both, level(spread([session(final=1.5)] * 30)))
    assert judgement.verdict == "fails"
    assert [judged.holds for judged in judgement.conditions] == [True, False, True]


def rising(count=40, by_s=0.5, seed=0, rounds_s=0.0):
    """Sessions whose final text comes ever later: in all by so much, with some noise."""
    noise = np.random.default_rng(seed).normal(0, 0.02, count)
    return spread(
        [session(final=0.3 + by_s * place / count + float(noise[place]) + rounds_s) for place in range(count)]
    )


def test_a_server_that_falls_behind_is_unstable_though_its_objective_holds():
    judgement = judge(FINALS, level(rising(by_s=0.4), rising(by_s=0.4, seed=1)))
    assert all(judged.holds for judged in judgement.conditions)
    assert (judgement.verdict, judgement.sure) == ("unstable", True)
    assert judgement.rise_s == pytest.approx(0.4, abs=0.05)
    assert judgement.reason == "latency rises by 0.4 s in the course of the level"
    assert not judgement.state(1).holds


def test_what_does_not_count_as_a_rise():
    # Too little for a listener, falling, level, of too few sessions, or none that was completed.
    for sessions in (
        rising(by_s=0.1),
        rising(by_s=-0.4),
        rising(by_s=0.0),
        rising(count=7),
        spread([unfinished()] * 20),
    ):
        assert latency_rise(level(sessions)) is None


def test_a_rise_has_to_show_in_most_rounds():
    assert latency_rise(level(rising(), rising(by_s=0.0))) is None
    assert latency_rise(level(rising(), rising(seed=1), rising(by_s=0.0))) == pytest.approx(0.5, abs=0.1)
    # Rounds that differ from each other are no rise.
    assert latency_rise(level(rising(by_s=0.0), rising(by_s=0.0, rounds_s=3.0))) is None


def test_steady_servers_are_seldom_called_unstable():
    generator = np.random.default_rng(0)
    called = 0
    for _ in range(60):
        finals = generator.gamma(4, 0.1, 25)
        called += latency_rise(level(spread([session(final=float(final_s)) for final_s in finals]))) is not None
    assert called <= 3


@pytest.mark.parametrize(
    ("late", "says"),
    [
        ([session(late_s=0.006)] * 5, "this client sent chunks 6.0 ms late (P99), 6 ms at most"),
        ([session()] * 200 + [session(late_s=0.06)], "this client sent chunks 0.0 ms late (P99), 60 ms at most"),
    ],
)
def test_a_client_that_is_late_says_nothing_of_the_server(late, says):
    judgement = judge(WORDS, level(late))
    assert (judgement.verdict, judgement.sure, judgement.reason) == ("invalid", False, says)
    # In virtual time there is no client.
    assert judge(WORDS, level(late, virtual=True)).verdict == "holds"


def test_a_busy_client_says_nothing_of_the_server():
    judgement = judge(WORDS, level([session()] * 5, processors=(0.2, 0.85)))
    assert judgement.verdict == "invalid"
    assert judgement.reason == "this client used 85 % of a core; give it more --processes"
    assert judge(WORDS, level([session()] * 5, processors=(0.8, None))).verdict == "holds"


def test_chunks_that_waited_for_the_server_are_not_late():
    table = level([session(ready_s=0.35), session(held_s=0.4)])
    assert table.lateness_s.max() == pytest.approx(0)
    assert table.held_s == 0.4
    assert judge(WORDS, table).verdict == "holds"


def test_rounds_are_judged_together():
    table = level(spread([session()] * 70), spread([session()] * 70))
    assert [round_.index for round_ in table.rounds] == [0, 1]
    assert judge(WORDS, table).sure
    assert not judge(WORDS, level(spread([session()] * 70))).sure


def test_a_level_without_sessions_shows_nothing():
    judgement = judge(WORDS, level([]))
    assert only(judgement).note == "no session has it"
    assert not judgement.sure


def test_a_round_in_which_our_client_was_late_does_not_spoil_the_others():
    late = session(late_s=0.2)
    both = level([session()] * 5, [late] * 5)
    assert both.invalid_rounds == 1
    assert both.sessions == 5
    assert judge(WORDS, both).verdict == "holds"
    assert judge(WORDS, level([late] * 5, [late] * 5)).verdict == "invalid"
