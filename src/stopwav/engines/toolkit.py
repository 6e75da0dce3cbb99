"""Shared by the engines of other toolkits: finding a model, checking options, and errors in one line."""

from __future__ import annotations

import re
from pathlib import Path

from stopwav.errors import StopwavError

# One request to the Hub before anything is loaded: its own client retries six times, over 23 s, when it is offline.
HUB_TIMEOUT_S = 5.0
# The owner and the name of a model on the Hub.
HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+")


def toolkit_error(engine: str, error: BaseException, hint: str) -> StopwavError:
    """Return the first line of a toolkit's error, and a hint; toolkits answer in paragraphs."""
    return StopwavError(f"{engine}: {_first_line(error)}; {hint}")


def _first_line(error: BaseException) -> str:
    """Return the first line of the message that is not empty, or the type of the error."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return first.rstrip(".:")


def model_folder(engine: str, source: str | None) -> Path:
    """Return the folder of a model on this machine; one of the Hub is downloaded where it is not in its cache."""
    folder = find_model_folder(engine, source)
    if folder is not None:
        return folder
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(str(source)))
    except Exception as error:
        raise _not_on_hub(engine, str(source), error) from error


def find_model_folder(engine: str, source: str | None) -> Path | None:
    """Return the folder of a model on this machine, the Hub's cache included; None for one that only the Hub has."""
    if source is None:
        raise StopwavError(f"{engine}: which model? write {engine}:FOLDER, or {engine}:OWNER/NAME for one on the Hub")
    folder = Path(source).expanduser()
    if folder.is_dir():
        if not any(folder.iterdir()):
            raise StopwavError(f"{engine}: the folder {source!r} is empty; unpack a model into it")
        return folder
    if not HUB_NAME.fullmatch(source):
        raise StopwavError(f"{engine}: no folder {source!r}; give the folder of a model")
    try:
        from huggingface_hub import HfApi, snapshot_download
    except ImportError as error:
        raise StopwavError(
            f"{engine}: no folder {source!r}; for a model of that name on the Hub: pip install huggingface_hub"
        ) from error
    try:
        cached = Path(snapshot_download(source, local_files_only=True))
    except Exception:  # not there
        cached = None
    # What an interrupted download left is not a model.
    if cached is not None and not any(cached.parents[1].glob("blobs/*.incomplete")):
        return cached
    try:
        HfApi().model_info(source, timeout=HUB_TIMEOUT_S)
    except Exception as error:  # no network, no such model, or one that needs a login: each has a first line
        raise _not_on_hub(engine, source, error) from error
    return None


def model_name(source: str | None, folder: Path) -> str:
    """Return the name of a model as reports have it: that of its folder, or that on the Hub."""
    return folder.name if source is None or Path(source).expanduser().is_dir() else source


def _not_on_hub(engine: str, source: str, error: BaseException) -> StopwavError:
    return StopwavError(
        f"{engine}: there is no folder {source!r}, and the Hub was not reached for a model of that name "
        f"({_first_line(error)}); give a folder, or download the model with a network connection"
    )


def find_model(engine: str, source: str | None, file: str) -> tuple[str, bool]:
    """Return a model's folder or Hub name, and whether it is on this machine: in that folder, or in the Hub's cache.

    `file` is one that every model of the toolkit has.
    """
    if source is None:
        raise StopwavError(f"{engine}: which model? write {engine}:FOLDER, or {engine}:OWNER/NAME for one on the Hub")
    folder = Path(source).expanduser()
    if folder.is_dir():
        if not (folder / file).is_file():
            raise StopwavError(f"{engine}: the folder {source!r} has no {file}; give the folder of a model")
        return str(folder), True
    if source.startswith((".", "/", "~")) or source.count("/") > 1:
        raise StopwavError(f"{engine}: no folder {source!r}; give the folder of a model")
    from huggingface_hub import HfApi, try_to_load_from_cache

    try:
        if isinstance(try_to_load_from_cache(source, file), str):
            return source, True
        HfApi().model_info(source, timeout=HUB_TIMEOUT_S)
    except Exception as error:  # no network, no such model, or one that needs a login: each has a first line
        raise _not_on_hub(engine, source, error) from error
    return source, False


def check_torch_device(engine: str, device: object) -> str:
    """Return the name of a device, after checking that PyTorch can use it here."""
    import torch

    name = str(device)
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise StopwavError(f"{engine}: device={name}: must be cpu, cuda or cuda:N")
    if name == "cpu":
        return name
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        raise StopwavError(f"{engine}: device={name}: PyTorch {torch.__version__} finds no NVIDIA GPU here; use cpu")
    if int(name.partition(":")[2] or 0) >= count:
        raise StopwavError(f"{engine}: device={name}: no such GPU; the last one is cuda:{count - 1}")
    return name


def check_choice(engine: str, option: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise an error that lists the choices unless the value is one of them."""
    if value not in choices:
        raise StopwavError(f"{engine}: {option}={value}: must be one of {', '.join(choices)}")


def check_whole_number(engine: str, option: str, value: object, minimum: int) -> None:
    """Raise an error unless the value is a whole number of at least the minimum."""
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise StopwavError(f"{engine}: {option}={value}: must be a whole number, at least {minimum}")
