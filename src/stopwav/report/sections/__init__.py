"""The sections of the page, one file a study, found by the study's name.

A study gets its section by a file of its name here with `render_section(section, prefix) -> Part`; `prefix` makes the
ids of its elements unique on the page. A study without one is shown by its table of all metrics.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from stopwav.report.sections.section import Part, Section

__all__ = ["Part", "Section", "render_part"]


def render_part(section: Section, prefix: str) -> Part:
    """What the section's study puts on the page; nothing for a study that has no file here."""
    study = section.record.header.study
    # The name comes from a file that anybody may have written: only modules that are here are imported.
    if study not in {module.name for module in iter_modules(__path__)}:
        return Part()
    module = import_module(f"{__name__}.{study}")
    render = getattr(module, "render_section", None)
    return render(section, prefix) if render is not None else Part()
