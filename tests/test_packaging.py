"""The wheel and the sdist: what is in them, that PyPI would take them, and that they work without the checkout."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

import stopwav

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
REAL = ROOT / "tests" / "data" / "latency-real.jsonl"


def run(*command: object, cwd: Path, **environment: str) -> str:
    """What a command prints; it must end well."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "STOPWAV_CACHE")}
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env={**inherited, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist of the sources as they are, and the wheel that is built from it."""
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("packaging")
    leave = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", folder / "sources" / "src", ignore=leave)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / "sources" / name)
    built = folder / "dist"
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", built, cwd=folder / "sources")
    return built


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (path,) = dist.glob("*.whl")
    return path


def test_the_version_has_one_place(wheel: Path, dist: Path) -> None:
    assert "version" not in PROJECT["project"]
    assert wheel.name == f"stopwav-{stopwav.__version__}-py3-none-any.whl"
    assert (dist / f"stopwav-{stopwav.__version__}.tar.gz").is_file()


def test_twine_finds_nothing_to_complain_about(dist: Path) -> None:
    pytest.importorskip("twine")
    said = run(sys.executable, "-m", "twine", "check", "--strict", *sorted(dist.iterdir()), cwd=dist)
    assert said.count("PASSED") == 2


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    sources = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "stopwav").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert len(sources) > 300
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    # Pages about the data, which nothing reads, may stay behind.
    assert held <= sources
    assert {name for name in sources - held if not name.endswith(".md")} == set()


def test_the_metadata_is_what_the_project_says(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = message_from_bytes(archive.read(name))
    assert metadata["Requires-Python"] == ">=3.11"
    assert set(metadata.get_all("Provides-Extra") or ()) == set(PROJECT["project"]["optional-dependencies"])
    needed = [line for line in metadata.get_all("Requires-Dist") or () if "extra ==" not in line]
    assert len(needed) == len(PROJECT["project"]["dependencies"])
    entries = archive.read(name.replace("METADATA", "entry_points.txt")).decode()
    assert "stopwav = stopwav.cli:main" in entries
    assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())


def test_the_sdist_alone_is_enough_to_build_the_wheel(dist: Path) -> None:
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = archive.getnames()
    stem = path.name.removesuffix(".tar.gz")
    for name in ("pyproject.toml", "README.md", "LICENSE", "src/stopwav/report/assets/page.js"):
        assert f"{stem}/{name}" in names


def test_the_wheel_reports_a_run_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    target, empty = tmp_path / "installed", tmp_path / "empty"
    empty.mkdir()
    zipfile.ZipFile(wheel).extractall(target)
    place = run(sys.executable, "-c", "import stopwav; print(stopwav.__file__)", cwd=empty, PYTHONPATH=str(target))
    assert place.strip() == str(target / "stopwav" / "__init__.py")
    command = (sys.executable, "-m", "stopwav", "report", REAL)
    assert "moonshine" in run(*command, cwd=empty, PYTHONPATH=str(target))
    run(*command, "--html", "page.html", cwd=empty, PYTHONPATH=str(target))
    assert (empty / "page.html").read_text().startswith("<!doctype html>")


def test_pins_hold_every_package_that_is_needed() -> None:
    pins = {re.split("[=<>]", line)[0].lower().replace("_", "-") for line in _pins()}
    groups = [*PROJECT["dependency-groups"].values(), *PROJECT["project"]["optional-dependencies"].values()]
    needed = {re.split(r"[^\w.-]", name)[0].lower().replace("_", "-") for group in groups for name in group}
    # Only on machines with a GPU, or in nobody's environment but the user's.
    assert needed - pins <= {"nvidia-ml-py", "speechbrain", "triton"}


def _pins() -> list[str]:
    return [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and line[0] != "#"]


@pytest.mark.soak
def test_the_wheel_measures_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    environment, empty = tmp_path / "venv", tmp_path / "empty"
    empty.mkdir()
    venv.create(environment, with_pip=True)
    python, command = environment / "bin" / "python", environment / "bin" / "stopwav"
    pins = ("--constraint", ROOT / "constraints.txt")
    run(python, "-m", "pip", "install", "--quiet", *pins, f"{wheel}[moonshine]", cwd=empty)
    assert "No broken requirements" in run(python, "-m", "pip", "check", cwd=empty)
    assert run(command, "--version", cwd=empty).strip() == f"stopwav {stopwav.__version__}"
    said = run(command, "demo", "--quick", cwd=empty, STOPWAV_CACHE=str(tmp_path / "cache"))
    assert "pocketsphinx" in said
    assert "moonshine" in said
    (record,) = (empty / "stopwav-runs").glob("*.jsonl")
    assert "moonshine" in run(command, "report", record, cwd=empty)
    run(command, "report", record, "--html", "page.html", cwd=empty)
    assert (empty / "page.html").read_text().startswith("<!doctype html>")
