"""What the engines over other toolkits share: where a model is, where it may run, and a toolkit's error as one line."""

from __future__ import annotations

import re
from pathlib import Path

from stopwav.errors import StopwavError

# One question to the Hub before anything is loaded: its own client asks six times, over 23 s, when it is offline.
HUB_TIMEOUT_S = 5.0


def toolkit_error(engine: str, error: BaseException, way_out: str) -> StopwavError:
    """The first line of what a toolkit said, and the way out; toolkits answer in paragraphs."""
    return StopwavError(f"{engine}: {first_line(error)}; {way_out}")


def first_line(error: BaseException) -> str:
    """The first line of what was said that says something, or the kind of the error."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return first.rstrip(".:")


def model_folder(engine: str, source: str | None) -> Path:
    """The folder of a model that has to lie on this machine."""
    if source is None:
        raise StopwavError(f"{engine}: which model? write {engine}:FOLDER")
    folder = Path(source).expanduser()
    if not folder.is_dir():
        raise StopwavError(f"{engine}: no folder {source!r}; write {engine}:FOLDER with the folder of a model")
    if not any(folder.iterdir()):
        raise StopwavError(f"{engine}: the folder {source!r} is empty; unpack a model into it")
    return folder


def find_model(engine: str, source: str | None, file: str) -> tuple[str, bool]:
    """A model by its folder or its name on the Hub, and whether it is here: in that folder, or in the Hub's cache.

    `file` is one that every model of the toolkit has.
    """
    if source is None:
        raise StopwavError(f"{engine}: which model? write {engine}:FOLDER, or {engine}:OWNER/NAME for one of the Hub")
    folder = Path(source).expanduser()
    if folder.is_dir():
        if not (folder / file).is_file():
            raise StopwavError(f"{engine}: the folder {source!r} has no {file}; name the folder of a model")
        return str(folder), True
    if source.startswith((".", "/", "~")) or source.count("/") > 1:
        raise StopwavError(f"{engine}: no folder {source!r}; write {engine}:FOLDER with the folder of a model")
    from huggingface_hub import HfApi, try_to_load_from_cache

    try:
        if isinstance(try_to_load_from_cache(source, file), str):
            return source, True
        HfApi().model_info(source, timeout=HUB_TIMEOUT_S)
    except Exception as error:  # no network, no such model, or one that wants a login: each has a first line
        raise StopwavError(
            f"{engine}: there is no folder {source!r}, and the Hub could not be asked for a model of that name "
            f"({first_line(error)}); name a folder, or fetch the model where there is a network"
        ) from error
    return source, False


def check_torch_device(engine: str, device: object) -> str:
    """The name of a device that PyTorch can use here."""
    import torch

    name = str(device)
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise StopwavError(f"{engine}: device={name}: cpu, cuda or cuda:N")
    if name == "cpu":
        return name
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        raise StopwavError(f"{engine}: device={name}: PyTorch {torch.__version__} sees no NVIDIA GPU here; use cpu")
    if int(name.partition(":")[2] or 0) >= count:
        raise StopwavError(f"{engine}: device={name}: there is no such GPU; the last one is cuda:{count - 1}")
    return name


def check_one_of(engine: str, option: str, value: object, valid: tuple[str, ...]) -> None:
    """Nothing; an error that names the valid values where the option has none of them."""
    if value not in valid:
        raise StopwavError(f"{engine}: {option}={value}: {', '.join(valid)}")
