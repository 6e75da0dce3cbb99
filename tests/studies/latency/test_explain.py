"""`latency` with `explain`: settings whose effect is known are ranked and judged by it; others are not claimed."""

import json
from pathlib import Path

import pytest
from command_line import command
from explained_runs import BASE, explained_run
from latency_runs import MakeCorpus
from noise_corpus import write_corpus
from scipy import stats as scipy_stats
from shown_runs import page, study_run
from synthetic_runs import saved

import stopwav
from stopwav.engines.registry import with_knob
from stopwav.record import Record
from stopwav.studies.latency.explain import RATE_TOLERANCE, Explanation, Gain, LeftOut, tried_knobs

# An engine that spins, and offers to spin an eighth as long, to do nothing else, and what no machine has.
SCRIPTED = """
from stopwav import Knob
from stopwav.engines.fake import Fake


class Scripted(Fake):
    @staticmethod
    def variants(options):
        return [
            Knob({"finish_ms": options["finish_ms"] + 0.25}),
            Knob({"service_ms": options["service_ms"] / 8}),
            Knob({"service_ms": options["service_ms"]}),
            Knob({"final": "quantum"}, "no quantum computer here"),
        ]


class Silent(Fake):
    pass


class Content(Fake):
    @staticmethod
    def variants(options):
        return []


class Wrong(Fake):
    @staticmethod
    def variants(options):
        return ["service_ms=1"]
"""


def explained(record: Record) -> Explanation:
    found = stopwav.explanation(record)
    assert found is not None
    return found


def by_setting(found: Explanation) -> dict[str, Gain]:
    return {gain.setting: gain for gain in found.gains}


@pytest.fixture
def engine(tmp_path: Path) -> str:
    path = tmp_path / "scripted.py"
    path.write_text(SCRIPTED)
    return f"{path}:Scripted,service_ms=8"


@pytest.mark.parametrize("untrained", [False, True])
def test_what_halves_the_work_is_first_and_faster_and_what_does_nothing_is_not_claimed(untrained: bool) -> None:
    settings = {"idle=true": {}, "worse=true": {"slowdown": 1.0}, "half=true": {"slowdown": -0.5}}
    found = explained(explained_run(settings, untrained=untrained))
    assert found.felt == ("longest_wait_p95" if untrained else "word_latency_p50")
    assert [gain.setting for gain in found.gains] == ["half=true", "idle=true", "worse=true"]
    gains = by_setting(found)
    half = gains["half=true"]
    assert (half.felt.verdict, half.lag_p95.verdict, half.lag_p50.verdict) == ("faster", "faster", "faster")
    assert half.lag_p50.value == pytest.approx(0.5, rel=0.05)
    assert half.felt.paired
    assert half.felt_s is not None
    assert half.felt_s < 0
    assert gains["worse=true"].felt.verdict == "slower"
    idle = gains["idle=true"]
    assert not {idle.felt.verdict, idle.lag_p95.verdict, idle.lag_p50.verdict} & {"faster", "slower"}
    assert all(gain.algorithmic_s == 0 for gain in found.gains)


@pytest.mark.soak
def test_nothing_is_claimed_more_often_than_the_level() -> None:
    """60 runs of five rounds with three settings that do nothing."""
    claims = 0
    for seed in range(60):
        settings = {f"idle={index}": {"seed": 4 * seed + index + 1} for index in range(3)}
        found = explained(explained_run(settings, base={"seed": 4 * seed}))
        verdicts = [v for gain in found.gains for v in (gain.felt, gain.lag_p95, gain.lag_p50)]
        claims += any(change.verdict in ("faster", "slower") for change in verdicts)
    assert scipy_stats.binomtest(claims, 60, 0.05, alternative="greater").pvalue > 0.001


def test_what_both_suffer_in_a_round_cancels() -> None:
    """Rounds differ by half, and both sides of a round suffer alike: 10 % are found in three rounds."""
    alike = {"seed": 7, "between": 0.5}
    found = explained(explained_run({"tenth=true": {**alike, "slowdown": -0.1}}, rounds=3, base=alike, untrained=True))
    lag = found.gains[0].lag_p50
    assert lag.value == pytest.approx(0.9, rel=1e-3)
    assert lag.verdict == "faster"


