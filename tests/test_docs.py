"""The documentation is true: generated pages are fresh, links lead somewhere, commands and code parse."""

import inspect
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

import stopwav
from stopwav.cli import app, verb
from stopwav.record import Record
from stopwav.studies.latency.definitions import DEFINITIONS
from stopwav.studies.study import LISTED, find_study, study_names

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
PAGES = sorted(
    [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md"), *(ROOT / "src").rglob("*.md")]
)

MakeCorpus = Callable[..., Path]

by_page = pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


@cache
def commands() -> dict[str, Any]:
    """The verbs by name, without those of other packages' studies."""
    foreign = set(study_names()) - set(LISTED)
    group: Any = typer.main.get_command(app)
    names = group.list_commands(None)
    verbs = {name: verb(name) for name in names if name not in foreign}
    below = {
        f"{name} {other}": command
        for name, group in verbs.items()
        for other, command in getattr(group, "commands", {}).items()
    }
    return {**verbs, **below}


def blocks(text: str, *languages: str) -> Iterator[str]:
    """The fenced blocks of a page in the languages."""
    for language, body in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if language in languages:
            yield body


def prose(text: str) -> str:
    """The page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(path: Path) -> set[str]:
    """The names under which the headings of a page can be linked, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def command_lines(text: str) -> Iterator[list[str]]:
    """The `stopwav` commands of a page's shell blocks, split into words."""
    for block in blocks(text, "console", "bash", "sh", "shell"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True)
            if words and Path(words[0]).name == "stopwav":
                ends = [index for index, word in enumerate(words) if word in ("|", ">", "2>", "&&", ";")]
                yield words[1 : ends[0] if ends else None]


def test_the_reference_is_fresh(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "make_reference.py", tmp_path], check=True, capture_output=True)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in REFERENCE.iterdir()}
    for made in tmp_path.iterdir():
        assert made.read_text() == (REFERENCE / made.name).read_text(), f"{made.name} is stale: run `make docs`"


def test_every_verb_and_option_is_documented_and_says_what_it_does() -> None:
    page = (REFERENCE / "cli.md").read_text()
    for name, command in commands().items():
        assert f"## stopwav {name}\n" in page
        section = page.partition(f"## stopwav {name}\n")[2].partition("\n## ")[0]
        assert command.help.strip() in section
        for parameter in command.params:
            if getattr(parameter, "hidden", False):
                continue
            assert parameter.help, f"{name} {parameter.name} has no help"
            assert parameter.help.replace("|", "\\|") in section
            # Behind the first come old names, which are understood and not listed, and short ones.
            if parameter.opts[0].startswith("-"):
                assert f"`{parameter.opts[0]}`" in section


def test_every_public_name_is_documented() -> None:
    page = (REFERENCE / "python.md").read_text().replace("\\_", "_")
    for name in stopwav.__all__:
        assert f"### stopwav.{name}\n" in page
        value = getattr(stopwav, name)
        assert not callable(value) or value.__doc__


@pytest.fixture
def fake_run(tiny_corpus: MakeCorpus, tmp_path: Path) -> Record:
    """A run of an engine that marks nested stages and stages of its own, and of the scripted one."""
    engine = tmp_path / "nested.py"
    engine.write_text(
        "from stopwav import EngineInfo, Hypothesis, stage\n"
        "class Nested:\n"
        "    info = EngineInfo(name='nested', version='1')\n"
        "    def open(self): return self\n"
        "    def push(self, samples):\n"
        "        with stage('inference'), stage('search'): pass\n"
        "        with stage('vad'): return [Hypothesis('one')]\n"
        "    def finish(self): return [Hypothesis('one two')]\n"
    )
    corpus = tiny_corpus(count=8)
    engines = ["fake", f"{engine}:Nested"]
    return stopwav.latency(engines, corpus=str(corpus), words=str(corpus / "words.ctm"), rounds=1, save=tmp_path)


def test_every_metric_of_a_run_has_a_definition_with_its_unit(fake_run: Record) -> None:
    page = (REFERENCE / "metrics.md").read_text()
    listed = {name for group in DEFINITIONS.groups.values() for name in group}
    families = set()
    for result in stopwav.results(fake_run):
        for name, estimate in result.metrics.items():
            definition = DEFINITIONS.find(name)
            assert definition is not None, name
            assert definition.unit == estimate.unit, name
            family = re.sub(r"_p\d\d$", "", name)
            families.add(family)
            if family not in ("inference_search", "stage_vad"):
                assert family in listed, f"{name} is a metric of ours without a definition"
                assert f"| `{family}{'_pNN' if definition.percentiles else ''}` |" in page
    # And none is defined that no run has: these engines do not mark the other stages, and are no servers.
    assert listed - families == {"features", "copy", "post", "send_lateness", "network"}


@pytest.mark.parametrize(
    ("engine", "guide"),
    [("emformer-rnnt", "emformer-rnnt"), ("conformer-hybrid", "hybrid-models"), ("lstm-hybrid", "hybrid-models")],
)
def test_every_option_of_our_own_models_is_documented_with_its_default(engine: str, guide: str) -> None:
    pytest.importorskip("torch")
    from stopwav.engines.registry import find_class, parse_spec

    page = (DOCS / "guides" / f"{guide}.md").read_text()
    rows = dict(
        re.findall(r"^\| `(\w+)` \| (.*?) ?\|", page.partition("## Options")[2].partition("\n## ")[0], re.MULTILINE)
    )
    for name, parameter in inspect.signature(find_class(parse_spec(engine))).parameters.items():
        if name != "source":
            written = str(parameter.default).lower() if isinstance(parameter.default, bool) else str(parameter.default)
            assert name in rows
            assert parameter.default is None or rows[name] == f"`{written}`", name


