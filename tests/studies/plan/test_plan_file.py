"""The plan file: what it asks for, how its levels override one another, and errors that name file, line and column."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopwav.cli import verb
from stopwav.errors import StopwavError
from stopwav.studies.plan.plan_file import PlannedRun, parse_override, planned_runs, read_plan
from stopwav.studies.plan.speechbrain_recipe import read_recipe
from stopwav.studies.plan.yaml_file import MAX_BYTES, parse_yaml, read_yaml
from stopwav.studies.spec import flag_of, setting_of
from stopwav.studies.study import find_study, study_names

# Of a study's verb, what says how to print and not what to measure: options of `stopwav run` itself.
PRINTING = {"json", "list", "all", "no-html", "quick", "scientific", "unfold", "labels", "print-texts"}

ENGINES = "studies:\n  - latency:\n      engines: [fake]\n"


def planned(text: str, *settings: str) -> list[PlannedRun]:
    return planned_runs(parse_yaml(text, "plan.yaml"), dict(map(parse_override, settings)))


def error(text: str, *settings: str) -> str:
    with pytest.raises(StopwavError) as raised:
        planned(text, *settings)
    said = str(raised.value)
    assert "\n" not in said
    return said


def test_shared_settings_give_way_to_a_studys_own_and_both_to_the_command_line() -> None:
    text = """
rounds: 5
seed: 7
save: runs
studies:
  - latency: {engines: [fake], rounds: 2}
  - latency: {engines: [pocketsphinx], corpus: recordings}
"""
    first, second = (run.arguments for run in planned(text))
    assert first == {"engines": ["fake"], "rounds": 2, "seed": 7, "save": Path("runs")}
    assert second == {
        "engines": ["pocketsphinx"],
        "rounds": 5,
        "seed": 7,
        "save": Path("runs"),
        "corpus": "recordings",
    }
    for run in planned(text, "rounds=1", "corpus='2024'"):
        assert run.arguments["rounds"] == 1
        assert run.arguments["corpus"] == "2024"


def test_keys_are_the_flags_names_or_the_parameters() -> None:
    for key in ("time-limit", "time_limit", "time_limit_s"):
        (run,) = planned(f"{key}: 1e1\n{ENGINES}")
        assert run.arguments["time_limit_s"] == 10.0
    (run,) = planned("studies: [{latency: {engine: fake, quick: yes}}]")
    assert run.arguments == {"engines": ["fake"], "budget_s": 60.0}
    (run,) = planned("studies: [{latency: {engine: fake, rounds: 4, quick: no}}]")
    assert run.arguments["rounds"] == 4


@pytest.mark.parametrize("text", ["1:30", "2024-01-01", "=", "1e", "e5", "0x", "nil"])
def test_what_yaml_takes_for_a_time_or_a_date_is_text_here(text: str) -> None:
    (run,) = planned(f"{ENGINES}      corpus: {text}")
    assert run.arguments["corpus"] == text


def test_a_list_of_numbers_may_be_written_as_its_flag_takes_it() -> None:
    wanted = {"engines": ["fake"], "durations": [1.0, 2.5], "batch_sizes": [4]}
    for text in ("durations: '1,2.5', batch-sizes: 4", "durations: [1, 2.5], batch_sizes: [4]"):
        (run,) = planned(f"studies: [{{grid: {{engine: fake, {text}}}}}]")
        assert run.arguments == wanted


@pytest.mark.parametrize("study", study_names())
def test_every_flag_of_a_studys_verb_is_a_key_and_every_key_a_flag(study: str) -> None:
    spec = find_study(study).spec
    parameters = verb(study).params
    flags = {
        next((name for name in parameter.opts if name.startswith("--")), parameter.name).removeprefix("--")
        for parameter in parameters
    }
    keys = {flag_of(setting) for setting in spec.options()}
    assert keys <= flags
    assert flags - keys <= PRINTING
    # Every default in the file is the command line's; of a list it is written as the flag takes it.
    for parameter in parameters:
        name = setting_of(spec, parameter.name or "")
        default = spec.model_fields[name].default if name else None
        if default is not None and name and not spec.model_fields[name].is_required() and parameter.default is not None:
            written = ",".join(f"{item:g}" for item in default) if isinstance(default, list) else str(default)
            assert str(parameter.default) == written, name


def test_an_engine_matrix_of_one_study_is_one_run_in_which_the_engines_take_turns() -> None:
    text = """