def test_one_round_gives_no_verdict() -> None:
    found = explained(explained_run({"half=true": {"slowdown": -0.5}}, rounds=1, untrained=True))
    gain = found.gains[0]
    assert {gain.felt.verdict, gain.lag_p95.verdict, gain.lag_p50.verdict} == {"undecided"}
    assert gain.felt.low is None
    assert "needs at least 2 rounds per side" in gain.felt.note


def test_the_word_error_rate_is_compared_where_there_are_words_and_training() -> None:
    settings = {"sloppy=true": {"slowdown": -0.5, "wrong": (4, 5, 4, 6, 4, 5)}}
    gain = explained(explained_run(settings)).gains[0]
    # 28 wrong words instead of 6, of 84.
    assert gain.wer.value == pytest.approx(22 / 84)
    assert gain.wer.verdict == "worse"
    untrained = explained(explained_run(settings, untrained=True)).gains[0]
    assert (untrained.wer.value, untrained.wer.note) == (None, "untrained")


def test_a_setting_that_crashes_or_is_not_here_is_left_out_with_the_reason() -> None:
    lost = [(index, utterance) for index in range(5) for utterance in range(6)]
    record = explained_run(
        {"crash=true": {"lost": lost}, "half=true": {"slowdown": -0.5}}, unavailable={"gpu=1": "none"}
    )
    found = explained(record)
    assert found.left_out == (
        LeftOut("crash=true", "crashed: signal 11", "failed"),
        LeftOut("gpu=1", "none", "unavailable"),
    )
    assert [gain.setting for gain in found.gains] == ["half=true"]


def writing(record: Record, setting: str, words: int) -> Record:
    """The run, in which the engine with a setting writes so many words in every stream."""
    for piece in record.pieces:
        if piece.key[0] == "stream" and piece.key[2] == f"{BASE}{setting}":
            *_, last = piece.data["trace"]["chunks"]
            last["text"] = [" ".join(["piece"] * words)]
    return record


def test_random_weights_that_write_at_another_rate_are_not_ranked(tmp_path: Path) -> None:
    settings = {"search=greedy": {"slowdown": -0.5}, "beam=5": {"slowdown": -0.3}}
    record = writing(explained_run(settings, untrained=True), "", 20)
    record = writing(writing(record, ",beam=5", 17), ",search=greedy", 3)
    found = explained(record)
    assert [gain.setting for gain in found.gains] == ["beam=5"]
    assert [(setting.setting, setting.code) for setting in found.left_out] == [("search=greedy", "other-rate")]
    assert found.words_per_s is not None
    assert found.gains[0].words_per_s == pytest.approx(17 / 20 * found.words_per_s)
    done = command("report", saved(record, tmp_path / "run.jsonl"))
    text = " ".join(done.stdout.split())
    assert f"not ranked: search=greedy: random weights write {3 / 20 * found.words_per_s:.1f} words a second" in text
    assert "of 2 settings tried, 1 shortens the wait: beam=5" in text
    assert "; 1 not ranked" in text
    printed = json.loads(command("report", tmp_path / "run.jsonl", "--json").stdout)["explanation"]
    assert [(item["setting"], item["code"]) for item in printed["left_out"]] == [("search=greedy", "other-rate")]


@pytest.mark.parametrize(("words", "ranks"), [(100, True), (119, True), (121, False), (81, True), (79, False)])
def test_rates_may_differ_by_a_fifth(words: int, ranks: bool) -> None:
    assert RATE_TOLERANCE == 0.2
    record = writing(writing(explained_run({"beam=1": {}}, rounds=1, untrained=True), "", 100), ",beam=1", words)
    assert bool(explained(record).gains) is ranks


