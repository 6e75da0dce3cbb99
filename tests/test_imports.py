"""Who may import whom, and what must not be imported at all. Imports inside functions count like any other."""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "stopwav"
STUDIES = {"latency", "grid", "compare", "load", "loss", "step"}

# What each part may import besides itself; `errors` and `plugins` may be imported by all.
ALLOWED = {
    "stats": set(),
    "speech": set(),
    "measure": {"stats"},
    "models": {"measure.stages"},
    "losses": {"measure.stages"},
    "engines": {"speech", "models", "measure.stages"},
    # `serve` runs engines in processes of their own.
    "servers": {"speech", "engines", "measure.process"},
    "json_rows": set(),
    "piece": {"json_rows"},
    "record": {"piece", "json_rows", "stats"},
    "report": {"record", "stats"},
    # What users call in their own code, as `cli` is what they call in a shell: it measures, and has it printed.
    "profiling": {"stats", "measure", "report"},
    "studies": {
        "stats",
        "speech",
        "measure",
        "models",
        "losses",
        "engines",
        "servers",
        "piece",
        "json_rows",
        "record",
        "profiling",
        "report",
        "cli",
    },
    # What users call in their tests.
    "testing": {"record", "report", "studies"},
    # The verbs that belong to no study: each calls the function of its name.
    "cli": {
        "stats",
        "speech",
        "measure",
        "models",
        "losses",
        "engines",
        "servers",
        "record",
        "profiling",
        "report",
        "studies",
    },
}
# Inside a study's folder only these show anything.
SHOWING = {"document.py", "charts.py", "verb.py", "study.py"}


def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in files()}


def imported_names(tree: ast.AST, module: str, is_package: bool) -> Iterator[str]:
    """Every module or name that a file imports, in full, wherever the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".")[: len(module.split(".")) - node.level + is_package]
                base = ".".join([*package, *([base] if base else [])])
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield full if full in MODULES else base


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports_of(path: Path, for_types: bool = False) -> set[str]:
    """The modules of the package that a file imports; only for its types does not count, unless asked for."""
    module, is_package = module_of(path), path.name == "__init__.py"
    tree = tree_of(path) if for_types else without_type_checking(ast.parse(path.read_text()))
    return {name for name in imported_names(tree, module, is_package) if name.split(".")[0] == "stopwav"}


def without_type_checking(tree: ast.Module) -> ast.Module:
    """The file as it runs: what stands under `if TYPE_CHECKING` does not."""

    class Drop(ast.NodeTransformer):
        def visit_If(self, node: ast.If) -> ast.AST | None:
            named = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
            return None if named else self.generic_visit(node)

    return Drop().visit(tree)


def part_of(module: str) -> str:
    return module.removeprefix("stopwav").lstrip(".")


def test_the_reader_sees_every_kind_of_import() -> None:
    code = "import stopwav.a\nfrom stopwav import record\nfrom . import stats\ndef f():\n    from .cli import options\n"
    names = set(imported_names(ast.parse(code), "stopwav", is_package=True))
    assert names == {"stopwav.a", "stopwav.record", "stopwav.stats", "stopwav.cli.options"}


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_part_imports_only_what_it_may(path: Path) -> None:
    part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if part not in ALLOWED:
        return
    allowed = {"errors", "plugins", part, *ALLOWED[part]}
    for module in imports_of(path, for_types=part != "studies"):
        name = part_of(module)
        # The version is the one name that everyone may take from the package itself.
        assert name == "" or any(name == one or name.startswith(f"{one}.") for one in allowed), module


def test_no_study_imports_another_and_only_what_shows_it_imports_the_report() -> None:
    for study in STUDIES:
        for path in (SOURCE / "studies" / study).rglob("*.py"):
            for module in imports_of(path):
                parts = part_of(module).split(".")
                if parts[0] == "studies" and len(parts) > 1 and parts[1] in STUDIES:
                    assert parts[1] == study, f"{path} imports {module}"
                if parts[0] in ("report", "cli"):
                    assert path.name in SHOWING or path.name.endswith(("_charts.py", "_document.py")), (
                        f"{path} imports {module}"
                    )


def test_report_and_cli_name_no_study() -> None:
    for part in ("report", "cli"):
        for path in (SOURCE / part).rglob("*.py"):
            for module in imports_of(path):
                parts = part_of(module).split(".")
                own = path.name == "demo.py"  # the demo is a latency run
                assert own or parts[0] != "studies" or len(parts) < 2 or parts[1] not in STUDIES, f"{path}: {module}"


def test_no_module_imports_itself_through_others() -> None:
    graph = {
        name: {one for one in imports_of(path) if one in MODULES and one != name} for name, path in MODULES.items()
    }
    # A package's own names are what it gives to users: importing a module of it does not need them.
    done: set[str] = set()

    def walk(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " → ".join((*trail[trail.index(name) :], name))
        if name not in done:
            for other in sorted(graph[name]):
                walk(other, (*trail, name))
            done.add(name)

    for name in sorted(graph):
        walk(name, ())


def test_one_name_is_one_class() -> None:
    names = Counter(
        node.name
        for path in files()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []


def modules_after(code: str) -> set[str]:
    printed = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(printed.stdout.split())


def test_importing_stopwav_imports_neither_torch_nor_an_engine_nor_numpy() -> None:
    loaded = modules_after("import stopwav")
    heavy = {"torch", "numpy", "pydantic", "soundfile", "pocketsphinx", "moonshine_voice", "rapidfuzz", "rich", "typer"}
    assert not loaded & heavy
    assert not {name for name in loaded if name.startswith("stopwav.engines")}


def test_no_study_imports_torch_or_altair() -> None:
    from stopwav.studies.study import LISTED

    names = ", ".join(f"find_study({name!r})" for name in LISTED)
    loaded = modules_after(f"import stopwav; from stopwav.studies.study import find_study; {names}")
    assert not loaded & {"torch", "altair", "vl_convert"}


# What a fresh process of a study imports before the engine's own module.
WORKERS = [
    "studies.latency.stream_runner", "studies.latency.server_streams", "studies.grid.cell",
    "studies.compare.engine_runner", "engines.inspection", "servers.serve.host", "measure.visit",
]  # fmt: skip


@pytest.mark.parametrize("worker", WORKERS)
def test_a_worker_starts_without_what_only_the_run_needs(worker: str) -> None:
    loaded = modules_after(f"import stopwav.{worker}")
    assert not loaded & {"pydantic", "rich", "typer", "jinja2", "altair", "torch", "stopwav.record"}


def test_measure_is_a_function_whatever_was_imported_before() -> None:
    for code in ("import stopwav", "from stopwav.measure.clock import WallClock; import stopwav"):
        assert modules_after(f"{code}; assert callable(stopwav.measure)")


def test_every_public_name_is_there() -> None:
    import stopwav

    for name in stopwav.__all__:
        assert getattr(stopwav, name) is not None
    with pytest.raises(AttributeError):
        _ = stopwav.nothing_of_that_name


def test_files_and_functions_stay_small() -> None:
    for path in files():
        assert len(path.read_text().splitlines()) <= 350, path
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef):
                # The body alone: a verb's options are its documentation.
                assert (node.end_lineno or 0) - node.body[0].lineno <= 45, f"{path}: {node.name}"


def test_only_cli_report_and_verbs_print_and_only_cli_exits() -> None:
    for path in files():
        part = path.relative_to(SOURCE).parts[0]
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                assert part in ("cli", "report") or path.name == "verb.py", path
            if isinstance(node, ast.Attribute) and node.attr == "exit":
                assert part == "cli", path
