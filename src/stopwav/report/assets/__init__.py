"""The page's templates, style and scripts, and how data is packed into it."""

from __future__ import annotations

import base64
import gzip
import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

if TYPE_CHECKING:
    from jinja2 import Environment, Template


@cache
def _environment() -> Environment:
    # Slow to import, and of no use to whoever prints a table.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("stopwav.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["json"] = as_json
    return environment


def template(name: str) -> Template:
    """The template of that name; whatever is put into it is escaped."""
    return _environment().get_template(name)


def text(name: str) -> str:
    """The style sheet or script of that name."""
    return (files(__name__) / name).read_text(encoding="utf-8")


def as_json(value: Any) -> Markup:
    """JSON that cannot end the script element it stands in, nor start another."""
    packed = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(packed.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def pack(value: Any) -> str:
    """A value as JSON, compressed, in base64."""
    return pack_bytes(json.dumps(value, separators=(",", ":"), allow_nan=False).encode())


def pack_bytes(content: bytes) -> str:
    """Bytes, compressed, in base64; the same bytes always give the same text."""
    # Level 9 takes three times as long for a hundredth less.
    return base64.b64encode(gzip.compress(content, compresslevel=7, mtime=0)).decode()
