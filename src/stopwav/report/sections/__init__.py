"""The sections of the page, one file a study, each with `render_section(section, prefix) -> Part`.

`prefix` makes the ids of its elements unique on the page.
"""

from __future__ import annotations

from stopwav.report.sections.section import Part, Section

__all__ = ["Part", "Section"]