def test_a_definition_is_for_a_metric_as_it_is_named() -> None:
    known = DEFINITIONS.find("word_latency_p95")
    assert known is not None
    assert known.title == "word latency (UPL), P95"
    for unknown in ("word_latency", "word_latency_p5", "wird_latency_p50", "rtf_p50", "nothing", "", "p50"):
        assert DEFINITIONS.find(unknown) is None


def test_every_metric_of_every_study_is_in_the_reference() -> None:
    page = (REFERENCE / "metrics.md").read_text()
    for study in map(find_study, LISTED):
        for heading, group in study.definitions.groups.items():
            assert f"## {heading}\n" in page
            for name, definition in group.items():
                assert f"| `{name}{'_pNN' if definition.percentiles else ''}` |" in page
                assert f"**{definition.title}.** {definition.text}".replace("|", "\\|") in page


def test_every_stored_setting_of_every_study_is_in_the_reference() -> None:
    page = (REFERENCE / "run-file.md").read_text()
    for name in LISTED:
        section = page.partition(f"### spec of `{name}`\n")[2].partition("\n#")[0]
        rows = dict(re.findall(r"^\| `(\w+)` \| .*? \| (.*) \|$", section, re.MULTILINE))
        spec = find_study(name).spec
        stored = {setting for setting, option in spec.options().items() if option.stored}
        assert stored <= set(rows)
        assert not {setting for setting, option in spec.options().items() if not option.stored} & set(rows)
        assert all(rows.values()), f"a setting of {name} has no meaning"


def test_the_run_file_is_as_described(fake_run: Record) -> None:
    page = (REFERENCE / "run-file.md").read_text()

    def described(heading: str) -> set[str]:
        section = page.partition(f"# {heading}\n")[2].partition("\n#")[0]
        return set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))

    header, *pieces, end = (json.loads(line) for line in fake_run.path.read_text().splitlines())
    assert set(header) == described("Header")
    assert set(header["spec"]) == described("spec of `latency`")
    assert {piece["key"][0] for piece in pieces} == {"stream", "load", "memory"}
    for piece in pieces:
        assert set(piece) == described("Piece")
        assert set(piece["data"]) == described(piece["key"][0])
        if piece["key"][0] == "stream":
            assert set(piece["data"]["trace"]) == described("trace")
    assert set(end) == {"kind", "finished"}


@pytest.mark.parametrize("name", ["engines", "doctor"])
def test_the_json_of_small_verbs_is_as_described(name: str) -> None:
    command = [sys.executable, "-m", "stopwav", name, "--json"]
    printed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    described = next(
        paragraph
        for paragraph in (REFERENCE / "json.md").read_text().split("\n\n")
        if paragraph.startswith(f"`{name}`:")
    )
    for key, value in printed.items():
        assert f'"{key}"' in described
        for inner in value[0] if isinstance(value, list) and value else ():
            assert f'"{inner}"' in described


def test_the_exit_codes_are_described() -> None:
    from stopwav.cli import output

    page = (REFERENCE / "json.md").read_text()
    codes = {value for name, value in vars(output).items() if name.startswith("EXIT_")}
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)} == {0, *codes}


@by_page
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (path.parent / file).resolve() if file else path
        assert linked.exists(), target
        if anchor:
            assert anchor in anchors(linked), target


def test_every_page_can_be_reached_from_the_index() -> None:
    index = (DOCS / "index.md").read_text()
    for path in DOCS.rglob("*.md"):
        assert path.name == "index.md" or f"]({path.relative_to(DOCS)})" in index, path


@by_page
def test_commands_parse(path: Path) -> None:
    for name, *arguments in command_lines(path.read_text()):
        if name.startswith("-"):
            assert [name, *arguments] in (["--version"], ["--help"], ["-h"], ["--install-completion"])
        elif "--help" not in arguments:
            assert name in commands(), f"stopwav {name}"
            if (whole := f"{name} {next(iter(arguments), '')}") in commands():  # a verb with verbs of its own
                name, arguments = whole, arguments[1:]
            commands()[name].make_context(name, arguments)  # raises for an option or a value that does not exist


def test_verbs_named_in_the_docs_exist() -> None:
    for path in DOCS.rglob("*.md"):
        for name in re.findall(r"`stopwav ([a-z]+)", path.read_text()):
            assert name in commands(), f"{path}: stopwav {name}"


@by_page
def test_python_blocks_compile(path: Path) -> None:
    for block in blocks(path.read_text(), "python"):
        compile(block, str(path), "exec")


def test_pages_named_in_the_code_exist() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        for page in re.findall(r"docs/[\w/-]+\.md", path.read_text()):
            assert (ROOT / page).is_file(), f"{path}: {page}"


def test_the_checks_can_fail() -> None:
    page = "```console\n$ stopwav latency fake --nope | head\n$ .venv/bin/stopwav latency --limit 3\n```\n"
    wrong = list(command_lines(page))
    assert wrong == [["latency", "fake", "--nope"], ["latency", "--limit", "3"]]
    for name, *arguments in wrong:
        with pytest.raises(Exception, match=r"No such option: --nope|Missing parameter: engines"):
            commands()[name].make_context(name, arguments)
    assert list(blocks("```python\nx =\n```\n", "python")) == ["x =\n"]
