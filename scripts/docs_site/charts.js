// Draws each chart in place of its image, as the page of a run does; what cannot be drawn stays an image.
for (const chart of document.querySelectorAll(".stopwav-chart")) {
  const canvas = document.createElement("span");
  const spec = JSON.parse(chart.querySelector("script").textContent);
  chart.append(canvas);
  vegaEmbed(canvas, spec, {
    ast: true, renderer: "svg", actions: false, defaultStyle: false, mode: "vega-lite",
    config: { legend: { disable: true } }, tooltip: { disableDefaultStyle: true },
    loader: { load: () => Promise.reject(new Error("this page loads nothing")) },
  }).then(() => { chart.querySelector("img").remove(); chart.dataset.drawn = ""; }, () => canvas.remove());
}
