"use strict";
// Light and dark, sorting, what a number means, charts, and the raw run: everything but the timelines.
const stopwav = (() => {
  // Pixels that a chart is drawn with for a sheet of A4, across it and in one of two columns: a third more than there
  // are, so that it is scaled down to the size of the text around it.
  const SHEET = 900, SHEET_HALF = 430;
  const byId = (id) => document.getElementById(id);
  const data = (id) => JSON.parse(byId(id).textContent);

  const make = (tag, fields = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), fields);
    element.append(...children);
    return element;
  };

  // Text that was packed into the page: base64 of gzip.
  async function inflate(id) {
    const packed = atob(byId(id).textContent);
    const bytes = Uint8Array.from(packed, (char) => char.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  function theme() {
    const root = document.documentElement, button = byId("theme");
    const system = matchMedia("(prefers-color-scheme: dark)");
    // Pages opened from disk may be refused a memory; the choice then lasts as long as the page.
    const memory = (use) => { try { return use(localStorage); } catch { return null; } };
    const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
    const show = () => { button.textContent = dark() ? "Light" : "Dark"; button.setAttribute("aria-label", `Switch to ${dark() ? "light" : "dark"} colours`); };
    const kept = memory((store) => store.getItem("stopwav-theme"));
    if (kept === "light" || kept === "dark") root.dataset.theme = kept;
    button.hidden = false;
    button.onclick = () => {
      root.dataset.theme = dark() ? "light" : "dark";
      memory((store) => store.setItem("stopwav-theme", root.dataset.theme));
      show();
    };
    system.addEventListener("change", show);
    show();
  }

  // What a cell sorts by: its stored number where it has one, else its text; what is missing comes last either way.
  const key = (cell) => {
    const stored = cell.dataset.sort;
    if (stored === undefined) return cell.textContent.trim();
    return stored === "" ? null : Number(stored);
  };
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));

  function sortable(table) {
    const body = table.tBodies[0], original = [...body.rows], heads = [...table.tHead.rows[0].cells];
    const sort = (column, direction) => {
      const rows = original.map((row) => [key(row.cells[column]), row]);
      const known = rows.filter(([value]) => value !== null).sort(([a], [b]) => direction * compare(a, b));
      body.append(...(direction ? [...known, ...rows.filter(([value]) => value === null)] : rows).map(([, row]) => row));
      heads.forEach((head, index) => head.setAttribute("aria-sort", index === column && direction ? (direction > 0 ? "ascending" : "descending") : "none"));
    };
    heads.forEach((head, column) => {
      const button = make("button", { type: "button" }, ...head.childNodes);
      // Up, down, and back to the order in which things happen.
      button.onclick = () => sort(column, { none: 1, ascending: -1, descending: 0 }[head.getAttribute("aria-sort")]);
      head.append(button);
      head.setAttribute("aria-sort", "none");
    });
  }

  function tips() {
    const tip = byId("tip"), meanings = data("definitions");
    let shown = null;
    const hide = () => { if (shown) shown.removeAttribute("aria-describedby"); shown = null; tip.hidden = true; };
    const show = (number) => {
      if (shown === number) return;
      hide();
      shown = number;
      const { metric, of, interval, n, note, cautions } = number.dataset;
      const [title, meaning] = meanings[metric] ?? [metric, ""];
      const lines = [[meaning], [Number(n) ? `n = ${n}` : ""], [note], ...cautions.split("\n").map((text) => [text, "doubt"])];
      tip.replaceChildren(
        make("p", {}, make("b", { textContent: `${title}, ${of}` })),
        make("p", { textContent: interval }),
        ...lines.filter(([text]) => text).map(([text, className = ""]) => make("p", { textContent: text, className })),
      );
      tip.hidden = false;
      number.setAttribute("aria-describedby", "tip");
      place();
    };
    const place = () => {
      if (!shown) return;
      const at = shown.getBoundingClientRect(), size = tip.getBoundingClientRect();
      tip.style.left = `${Math.max(8, Math.min(at.left, innerWidth - size.width - 8))}px`;
      tip.style.top = `${at.bottom + size.height + 10 < innerHeight ? at.bottom + 6 : Math.max(8, at.top - size.height - 6)}px`;
    };
    const number = (event) => event.target.closest?.(".num");
    for (const kind of ["pointerover", "focusin", "click"]) {
      document.addEventListener(kind, (event) => {
        if (number(event)) show(number(event));
        else if (!tip.contains(event.target)) hide();
      });
    }
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
    addEventListener("scroll", place, { passive: true, capture: true });
  }

  function charts() {
    const specs = data("charts"), waiting = new Set(Object.keys(specs)), drawn = [];
    const draw = async (id) => {
      if (!waiting.delete(id)) return;
      // The figure is one image with a description; its marks, one by one, would tell a listener nothing.
      const canvas = make("div", { ariaHidden: "true" });
      byId(id).append(canvas);
      const { view } = await vegaEmbed(canvas, specs[id], {
        // Interpreted, so that the page needs no leave to run text as code; drawn as SVG, so that it prints sharp.
        ast: true, renderer: "svg", actions: false, defaultStyle: false, mode: "vega-lite",
        config: { legend: { disable: true } }, tooltip: { disableDefaultStyle: true },
        loader: {
          load: () => Promise.reject(new Error("this page loads nothing")),
          // A point may lead to a page beside this one, and nowhere else.
          sanitize: (address) => (address.startsWith("./") ? Promise.resolve({ href: address }) : Promise.reject(new Error("no such page"))),
        },
      });
      // What a reader can choose in a chart is no part of the image.
      const choices = canvas.querySelector(".vega-bindings");
      if (choices) byId(id).after(choices);
      byId(id).dataset.drawn = "";
      drawn.push([byId(id), view]);
    };
    const folded = (id) => byId(id).closest("details");
    // All at once, so that whoever prints or photographs the page gets every chart; a folded one when it comes in sight.
    const sight = new IntersectionObserver((seen) => seen.filter((one) => one.isIntersecting).forEach((one) => draw(one.target.id)), { rootMargin: "300px" });
    for (const id of Object.keys(specs)) folded(id) ? sight.observe(byId(id)) : draw(id);
    // As wide as their place on a sheet of A4, which is not known before it is laid out.
    const resize = (width) => drawn.forEach(([plot, view]) => view.signal("width", width(plot)).run());
    addEventListener("beforeprint", () => {
      Promise.all([...waiting].filter((id) => folded(id)?.open).map(draw)).then(() => resize((plot) => (plot.closest(".grid") ? SHEET_HALF : SHEET)));
    });
    addEventListener("afterprint", () => resize((plot) => plot.clientWidth));
  }

  // Long names of modules and settings break after their parts, and not inside a word.
  function breaks(element) {
    const walk = document.createTreeWalker(element, NodeFilter.SHOW_TEXT), texts = [];
    while (walk.nextNode()) if (/\S{13}/.test(walk.currentNode.data)) texts.push(walk.currentNode);
    for (const text of texts) {
      const parts = text.data.split(/(?<=\p{L}[\p{L}\p{N}]*[_.,=:/]+)(?=[\p{L}\p{N}])/u);
      text.replaceWith(...parts.flatMap((part, index) => (index ? [make("wbr"), part] : [part])));
    }
  }

  // Below what is wider than its place: that it scrolls. Its edge has a shadow besides.
  function hint(region) {
    const words = make("p", { className: "aside hint", textContent: "More to the right: scroll sideways →", hidden: true });
    region.after(words);
    new ResizeObserver(() => { words.hidden = region.scrollWidth <= region.clientWidth + 1; }).observe(region);
    region.addEventListener("scroll", () => words.classList.toggle("read", region.scrollLeft > 0), { passive: true });
  }

  async function download(button) {
    const text = await inflate(button.dataset.download);
    const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "application/x-ndjson" })), download: button.dataset.name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }

  theme();
  document.querySelectorAll("bdi, .title").forEach(breaks);
  document.querySelectorAll("table.sortable").forEach(sortable);
  tips();
  document.querySelectorAll(".scroll").forEach(hint);
  document.querySelectorAll("[data-download]").forEach((button) => { button.onclick = () => download(button); });
  if (globalThis.vegaEmbed) charts();
  performance.mark("stopwav-interactive");
  return { inflate, make, hint };
})();
