"""Comparisons of engines whose times and sizes are known, and settings that are refused."""

import json
import re
import shutil
from pathlib import Path

import pytest
from command_line import command
from compare_runs import FAST, made_up, run, torch_engine
from metered import unmetered_runner

import stopwav
from stopwav import StopwavError
from stopwav.measure import meter_log
from stopwav.record import Record, Result
from stopwav.speech.corpus import bundled_corpus
from stopwav.studies.compare import passes
from stopwav.studies.compare.run import draw_inputs
from stopwav.studies.compare.spec import CompareSpec, round_inputs

SLOW, QUICK = "fake,batch_ms=10,second_ms=40", "fake,batch_ms=5,second_ms=20"


def of_kind(record: Record, kind: str) -> list[Result]:
    return [result for result in stopwav.results(record) if result.kind == kind]


def test_scripted_times_come_back_at_every_length_and_over_the_inputs(tmp_path: Path) -> None:
    record = run([SLOW, QUICK], tmp_path, frames=[20, 50, 80], samples=3)
    for result in of_kind(record, "length"):
        batch_ms, second_ms = (10, 40) if result.params["of"] == SLOW else (5, 20)
        expected_s = (batch_ms + second_ms * result.params["audio_s"]) / 1e3  # type: ignore[operator]
        latency = result.metrics["latency"].value
        # Never shorter than the script; longer where the machine is busy with something else.
        assert latency is not None
        assert expected_s <= latency < 50 * expected_s
        assert result.metrics["rtf"].value == pytest.approx(latency / result.params["audio_s"])  # type: ignore[operator]
        assert result.metrics["multiply_adds"].note == "not counted: not a torch model"
        assert "energy_per_utterance_gross" not in result.metrics
    for engine in of_kind(record, "engine"):
        seconds = 3 * engine.metrics["latency_mean"].value  # type: ignore[operator]
        assert engine.metrics["rtf"].value == pytest.approx(seconds / engine.params["audio_s"])
        assert engine.metrics["wer"].value == 1.0  # it writes nothing
        assert engine.metrics["latency_p95"].value is None
        assert engine.metrics["latency_p95"].note == "needs 72 events, has 3"
        assert engine.metrics["parameters"].note == "unknown: the engine reports no parameter count"
        assert engine.params["engine"]["name"] == "fake"  # type: ignore[index]
    fits = of_kind(record, "fit")
    assert [(fit.params["kind"], fit.params["of"]) for fit in fits] == [("law", SLOW), ("law", QUICK)]


