"""The chart kit."""

import altair as alt
import pytest

from stopwav.report.chart import chart_of, ink, spec_of


def heat_map(colour: alt.Color) -> alt.LayerChart:
    rows = [{"x": 1, "y": 2, "by": 0.5}]
    return alt.layer(chart_of(rows).mark_rect().encode(x="x:O", y="y:O", color=colour))


def test_a_colour_that_follows_a_quantity_is_refused_as_a_page_would_draw_it_black() -> None:
    mixed = alt.Scale(range=[ink("engine-0"), ink("engine-1")])
    with pytest.raises(ValueError, match="color follows the quantity 'by'; let an opacity follow it"):
        spec_of(heat_map(alt.Color("by:Q", scale=mixed)), 100)
    assert spec_of(heat_map(alt.Color("by:N", scale=mixed)), 100)["layer"]
