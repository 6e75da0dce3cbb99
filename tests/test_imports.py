"""Who may import whom, and what must not be imported at all."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "stopwav"

# `errors` may be imported by all. `cli` holds the verbs, so it may import everything; nothing imports `cli`.
ALLOWED = {
    "stats": set(),
    "speech": set(),
    "measure": {"stats"},
    "models": {"measure.stages"},
    "losses": {"measure.stages"},
    "engines": {"speech", "models", "measure.stages"},
    "record": {"stats"},
    "studies": {
        "stats",
        "speech",
        "measure",
        "models",
        "losses",
        "engines",
        "record",
        "profiling.schedule",
        "profiling.analysis",
    },
    "report": {"record", "stats"},
    # What the user calls in their own code, as `cli` is what they call in a shell: it measures, and has it printed.
    "profiling": {"stats", "measure", "report"},
}


def imports_of(path: Path) -> set[str]:
    """What of the package a file imports, as paths below it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "stopwav":
            found.add(node.module.removeprefix("stopwav").lstrip("."))
        elif isinstance(node, ast.Import):
            found |= {a.name.removeprefix("stopwav.") for a in node.names if a.name.startswith("stopwav")}
    return found


def layers() -> list[tuple[str, Path]]:
    files = [(path.relative_to(SOURCE).parts[0].removesuffix(".py"), path) for path in sorted(SOURCE.rglob("*.py"))]
    return [(layer, path) for layer, path in files if layer in ALLOWED]


@pytest.mark.parametrize(("layer", "path"), layers(), ids=lambda value: getattr(value, "name", value))
def test_layers_import_only_what_they_may(layer: str, path: Path) -> None:
    allowed = {"errors", layer, *ALLOWED[layer]}
    for module in imports_of(path):
        # The version is the one name that everyone may take from the package itself.
        assert module == "" or any(module == name or module.startswith(f"{name}.") for name in allowed), module


def modules_after(code: str) -> set[str]:
    printed = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(printed.stdout.split())


def test_importing_stopwav_imports_neither_torch_nor_an_engine_nor_numpy() -> None:
    loaded = modules_after("import stopwav")
    heavy = {"torch", "numpy", "pydantic", "soundfile", "pocketsphinx", "moonshine_voice", "jiwer", "rich", "typer"}
    assert not loaded & heavy
    assert not {name for name in loaded if name.startswith("stopwav.engines")}


def test_no_study_imports_torch() -> None:
    assert "torch" not in modules_after("import stopwav; stopwav.latency; stopwav.results")


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
    for path in SOURCE.rglob("*.py"):
        lines = path.read_text().splitlines()
        assert len(lines) <= 330, path
        for node in ast.walk(ast.parse("\n".join(lines))):
            if isinstance(node, ast.FunctionDef):
                # The body alone: a verb's options are its documentation.
                assert (node.end_lineno or 0) - node.body[0].lineno <= 45, f"{path}: {node.name}"


def test_only_cli_and_report_print_and_only_cli_exits() -> None:
    for path in SOURCE.rglob("*.py"):
        layer = path.relative_to(SOURCE).parts[0]
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                assert layer in ("cli", "report"), path
            if isinstance(node, ast.Attribute) and node.attr == "exit":
                assert layer == "cli", path