def test_what_trained_weights_write_is_no_reason_not_to_rank() -> None:
    found = explained(writing(explained_run({"beam=1": {}}, rounds=1), ",beam=1", 0))
    assert [gain.setting for gain in found.gains] == ["beam=1"]
    assert (found.words_per_s, found.gains[0].words_per_s) == (None, None)


def test_an_algorithm_that_waits_less_is_a_gain_by_definition() -> None:
    record = explained_run({"lookahead=0": {}}, untrained=True)
    for piece in record.pieces:
        if piece.key[0] == "stream" and piece.key[2] == BASE:
            piece.data["trace"]["lookahead_s"] = 0.3
    gain = explained(record).gains[0]
    assert gain.algorithmic_s == pytest.approx(-0.3)
    assert gain.felt.verdict == "faster"
    assert gain.felt_s == pytest.approx(-0.3, abs=0.01)
    assert gain.lag_p50.verdict not in ("faster", "slower")


def test_a_tampered_run_is_told_in_a_line(tmp_path: Path) -> None:
    record = explained_run({"half=true": {}})
    record.header.spec["knobs"] = [{"setting": "a"}, {"other": 1}]
    done = command("report", saved(record, tmp_path / "run.jsonl"))
    assert done.code == 2
    assert "knobs.1.setting is missing" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_that_tried_no_settings_has_no_explanation() -> None:
    record = explained_run({"half=true": {}})
    record.header.spec["knobs"] = None
    assert stopwav.explanation(record) is None
    del record.header.spec["knobs"]
    assert stopwav.explanation(record) is None


def test_diff_says_untrained_as_well(tmp_path: Path) -> None:
    record = explained_run({"half=true": {}}, untrained=True)
    changes = {change.metric: change for change in stopwav.diff(record, record).items[0].changes}
    for metric in ("wer", "word_latency_p50", "committed_latency_p50"):
        assert (changes[metric].verdict, changes[metric].note) == ("undecided", "untrained")
    assert changes["chunk_lag_p50"].value == 1


def test_a_setting_takes_the_place_of_the_one_that_is_named() -> None:
    assert with_knob("e:m,beam=10,x=1", stopwav.Knob({"beam": 5})) == "e:m,beam=5,x=1"
    assert with_knob("e", stopwav.Knob({"compile": True, "dtype": "int8"})) == "e,compile=true,dtype=int8"


def test_the_settings_are_those_that_the_engine_offers(engine: str) -> None:
    head = engine.partition(",")[0]
    assert [(knob.setting, knob.engine, knob.unavailable) for knob in tried_knobs([engine])] == [
        ("finish_ms=0.25", f"{head},service_ms=8,finish_ms=0.25", ""),
        ("service_ms=1.0", f"{head},service_ms=1.0", ""),
        ("final=quantum", None, "no quantum computer here"),
    ]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Silent", "offers no settings to try: it has no variants()"),
        ("Content", "offers no other settings to try"),
        ("Wrong", "returned 'service_ms=1' where a Knob is expected"),
    ],
)
def test_an_engine_that_offers_nothing_is_told_in_a_line(engine: str, name: str, says: str) -> None:
    done = command("latency", engine.replace("Scripted,service_ms=8", name), "--explain")
    assert done.code == 2
    assert says in done.stderr
    assert done.stderr.strip().count("\n") == 0


def test_explain_takes_one_engine() -> None:
    done = command("latency", "fake", "fake", "--explain")
    assert (done.code, done.stdout) == (2, "")
    assert "--explain takes one engine, got 2" in done.stderr


