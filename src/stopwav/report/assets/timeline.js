"use strict";
// One utterance, moment by moment: waveform, words, and of each engine the chunks and the text as it grew.
(() => {
  const { inflate, make, hint } = stopwav;
  const LEAST_PIXELS_PER_S = 105, ROOM_FOR_LAST_LABEL = 96, CHARACTER = 6.7;
  // Seconds between two marks of the axis: ten at the most on a screen, and no label touches the next.
  const TICKS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60], LEAST_PIXELS_PER_TICK = 50, MOST_TICKS = 10;
  const svg = (tag, fields, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(fields)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const bare = (word) => word.toLowerCase().replace(/[^\p{L}\p{N}']/gu, "") || word;
  const seconds = (value) => `${value.toFixed(2)} s`;

  // For each place in the text, which word stood there from when to when; the last one stands for good.
  function standings(texts, end) {
    const rows = [];
    for (const [at, text] of texts) {
      const words = text ? text.split(" ") : [];
      for (let place = 0; place < Math.max(rows.length, words.length); place += 1) {
        const row = (rows[place] ??= []), last = row.at(-1), word = words[place];
        const open = last && last.to === null;
        if (open && word !== undefined && bare(last.word) === bare(word)) last.word = word;
        else {
          if (open) last.to = at;
          if (word !== undefined) row.push({ word, from: at, to: null });
        }
      }
    }
    rows.flat().forEach((one) => { one.settled = one.to === null; one.to ??= end; });
    return rows;
  }

  // Labels laid out in as few lines as none overlaps another in.
  function lines(items, x) {
    const ends = [];
    return items.map((item) => {
      const from = x(item[1]), width = item[0].length * CHARACTER + 10;
      let line = ends.findIndex((end) => end <= from);
      if (line < 0) line = ends.push(0) - 1;
      ends[line] = from + width;
      return line;
    });
  }

  function drawHead(scene, one) {
    const { add, x } = scene;
    const tick = TICKS.find((step) => x(step) >= Math.max(LEAST_PIXELS_PER_TICK, scene.screen / MOST_TICKS)) ?? TICKS.at(-1);
    for (let count = 0, s = 0; s <= scene.end; count += 1, s = count * tick) {
      add("line", { x1: x(s), x2: x(s), y1: 18, y2: 0, class: "rule", "data-tall": "" });
      add("text", { x: x(s), y: 12, class: "soft" }, `${Number(s.toFixed(1))} s`);
    }
    scene.y = 24;
    if (one.envelope) {
      const half = 24, step = one.audio_s / one.envelope.length, middle = scene.y + half;
      const up = one.envelope.map((level, i) => `${x(i * step).toFixed(1)},${(middle - (half * level) / 63).toFixed(1)}`);
      const down = one.envelope.map((level, i) => `${x(i * step).toFixed(1)},${(middle + (half * level) / 63).toFixed(1)}`).reverse();
      add("polygon", { points: [...up, ...down].join(" "), fill: "var(--muted)", opacity: 0.55, class: "wave" });
      scene.y += 2 * half + 8;
    }
    const at = lines(one.words, x);
    one.words.forEach(([word, from, to], i) => {
      const y = scene.y + 17 * at[i];
      add("rect", { x: x(from), y, width: Math.max(1, x(to) - x(from) - 1), height: 3, rx: 1, fill: "var(--ink)" });
      add("text", { x: x(from), y: y + 14, class: "spoken" }, word);
    });
    scene.y += one.words.length ? 17 * (Math.max(...at) + 1) + 14 : 6;
  }

  function drawLane(scene, lane, colour) {
    const { add, x } = scene;
    add("line", { x1: 0, x2: scene.width, y1: scene.y, y2: scene.y, class: "rule" });
    add("text", { x: 0, y: scene.y + 19, "font-weight": 620 }, lane.engine);
    if (lane.failure) {
      add("text", { x: 0, y: scene.y + 38, class: "soft" }, lane.failure.slice(0, 90));
      scene.y += 52;
      return;
    }
    scene.y += 28;
    for (const [due, queue, service] of lane.chunks) {
      add("line", { x1: x(due), x2: x(due), y1: scene.y, y2: scene.y + 16, stroke: "var(--muted)", "stroke-width": 0.75 });
      if (queue > 0) add("rect", { x: x(due), y: scene.y + 6, width: x(due + queue) - x(due), height: 4, fill: colour, opacity: 0.35, class: "queue" });
      add("rect", { x: x(due + queue), y: scene.y + 3, width: Math.max(1, x(queue + service) - x(queue)), height: 10, rx: 1.5, fill: colour, class: "chunk" });
    }
    scene.y += 24;
    const rows = lane.rows, height = rows.length <= 30 ? 17 : rows.length <= 90 ? 13 : 7;
    for (const row of rows) {
      for (const { word, from, to, settled } of row) {
        const width = Math.max(2, x(to) - x(from) - 1.5), look = settled ? { "fill-opacity": 0.22, fill: colour } : { fill: "none", stroke: colour, "stroke-opacity": 0.75, "stroke-dasharray": "3 2" };
        const bar = add("rect", { x: x(from) + 0.5, y: scene.y + 1, width, height: height - 3, rx: 2.5, class: settled ? "settled" : "passing", ...look });
        bar.append(svg("title", {}, `${word}: ${seconds(from)} to ${settled ? "the end" : seconds(to)}`));
        if (settled) add("rect", { x: x(from), y: scene.y + 1, width: 2.5, height: height - 3, rx: 1, fill: colour });
        const fits = Math.floor((width - 6) / CHARACTER), shown = word.length <= fits || settled ? word.slice(0, 24) : "";
        if (height > 8 && shown) add("text", { x: x(from) + 6, y: scene.y + height - 5, "font-size": height > 13 ? 12 : 10, class: settled ? "" : "soft" }, shown);
      }
      scene.y += height;
    }
    scene.y += 14;
  }

  function draw(one, width) {
    const ends = one.lanes.flatMap((lane) => [...lane.chunks.map(([due, queue, service]) => due + queue + service), ...lane.texts.map(([at]) => at)]);
    // Rounded up to a step of the slider, so that its end shows the final text.
    const last = Math.ceil(100 * ends.reduce((a, b) => Math.max(a, b), Math.max(one.audio_s, 0.1))) / 100;
    const inner = Math.max(width, last * LEAST_PIXELS_PER_S + ROOM_FOR_LAST_LABEL), scale = (inner - ROOM_FOR_LAST_LABEL) / last;
    const finals = one.lanes.filter((lane) => lane.texts.length).map((lane) => `${lane.engine} shows its final text at ${seconds(lane.texts.at(-1)[0])}. `);
    const root = svg("svg", { role: "img", "aria-label": `Timeline of ${one.id}. ${finals.join("")}What each engine showed, and when, is in the table below.` });
    const scene = { x: (s) => s * scale, end: last, width: inner, screen: width, y: 0, add: (...item) => root.appendChild(svg(...item)) };
    one.lanes.forEach((lane) => { lane.rows = standings(lane.texts, (inner - 1) / scale); });
    drawHead(scene, one);
    one.lanes.forEach((lane, index) => drawLane(scene, lane, `var(--engine-${index % 12})`));
    root.querySelectorAll("[data-tall]").forEach((line) => line.setAttribute("y2", scene.y));
    const cursor = scene.add("line", { x1: 0, x2: 0, y1: 16, y2: scene.y, class: "cursor" });
    for (const [name, value] of [["width", inner], ["height", scene.y], ["viewBox", `0 0 ${inner} ${scene.y}`]]) root.setAttribute(name, value);
    return { root, last, move: (s) => { for (const end of ["x1", "x2"]) cursor.setAttribute(end, scene.x(s)); } };
  }

  // The text on each engine's screen at a moment, with the words that will change set apart.
  function screens(one, list, at) {
    list.replaceChildren(...one.lanes.map((lane) => {
      const words = lane.rows?.map((row) => row.find(({ from, to, settled }) => from <= at && (at < to || settled))).filter(Boolean) ?? [];
      const told = words.flatMap(({ word, settled }) => [make("span", { textContent: word, className: settled ? "" : "may-change" }), " "]);
      return make("div", {}, make("dt", { textContent: lane.engine }), make("dd", {}, ...(told.length ? told : ["–"])));
    }));
  }

  function history(one) {
    const head = make("tr", {}, ...["at", "engine", "text"].map((text) => make("th", { textContent: text, scope: "col" })));
    const all = one.lanes.flatMap((lane) => lane.texts.map(([at, text]) => [at, lane.engine, text])).sort((a, b) => a[0] - b[0]);
    const rows = all.map(([at, engine, text]) => make("tr", {}, make("td", { textContent: seconds(at) }), make("td", {}, make("bdi", { textContent: engine })), make("td", { className: "words" }, make("bdi", { textContent: text }))));
    const region = make("div", { className: "scroll", tabIndex: 0 }, make("table", { className: "all" }, make("thead", {}, head), make("tbody", {}, ...rows)));
    region.setAttribute("role", "region");
    region.setAttribute("aria-label", "What each engine showed, and when");
    return make("details", {}, make("summary", { textContent: "What each engine showed, and when" }), region);
  }

  function show(stage, one) {
    const pan = make("div", { className: "pan", tabIndex: 0 });
    pan.setAttribute("role", "region");
    pan.setAttribute("aria-label", "Timeline, scrolls sideways");
    const reference = make("p", { className: "aside" }, make("b", { textContent: "Spoken: " }), make("bdi", { textContent: one.text || "no transcript" }));
    const list = make("dl", { className: "now" }), clock = make("output", {});
    const slider = make("input", { type: "range", min: 0, step: 0.01 }), play = make("button", { type: "button", className: "quiet", textContent: "Play" });
    slider.setAttribute("aria-label", "Moment, in seconds");
    const notes = [one.envelope_note, one.words.length || !one.text ? "" : "The times of these words are not known.", ...new Set(one.lanes.filter((lane) => lane.round).map((lane) => `${lane.engine}: round ${lane.round + 1}`))];
    const remarks = notes.filter(Boolean).map((text) => make("p", { className: "aside", textContent: text }));
    stage.replaceChildren(pan, make("div", { className: "play" }, play, slider, clock), list, reference, ...remarks, history(one));
    const drawn = draw(one, pan.clientWidth - 2 * parseFloat(getComputedStyle(pan).paddingLeft));
    pan.append(drawn.root);
    stage.querySelectorAll(".pan, .scroll").forEach(hint);
    slider.max = drawn.last.toFixed(2);
    const move = (at) => {
      slider.value = at;
      clock.value = seconds(Number(slider.value));
      drawn.move(Number(slider.value));
      screens(one, list, Number(slider.value));
    };
    slider.oninput = () => move(slider.value);
    move(drawn.last);
    let since = null;
    const tick = (now) => {
      if (since === null || !play.isConnected) return;
      move(Math.min((now - since) / 1e3, drawn.last));
      if ((now - since) / 1e3 < drawn.last) requestAnimationFrame(tick);
      else { since = null; play.textContent = "Play"; }
    };
    play.onclick = () => {
      const running = since !== null;
      since = running ? null : performance.now();
      play.textContent = running ? "Play" : "Stop";
      if (!running) requestAnimationFrame(tick);
    };
  }

  function timeline(block) {
    const stage = block.querySelector(".stage"), pick = block.querySelector("select"), size = Number(block.dataset.batch), batches = {};
    const load = (batch) => (batches[batch] ??= inflate(block.dataset.timeline + batch).then(JSON.parse));
    const update = async () => {
      const index = Number(pick.value), batch = Math.floor(index / size), found = await load(batch);
      // A quicker choice may have overtaken this one while it was inflated.
      if (Number(pick.value) !== index) return;
      show(stage, found[index % size]);
      stage.dataset.shown = index;
    };
    pick.onchange = update;
    block.querySelectorAll("[data-step]").forEach((button) => {
      button.onclick = () => {
        const count = pick.options.length;
        pick.selectedIndex = (pick.selectedIndex + Number(button.dataset.step) + count) % count;
        update();
      };
    });
    let width = innerWidth;
    addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; update(); } });
    update();
  }

  document.querySelectorAll("[data-timeline]").forEach(timeline);
})();
