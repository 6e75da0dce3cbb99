"""The hooks of MkDocs: tabs from docs/index.md, files beside docs/, and charts that live."""

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url
from site_charts import live_charts
from site_pages import navigation, outside_files, with_links_inside

from stopwav.report.chart import chart_script, css_variables

HERE = Path(__file__).parent
SCRIPTS = ("assets/stopwav/vega.js", "assets/stopwav/charts.js")
STYLE = "assets/stopwav/charts.css"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the tabs and their pages from the index."""
    config.nav = navigation((Path(config.docs_dir) / "index.md").read_text(encoding="utf-8"))
    config.nav.append({"More": [{"Contributing": "contributing.md"}, {"Changes": "changelog.md"}]})
    config.extra_css.append(STYLE)
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add what lies beside docs/, and the script and style of the charts."""
    added = {
        **outside_files(),
        SCRIPTS[0]: chart_script(),
        SCRIPTS[1]: (HERE / "charts.js").read_text(encoding="utf-8"),
        STYLE: f":root {{\n{css_variables()}\n}}\n{(HERE / 'charts.css').read_text(encoding='utf-8')}",
    }
    for place, content in added.items():
        files.append(File.generated(config, place, content=content))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Let links to files beside docs/ lead to their copies."""
    return with_links_inside(markdown, page.file.src_uri)


def on_page_content(html: str, *, page: Page, **_: Any) -> str:
    """Draw the charts whose run is stored; the script is loaded where there are any."""
    drawn = live_charts(html)
    if drawn == html:
        return html
    return drawn + "".join(f'<script src="{get_relative_url(script, page.url)}"></script>' for script in SCRIPTS)