def test_a_torch_engine_has_parameters_operations_and_tokens(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    tied = torch_engine(tmp_path)
    record = run([tied, "fake"], tmp_path, frames=[20])
    one, other = of_kind(record, "engine")
    # 160 · 8 + 8 · 8 + 8, and one table of 5 · 8 that the output shares with the embedding.
    assert one.metrics["parameters"].value == 1280 + 72 + 40
    assert one.metrics["trainable_parameters"].value == 1280 + 72
    assert one.metrics["parameter_bytes"].value == 4 * 1392
    assert one.params["shared"] == [{"names": ["embedding.weight", "output.weight"], "parameters": 40}]
    assert one.metrics["parameters"].note == "counted once: embedding.weight = output.weight"
    # Random weights have times and no word errors.
    assert (one.metrics["wer"].value, one.metrics["wer"].note) == (None, "untrained")
    assert other.metrics["wer"].value == 1.0
    (twenty,) = (length for length in of_kind(record, "length") if length.params["of"] == tied)
    assert twenty.metrics["multiply_adds"].value == 20 * (1280 + 64 + 40)
    assert twenty.params["modules"] == {"encoder": 20 * (1280 + 64), "output": 20 * 40}
    rate = twenty.metrics["operations_per_s"]
    assert rate.value == pytest.approx(2 * 20 * 1384 / twenty.metrics["latency"].value)  # type: ignore[operator]
    assert twenty.metrics["emitted_tokens"].value == 20
    # A token a frame, over two samples.
    assert one.metrics["emitted_tokens"].value == pytest.approx(50 * one.params["audio_s"], abs=1)  # type: ignore[operator]
    card = stopwav.card(record)
    assert card.pareto.left_out == ((tied, "untrained"),)
    printed = command("report", record.path, "--all").stdout
    assert "shared, counted once: embedding.weight = output.weight" in printed
    assert "untrained" in printed


def test_engines_alternate_and_the_inputs_are_divided_among_the_rounds(tmp_path: Path) -> None:
    record = run(["fake", "fake"], tmp_path, frames=[10, 20], samples=5, rounds=2)
    assert [engine.name for engine in of_kind(record, "engine")] == ["fake", "fake#2"]
    samples = [piece.key for piece in record.pieces if piece.key[0] == "sample"]
    assert [(key[1], key[3], key[2]) for key in samples] == [
        (0, 0, "fake"), (0, 0, "fake#2"), (0, 2, "fake#2"), (0, 2, "fake"), (0, 4, "fake"), (0, 4, "fake#2"),
        (1, 1, "fake#2"), (1, 1, "fake"), (1, 3, "fake"), (1, 3, "fake#2"),
    ]  # fmt: skip
    lengths = [piece.key for piece in record.pieces if piece.key[0] == "length"]
    assert len(lengths) == 8
    corpus = record.header.corpus
    assert [utterance["id"] for utterance in corpus["utterances"]] == corpus["inputs"]
    # The digest is of the whole corpus, however few inputs are drawn.
    assert corpus["digest"] == bundled_corpus().digest
    for frames in (10, 20):
        assert [key[2] for key in lengths if key[3] == frames] == ["fake", "fake#2", "fake#2", "fake"]
    assert all(lengths[index][3] == lengths[index + 1][3] for index in range(0, 8, 2))


def test_inputs_are_drawn_from_the_whole_corpus_and_again_where_it_has_fewer(tmp_path: Path) -> None:
    corpus = bundled_corpus().utterances
    inputs = draw_inputs(corpus, 100, 0)
    assert len(inputs) == 100
    assert set(inputs[:24]) == set(corpus) == set(inputs[24:48])
    assert inputs[:24] != inputs[24:48]
    assert draw_inputs(corpus, 100, 0) == inputs != draw_inputs(corpus, 100, 1)
    spec = CompareSpec(engines=["fake"], samples=10, rounds=3)
    assert sorted(place for index in range(3) for place in round_inputs(spec, index)) == list(range(10))


def test_few_utterances_and_other_languages_are_warnings(tmp_path: Path, tiny_corpus) -> None:  # type: ignore[no-untyped-def]
    engine = tmp_path / "speaks.py"
    engine.write_text(
        "from stopwav import EngineInfo\n"
        "class Speaks:\n"
        "    def __init__(self, language='en', sample_rate=16000):\n"
        "        self.info = EngineInfo(name='s', version='1', language=language, sample_rate_hz=sample_rate)\n"
        "    def transcribe(self, batch):\n"
        "        assert batch[0].sample_rate_hz == self.info.sample_rate_hz\n"
        "        return ['red fox']\n"
    )
    names = [f"{engine}:Speaks", f"{engine}:Speaks,language=de,sample_rate=8000"]
    record = run(names, tmp_path, corpus=str(tiny_corpus(count=2)), samples=4)
    first, second = of_kind(record, "engine")
    codes = {warning.code: warning.message for warning in first.warnings}
    assert "4 samples of 2 different utterances: each is used 2 times or more" in codes["samples-repeat"]
    assert "different languages" in codes["languages"]
    # Another sample rate is no error.
    assert (first.metrics["wer"].value, second.metrics["wer"].value) == (0.0, 0.0)


def test_a_length_that_fails_is_recorded_and_the_others_stand(tmp_path: Path) -> None:
    engine = tmp_path / "short.py"
    engine.write_text(
        "from stopwav import EngineInfo, StopwavError\n"
        "class Short:\n"
        "    info = EngineInfo(name='short', version='1')\n"
        "    def transcribe(self, batch):\n"
        "        if batch[0].duration_s == 0.3:\n"
        "            raise StopwavError('30 frames are longer than this model allows (20)')\n"
        "        return ['']\n"
    )
    record = run([f"{engine}:Short", "fake"], tmp_path, frames=[10, 30], rounds=2)
    rounds = {(str(piece.key[2]), piece.key[1]): piece for piece in record.pieces if piece.key[3:] == [30, 0]}
    assert [rounds[f"{engine}:Short", index].status for index in (0, 1)] == ["error", "skipped"]
    assert rounds[f"{engine}:Short", 1].message.startswith("not tried again after round 0: ")
    assert [rounds["fake", index].status for index in (0, 1)] == ["ok", "ok"]
    lengths = {(result.params["of"], result.params["frames"]): result for result in of_kind(record, "length")}
    failed = lengths.pop((f"{engine}:Short", 30))
    assert failed.status == "error"
    assert failed.warnings[0].code == "cell-error"
    assert "longer than this model allows" in failed.warnings[0].message
    assert {result.status for result in lengths.values()} == {"ok"}
    done = command("report", record.path)
    assert done.code == 1
    assert "error" in done.stdout


def test_an_engine_that_never_loads_leaves_the_other_one(tmp_path: Path) -> None:
    engine = tmp_path / "broken.py"
    engine.write_text(
        "from stopwav import EngineInfo\n"
        "class Broken:\n"
        "    info = EngineInfo(name='broken', version='1')\n"
        "    def __init__(self): raise OSError('no model file')\n"
        "    def transcribe(self, batch): return ['']\n"
    )
    record = run([f"{engine}:Broken", "fake"], tmp_path)
    broken, good = of_kind(record, "engine")
    assert (broken.status, good.status) == ("error", "ok")
    (message,) = (warning.message for warning in broken.warnings if "no model file" in warning.message)
    assert message.startswith("the engine did not load: ")
    # An engine that does not load to be described is not tried again.
    assert sum(f"{engine}:Broken" in piece.key for piece in record.pieces) == 1
    assert {result.status for result in of_kind(record, "length") if result.params["of"] != "fake"} == {"error"}
    done = command("report", record.path)
    assert done.code == 1
    assert "no model file" in done.stdout
    assert command("report", record.path, "--markdown").code == 1


def test_one_engine_alone_has_a_card_without_verdicts(tmp_path: Path) -> None:
    record = made_up(tmp_path, lambda *_: 0.1, engines=["fake"], frames=[10], rounds=1)
    card = stopwav.card(record)
    assert (card.verdicts, card.by_length) == ((), ())
    assert "Verdicts" not in command("report", record.path).stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engines": ["fkae"]}, "did you mean 'fake'"),
        ({"engines": []}, "--engines"),
        ({"frames": [0]}, "--frames"),
        ({"frames": []}, "--frames"),
        ({"samples": 0}, "--samples"),
        ({"rounds": 0}, "--rounds"),
        ({"corpus": "nowhere"}, "nowhere"),
        ({"expect": ["nonsense"]}, "'nonsense': not a hypothesis; write ENGINE RELATION ENGINE"),
        ({"expect": ["fake faster vosk"]}, "'vosk' is not an engine of this run; there are fake, fake,batch_ms=1"),
        ({"expect": ["fake faster fake"]}, "with itself"),
        ({"expect": ["fake faster fake,batch_ms=1 at 7 frames"]}, "not known at 7 frames"),
        ({"expect": ["fake smaller fake,batch_ms=1 at 10 frames"]}, "not known at 10 frames"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_measured(
    options: dict[str, object], message: str, tmp_path: Path
) -> None:
    given = {"engines": ["fake", "fake,batch_ms=1"], "frames": [10], "plan": FAST, **options}
    with pytest.raises(StopwavError) as error:
        stopwav.compare(save=tmp_path, **given)  # type: ignore[arg-type]
    assert message in str(error.value)
    assert not list(tmp_path.glob("*.jsonl"))


def test_a_meter_log_in_no_folder_is_refused_and_one_that_never_came_is_the_reason_for_no_energy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "EngineRunner", unmetered_runner)
    with pytest.raises(StopwavError, match="there is no folder"):
        run(["fake"], tmp_path, meter_csv=tmp_path / "nowhere" / "meter.csv")
    monkeypatch.setattr(meter_log, "MIN_WAIT_S", 0.1)
    record = run(["fake"], tmp_path, meter_csv=tmp_path / "meter.csv", energy_time_s=0.1, rounds=1)
    (engine,) = of_kind(record, "engine")
    energy = engine.metrics["energy_per_audio_s_gross"]
    assert (energy.value, energy.code) == (None, "no-meter")
    assert energy.note.startswith("no meter: ")
    assert "meter.csv" in energy.note


def test_a_meter_log_of_another_unit_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "meter.csv").write_text("timestamp,power_mW\n1,2\n2,2\n")
    with pytest.raises(StopwavError, match="no column in watts"):
        run(["fake"], tmp_path, meter_csv=tmp_path / "meter.csv")
    assert not list(tmp_path.glob("*.jsonl"))