studies:
  - latency:
      matrix:
        beam: [1, 5, 10]
        dtype: [float32, int8]
        exclude: [{beam: 10, dtype: int8}]
        include: [{beam: 20, dtype: float32}]
      engine: "emformer-rnnt,beam={beam},dtype={dtype}"
"""
    (run,) = planned(text)
    pairs = [(1, "float32"), (1, "int8"), (5, "float32"), (5, "int8"), (10, "float32"), (20, "float32")]
    assert run.arguments["engines"] == [f"emformer-rnnt,beam={beam},dtype={dtype}" for beam, dtype in pairs]


def test_a_matrix_over_anything_else_is_a_run_each() -> None:
    text = """
studies:
  - latency:
      matrix: {pace: [virtual, real], chunk: [100, 200]}
      engines: [fake, pocketsphinx]
      chunk-ms: "{chunk}"
"""
    found = [(run.arguments["pace"], run.arguments["chunk_ms"]) for run in planned(text)]
    assert found == [("virtual", 100.0), ("virtual", 200.0), ("real", 100.0), ("real", 200.0)]
    text = "studies: [{grid: {matrix: {beam: [1, 2]}, engine: 'fake,beam={beam}'}}]"
    assert [run.arguments["engines"] for run in planned(text)] == [["fake,beam=1", "fake,beam=2"]]


LATENCY = "studies:\n  - latency:\n      engines: [fake]\n      "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"ronds: 3\n{ENGINES}", "plan.yaml:1:1: unknown key 'ronds', which no study of this file takes; did you mean"),
        (f"{LATENCY}ronds: 3", "plan.yaml:4:7: unknown key 'ronds' of latency; did you mean 'rounds'?"),
        (f"{LATENCY}durations: [1]", "plan.yaml:4:7: unknown key 'durations' of latency"),
        (f"durations: [1]\n{ENGINES}", "plan.yaml:1:1: unknown key 'durations', which no study of this file takes"),
        (f"plan: {{}}\n{ENGINES}", "plan.yaml:1:1: unknown key 'plan'"),
        (f"{LATENCY}rounds: three", "plan.yaml:4:15: rounds should be a valid integer, not 'three'"),
        (f"{LATENCY}rounds: '3'", "plan.yaml:4:15: rounds should be a valid integer, not '3'"),
        (f"{LATENCY}rounds: true", "plan.yaml:4:15: rounds should be a valid integer, not True"),
        (f"{LATENCY}rounds: 0", "plan.yaml:4:15: rounds should be greater than 0, not 0"),
        (f"{LATENCY}corpus: 2024", "plan.yaml:4:15: corpus should be a valid string, not 2024; put it in quotes"),
        (f"{LATENCY}corpus: {{a: b}}", "plan.yaml:4:15: corpus should be a valid string, not a mapping"),
        (f"{LATENCY}pace: fast", "plan.yaml:4:13: pace should be 'virtual', 'real' or 'idle', not 'fast'"),
        (f"{LATENCY}quick: 1", "plan.yaml:4:14: quick should be true or false, not 1"),
        (f"{LATENCY}time-limit: 5\n      time_limit: 6", "plan.yaml:5:7: 'time_limit' is the same as the key at plan"),
        (f"{LATENCY}seed: 1\n      seed: 2", "plan.yaml:5:7: key 'seed' appears a second time; the first is at pl"),
        ("studies: [{latency: {engines: [fake, 3]}}]", "plan.yaml:1:38: engines should be a valid string, not 3"),
        ("studies: [{loss: {batch-size: [2, 0]}}]", "plan.yaml:1:31: batch-size [2, 0]: each must be 1 or more"),
        ("studies: [{loss: {batch-size: 2, max-frames: 9}}]", "plan.yaml:1:12: --max-frames and --batch-size: give"),
        ("studies: [{latency: {engines: []}}]", "plan.yaml:1:31: engines"),
        ("studies: [{latency: {corpus: bundled}}]", "plan.yaml:1:12: latency needs 'engines', which is not there"),
        ("studies:\n  - latency:", "plan.yaml:2:5: latency needs 'engines'"),
        ("studies: [{latncy: {}}]", "plan.yaml:1:12: unknown study 'latncy'; did you mean 'latency'?"),
        ("studies: [latency]", "plan.yaml:1:11: an item of studies must be a mapping"),
        ("studies: [{latency: {}, grid: {}}]", "plan.yaml:1:11: an item of studies names one study"),
        ("studies: {latency: {}}", "plan.yaml:1:10: studies must be a list"),
        ("studies: []", "plan.yaml:1:10: studies is empty"),
        ("study: []", "plan.yaml:1:1: no `studies`, the list of what to run; rename 'study'?"),
        ("- latency", "plan.yaml:1:1: the file must be a mapping"),
        ("just words", "plan.yaml:1:1: the file must be a mapping"),
        (f"{ENGINES}  - latency: {{engine: fake, corpus: bundled}}",
         "plan.yaml:4:5: asks for the same run as plan.yaml:2:5"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(text: str, said: str) -> None:
    assert error(text).startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("matrix: {beam: [1]}", "plan.yaml:4:16: matrix beam is used nowhere; write {beam} in a setting"),
        ("matrix: {beam: [1]}\n      corpus: '{baem}{beam}'", "plan.yaml:5:15: {baem} is not in the matrix, which ha"),
        ("matrix: {seed: []}", "plan.yaml:4:22: matrix seed has no values"),
        ("matrix: {seed: 1}", "plan.yaml:4:22: matrix seed must be a list"),
        ("matrix: {seed: [1, 1]}", "plan.yaml:4:26: matrix seed has 1 twice"),
        ("matrix: {seed: [[1]]}", "plan.yaml:4:23: a value of matrix seed must be text or a number, not a list"),
        ("matrix: {}", "plan.yaml:4:15: matrix is empty"),
        ("matrix: {seed: [1], exclude: [{seed: 1}]}", "plan.yaml:4:15: matrix excludes every combination"),
        ("matrix: {seed: [1], exclude: [{seed: 2}]}", "plan.yaml:4:44: exclude: seed is never 2 in the matrix"),
        ("matrix: {seed: [1], exclude: [{sede: 2}]}", "plan.yaml:4:38: exclude: the matrix has no 'sede', but seed"),
        (
            "matrix: {seed: [1], rounds: [2], include: [{seed: 2}]}",
            "plan.yaml:4:50: include: a combination must have a value for rounds too",
        ),
        ("matrix: {'a b': [1]}", "plan.yaml:4:16: matrix name 'a b' must be letters"),
        (
            f"matrix: {{seed: {list(range(40))}, limit: {list(range(40))}}}",
            "plan.yaml:4:15: matrix has 1600 combinations, more than 1000",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_matrix_is_named_with_its_place(text: str, said: str) -> None:
    assert error(LATENCY + text).startswith(said)


def test_what_is_wrong_on_the_command_line_is_named_as_such() -> None:
    assert error(ENGINES, "ronds=1").startswith("--set ronds: unknown key 'ronds'")
    assert error(ENGINES, "rounds=x") == "--set rounds: rounds should be a valid integer, not 'x'"
    assert error(ENGINES, "rounds=[1") != ""
    assert error(ENGINES, "rounds") == "--set 'rounds': write KEY=VALUE, such as --set limit=5"
    grid = "studies: [{grid: {engine: fake}}]"
    assert error(grid, "durations=1,x") == "--set durations: durations should be a valid number, not 'x'"


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        ("!!python/object/apply:os.system ['touch gone']", "!!python/object/apply:os.system"),
        ("!!python/name:os.system", "!!python/name:os.system"),
        ("!new:os.system [x]", "!new:os.system"),
        ("!apply:os.system {a: b}", "!apply:os.system"),
        ("!ref <seed>", "!ref"),
        ("!!binary aGk=", "!!binary"),
        ("!!set {a, b}", "!!set"),
    ],
)
def test_tags_are_refused_by_name_and_never_executed(value: str, tag: str, tmp_path: Path) -> None:
    said = error(f"{LATENCY}corpus: {value}")
    assert said == f"plan.yaml:4:15: tag {tag!r} is refused: the file is data, nothing in it is executed"
    assert not Path("gone").exists()


def test_aliases_are_data_and_kept_bounded() -> None:
    (run,) = planned("studies: [{latency: {engines: &e [fake]}}]")
    assert run.arguments["engines"] == ["fake"]
    laughs = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert "more than 10000 values, aliases written out" in error(laughs + ENGINES)
    assert "nested more than 20 deep" in error(f"{LATENCY}corpus: &a [*a]")
    assert "nested more than 20 deep" in error("[" * 5000)
    assert "merge keys (<<) are not read" in error(f"a: &a {{seed: 1}}\nb: {{<<: *a}}\n{ENGINES}")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", ": is empty; `stopwav init` writes one"),
        (b"# nothing but words\n", ": is empty"),
        (b"studies:\n\t- latency: {}\n", ":2:1: found character '\\t' that cannot start any token; indent with spaces"),
        (b"save: a\nwords: caf\xe9\n", ":2: not UTF-8 (byte 0xe9); save it as UTF-8"),
        (b"save: a\nwords: x\x07\n", ":2: character 0x07 is not allowed in YAML"),
        (b"studies: [\n", ":2:1: "),
        (b"a: 1\n---\nb: 2\n", ":2:1: a second document begins (`---`); write each into"),
        (b"save: .inf\n", ":1:7: '.inf' is not a number that can be used"),
        (b'save: "\\ud800"\n', ":1:7: '\\ud800' is half a character"),
        (b"1: x\n", ":1:1: a key must be text"),
        (b"? [a]\n: x\n", ":1:3: a key must be text"),
        (b"save: !!int x\n", ":1:7: 'x' cannot be read as int"),
        (b"#" * (MAX_BYTES + 1), f": {MAX_BYTES + 1} bytes"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_bytes(content)
    with pytest.raises(StopwavError) as raised:
        read_plan(path)
    assert str(raised.value).startswith(f"{path}{said}")
    assert "\n" not in str(raised.value)


def test_a_byte_order_mark_and_windows_line_ends_are_fine_and_a_missing_file_is_not(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + ENGINES.replace("\n", "\r\n").encode())
    assert [run.study for run in read_plan(path, {"rounds": 2})] == ["latency"]
    with pytest.raises(StopwavError, match=r"nowhere\.yaml: cannot be read: No such file"):
        read_yaml(Path("nowhere.yaml"))


def test_the_files_of_the_guide_are_right(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "guides" / "run-from-a-file.md").read_text()
    blocks = [block.partition("```")[0] for block in guide.split("```yaml\n")[1:]]
    *plans, recipe = blocks
    counts = [len(planned(text)) for text in plans]
    assert counts == [2, 3]
    (tmp_path / "profile.yaml").write_text(recipe.replace("../../samples/audio_samples/example2.flac", "None"))
    assert read_recipe(tmp_path / "profile.yaml")["batch_sizes"] == [1, 4, 8]


@given(st.text())
def test_any_text_is_a_plan_or_an_error_in_one_line(text: str) -> None:
    for content in (text, LATENCY + text, f"{LATENCY}corpus: {text}"):
        said = ""
        try:
            assert planned(content)
        except StopwavError as error:
            said = str(error)
        assert len(said.splitlines()) <= 1


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_any_escaped_text_comes_back_as_it_is(text: str) -> None:
    escaped = "".join(f"\\U{ord(char):08x}" for char in text)
    assert parse_yaml(f'"{escaped}"', "text").value == text