def test_the_command_measures_prints_and_resumes(engine: str, tiny_corpus: MakeCorpus, tmp_path: Path) -> None:
    corpus = tiny_corpus(count=4, seconds=0.2)
    words = ("--words", corpus / "words.ctm")
    options = ("--corpus", corpus, *words, "--rounds", 2, "--save", tmp_path / "runs", "--explain", "--json")
    done = command("latency", engine, *options)
    assert done.code == 0, done.stderr
    printed = json.loads(done.stdout)
    assert [result["name"] for result in printed["results"]] == [
        engine,
        *(one.engine for one in tried_knobs([engine])[:2]),
    ]
    explanation = printed["explanation"]
    assert {gain["setting"] for gain in explanation["gains"]} == {"finish_ms=0.25", "service_ms=1.0"}
    assert explanation["left_out"] == [
        {"setting": "final=quantum", "reason": "no quantum computer here", "code": "unavailable"}
    ]
    quick = next(gain for gain in explanation["gains"] if gain["setting"] == "service_ms=1.0")
    # An eighth of the work, on a machine of whatever mood.
    assert quick["lag_p50"]["value"] < 1
    again = command("latency", engine, *options, "--resume")
    assert json.loads(again.stdout) == printed
    assert "measured before" in again.stderr
    report = command("report", printed["run"])
    assert "What would help" in report.stdout
    assert "not measured: final=quantum: no quantum computer here" in report.stdout


def test_a_plan_file_asks_for_it_too(engine: str, tiny_corpus: MakeCorpus, tmp_path: Path) -> None:
    corpus = tiny_corpus(count=1, seconds=0.2)
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        f"studies:\n  - latency:\n      engine: {engine}\n      explain: true\n      corpus: {corpus}\n"
        f"      words: {corpus / 'words.ctm'}\n      rounds: 1\n      save: {tmp_path / 'runs'}\n"
    )
    checked = command("run", "--check", plan)
    assert checked.code == 0, checked.stderr
    assert "offers to try: 2" in " ".join(checked.stdout.split())
    (ran,) = stopwav.run(plan)
    assert ran.record is not None, ran.error
    assert explained(ran.record).left_out == (LeftOut("final=quantum", "no quantum computer here", "unavailable"),)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """A run of one round of two utterances."""
    folder = tmp_path_factory.mktemp("explained")
    (folder / "scripted.py").write_text(SCRIPTED)
    engine = f"{folder / 'scripted.py'}:Scripted,service_ms=8"
    corpus = write_corpus(folder / "corpus", count=2, seconds=0.2)
    words = corpus / "words.ctm"
    return stopwav.latency([engine], explain=True, corpus=corpus, words=words, rounds=1, save=folder)


def test_a_resumed_run_continues_with_the_settings(whole: Record, tmp_path: Path) -> None:
    lines = whole.path.read_text().splitlines(keepends=True)
    cut = tmp_path / whole.path.name
    cut.write_text("".join(lines[:-3]))
    spec = whole.header.spec
    given = {"corpus": spec["corpus"], "words": spec["words"], "rounds": 1, "save": tmp_path}
    resumed = stopwav.latency(spec["engines"][:1], explain=True, resume=True, **given)
    assert resumed.path == cut
    assert resumed.complete
    assert {tuple(piece.key) for piece in resumed.pieces} >= {
        tuple(piece.key) for piece in whole.pieces if piece.key[0] == "stream"
    }


def test_the_order_alternates_so_that_no_setting_has_a_better_place(whole: Record) -> None:
    order = [str(piece.key[2]) for piece in whole.pieces if piece.key[0] == "stream"]
    assert order[:3] == list(reversed(order[3:]))
    assert len(set(order)) == 3


def test_a_saved_explanation_reads_the_same(tmp_path: Path) -> None:
    record = explained_run({"half=true": {"slowdown": -0.5}}, unavailable={"gpu=1": "none"})
    path = saved(record, tmp_path / "run.jsonl")
    assert explained(Record.read(path)) == explained(record)


def test_the_page_has_the_table() -> None:
    record = explained_run({"half=true": {"slowdown": -0.5}, "<b>=1": {}}, unavailable={"gpu=1": "none <i>here</i>"})
    html = page(study_run(record))
    assert "What would help engine</h3>" in html
    assert "<bdi>half=true</bdi>" in html
    assert "&lt;b&gt;=1" in html
    assert "not measured: gpu=1: none &lt;i&gt;here&lt;/i&gt;" in html
    assert "of 2 settings tried, 1 shortens the wait: half=true" in html
