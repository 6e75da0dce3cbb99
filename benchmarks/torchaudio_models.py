"""torchaudio's own Emformer RNN-T: the package, or its model files alone where its binary part cannot load."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import types
from pathlib import Path
from typing import Any

# In the order in which they import one another.
FILES = ("emformer", "rnnt", "rnnt_decoder")


def load_models(folder: Path | None = None) -> tuple[Any, str] | None:
    """torchaudio's models and version; `None` if it neither imports nor is in the folder."""
    try:
        torchaudio = importlib.import_module("torchaudio")
        return importlib.import_module("torchaudio.models"), str(torchaudio.__version__)
    except (ImportError, OSError):  # a binary part built for another torch fails to link
        for name in [name for name in sys.modules if name.split(".")[0] == "torchaudio"]:
            del sys.modules[name]
    if folder is None or not (folder / "models" / "rnnt_decoder.py").is_file():
        return None
    return _load_files(folder), f"{_version(folder)}, Python files only"


def _load_files(folder: Path) -> types.ModuleType:
    package, models = types.ModuleType("torchaudio"), types.ModuleType("torchaudio.models")
    package.__path__, models.__path__ = [], []
    sys.modules |= {"torchaudio": package, "torchaudio.models": models}
    for name in FILES:
        spec = importlib.util.spec_from_file_location(f"torchaudio.models.{name}", folder / "models" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        vars(models).update({public: getattr(module, public) for public in module.__all__})
    return models


def _version(folder: Path) -> str:
    path = folder / "version.py"
    match = re.search(r"__version__ = ['\"](.+?)['\"]", path.read_text()) if path.is_file() else None
    return match[1] if match else "of unknown version"