def test_json_follows_the_form_of_every_study(tmp_path: Path) -> None:
    engines, expected = ["fake", SLOW], [f"{SLOW} slower than fake"]
    record = made_up(tmp_path, lambda *_: 0.1, engines=engines, frames=[10], rounds=1, expect=expected)
    printed = json.loads(command("report", record.path, "--json").stdout)
    assert printed["study"] == "compare"
    assert {result["params"]["kind"] for result in printed["results"]} == {"engine", "length"}
    assert set(printed["results"][0]["metrics"]["rtf"]) == {"value", "low", "high", "n", "unit", "note", "rough"}
    card = printed["card"]
    assert set(card) == {"engines", "verdicts", "by_length", "pareto", "expectations"}
    assert {(verdict["of"], verdict["against"], verdict["metric"]) for verdict in card["verdicts"]} == {
        (SLOW, "fake", metric) for metric in ("parameters", "latency_mean", "wer")
    }
    # One round per engine gives no verdict.
    assert [expectation["judgement"] for expectation in card["expectations"]] == ["undecided"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """A comparison of an engine with itself."""
    return run(["fake", "fake"], tmp_path_factory.mktemp("finished"))


def unfinished(record: Record, folder: Path, old: str, new: str) -> None:
    """Write a copy of the run that was killed before its end, with its first old text replaced."""
    lines = record.path.read_text().splitlines(keepends=True)[:-1]
    place = next(number for number, line in enumerate(lines) if old in line)
    lines[place] = lines[place].replace(old, new)
    (folder / record.path.name).write_text("".join(lines))


def test_a_run_killed_before_a_throttled_round_was_repeated_repeats_it(finished: Record, tmp_path: Path) -> None:
    unfinished(finished, tmp_path, '"throttled":false', '"throttled":true')
    record = run(["fake", "fake"], tmp_path, resume=True)
    assert record.path == tmp_path / finished.path.name
    assert record.complete
    added = [piece.key for piece in record.pieces[len(finished.pieces) :]]
    # The other engine has nothing to repeat, and is not loaded.
    assert added == [["load", 0, "fake", 1], ["length", 0, "fake", 10, 1]]


def test_a_run_that_was_tampered_with_is_not_resumed(finished: Record, tmp_path: Path) -> None:
    unfinished(finished, tmp_path, '"samples":{"first_s"', '"samples":{"frist_s"')
    with pytest.raises(StopwavError, match=r"samples.first_s is missing; .*without --resume"):
        run(["fake", "fake"], tmp_path, resume=True)


def test_a_plan_file_can_name_it_and_has_a_forecast(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "studies:\n  - compare:\n      engines: [fake, pocketsphinx]\n      frames: 100,200\n      rounds: 1\n"
    )
    checked = command("run", "--check", plan)
    assert checked.code == 0
    assert "1. compare, about" in checked.stdout
    assert "inputs of 1, 2 s, rounds: 1; samples: 100" in checked.stdout
    assert "RTF 1 and 3 s of loading assumed for fake, pocketsphinx" in checked.stdout
    assert command("init", "compare", tmp_path / "compare.yaml").code == 0
    assert command("run", "--check", tmp_path / "compare.yaml").code == 0


def test_two_real_recognisers_are_compared(tmp_path: Path) -> None:
    pytest.importorskip("moonshine_voice")
    pytest.importorskip("pocketsphinx")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    shortest = sorted(bundled_corpus().utterances, key=lambda utterance: utterance.words[-1].end_s)[:3]
    for utterance in shortest:
        shutil.copy(utterance.path, corpus)
    (corpus / "transcripts.txt").write_text(
        "".join(f"{utterance.path.stem} {utterance.text}\n" for utterance in shortest)
    )
    record = run(["pocketsphinx", "moonshine"], tmp_path, corpus=corpus, frames=[100], samples=3)
    sphinx, moonshine = of_kind(record, "engine")
    for engine in (sphinx, moonshine):
        assert engine.status == "ok"
        assert 0 <= engine.metrics["wer"].value <= 1  # type: ignore[operator]
        assert engine.metrics["latency_mean"].value > 0  # type: ignore[operator]
    assert not any(warning.code == "languages" for warning in sphinx.warnings)
    printed = command("report", record.path).stdout
    assert "A  pocketsphinx" in printed
    assert "WER, %" in printed
    assert "Pareto front in WER, RTF" in printed


def test_the_run_file_is_as_described(tmp_path: Path) -> None:
    described = (Path(__file__).parents[3] / "docs" / "reference" / "run-file.md").read_text()

    def keys(kind: str) -> set[str]:
        section = described.partition(f"### {kind}\n")[2].partition("\n#")[0]
        return set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))

    record = run(["fake"], tmp_path, energy=True)
    assert set(record.header.spec) == keys("spec of `compare`")
    for piece in record.pieces:
        kind = str(piece.key[0])
        extra = keys("cell") if kind == "length" else {"reason"} if kind == "operations" else set()
        missing = {"modules"} if kind == "operations" else set()
        if kind != "load":
            assert set(piece.data) == (keys(kind) | extra) - missing
