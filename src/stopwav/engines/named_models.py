"""The model that an engine's name gives: whether it is on this machine or can be fetched, and fetching it.

A published checkpoint has a name of its own: its files are those of a pipeline of torchaudio, in torchaudio's cache.
"""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stopwav.engines.registry import EngineEntry, EngineSpec, find_entry
from stopwav.engines.toolkit import find_model, find_model_folder, model_folder
from stopwav.errors import StopwavError

# Where torchaudio's pipelines get their files; each lies in its cache under the same name.
TORCHAUDIO_URL = "https://download.pytorch.org/torchaudio"
# One request before anything is loaded: what is said of a missing network is said in seconds.
REACH_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Published:
    """The files of a published checkpoint, by the option that takes each; `source` is the checkpoint itself."""

    files: Mapping[str, str]

    def paths(self) -> dict[str, Path]:
        """Return where each file is on this machine, or will be."""
        return {option: torchaudio_cache() / file for option, file in self.files.items()}

    def missing(self) -> dict[str, Path]:
        """Return the files that are not on this machine: their addresses, and where each would lie."""
        paths = self.paths()
        return {
            f"{TORCHAUDIO_URL}/{file}": paths[option]
            for option, file in self.files.items()
            if not os.path.isfile(paths[option])
        }


# By engine and source.
PUBLISHED = {
    ("emformer-rnnt", "torchaudio"): Published(
        {
            "source": "models/emformer_rnnt_base_librispeech.pt",
            "tokenizer": "pipeline-assets/spm_bpe_4096_librispeech.model",
            "stats": "pipeline-assets/global_stats_rnnt_librispeech.json",
        }
    ),
}


def torchaudio_cache() -> Path:
    """Return the folder in which torchaudio keeps what it downloads."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get("TORCH_HOME") or Path(base, "torch")).expanduser() / "hub" / "torchaudio"


def check_model(entry: EngineEntry, source: str | None) -> None:
    """Raise where the model that an engine needs is not there; it is looked for, and neither fetched nor loaded."""
    needed = entry.model.removesuffix("?")
    if not needed or (source is None and entry.model.endswith("?")):
        return
    if needed == "folder":
        find_model_folder(entry.name, source)
    elif needed != "file":
        find_model(entry.name, source, needed)
    elif (entry.name, source) in PUBLISHED:
        check_published(entry.name, str(source))
    elif not os.path.isfile(source or ""):
        published = [f"{name} for a published one" for engine, name in PUBLISHED if engine == entry.name]
        choices = ", ".join(["give a checkpoint", *published, "or none for random weights"])
        raise StopwavError(f"{entry.name}:{source}: no such file; {choices}")


def fetch_model(spec: EngineSpec) -> list[Path]:
    """Return the files or the folder of a model that has a name of its own, downloaded where they are not here yet.

    This comes before anything is measured: the time that loading takes is not that of a download.
    """
    entry = find_entry(spec)
    if entry is None or spec.source is None:
        return []
    if entry.model.startswith("folder"):
        return [model_folder(entry.name, spec.source)]
    return list(fetch_published(entry.name, spec.source).values()) if (entry.name, spec.source) in PUBLISHED else []


def check_published(engine: str, source: str) -> None:
    """Raise where files of a published checkpoint are neither on this machine nor to be had from where it is."""
    missing = PUBLISHED[engine, source].missing()
    for address in missing:
        try:
            with urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=REACH_TIMEOUT_S):
                pass
        except OSError as error:  # of the network, or an answer such as 404
            raise _not_downloaded(engine, source, error) from error


def fetch_published(engine: str, source: str) -> dict[str, Path]:
    """Return the files of a published checkpoint by option, after downloading those that are not on this machine."""
    published = PUBLISHED[engine, source]
    for address, path in published.missing().items():
        from torch.hub import download_url_to_file  # which torchaudio uses as well

        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            download_url_to_file(address, str(path))
        except OSError as error:
            raise _not_downloaded(engine, source, error) from error
    return published.paths()


def published_files(engine: str, source: str | None, **given: str | None) -> list[str]:
    """Return the files of a published checkpoint in the order of its options; none of them may be given besides."""
    for option, value in given.items():
        if value is not None:
            raise StopwavError(f"{engine}:{source} has files of its own; leave out {option}={value}")
    return [str(path) for path in fetch_published(engine, str(source)).values()]


def _not_downloaded(engine: str, source: str, error: OSError) -> StopwavError:
    missing = PUBLISHED[engine, source].missing()
    reason = getattr(error, "reason", None) or error.strerror or error
    names = " and ".join(f"{address} as {path}" for address, path in missing.items())
    return StopwavError(
        f"{engine}:{source}: {len(missing)} of its files are not on this machine, and were not downloaded ({reason}); "
        f"run it once with a network connection, or put {names}"
    )
