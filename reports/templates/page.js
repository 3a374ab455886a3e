"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  for (const part of document.querySelectorAll("[data-script]")) part.hidden = false;
  const night = matchMedia("(prefers-color-scheme: dark)"), root = document.documentElement;
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : night.matches;
  const tell = () => byId("theme").setAttribute("aria-pressed", isDark());
  byId("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    tell();
  });
  night.addEventListener("change", tell);
  tell();
  if (!data.layer) return;

  const count = data.layer.length;
  const names = data.layer.map((layer, i) => "L" + layer + "H" + data.head[i]);
  const indexOf = new Map(names.map((name, i) => [name, i]));
  const title = (role) => (data.roles[role] || { title: role }).title;
  const colour = (role) => (data.roles[role] || { colour: "#777" }).colour;
  const known = (value) => value !== null && value !== undefined;
  function fixed(value, signed) {
    if (!known(value)) return "–";
    const text = Math.abs(value).toFixed(2);
    const sign = Number(text) === 0 ? "" : value < 0 ? "−" : signed ? "+" : "";
    return sign + text;
  }
  const pText = (p) => !known(p) ? "–" : p < 0.001 ? "< 0.001" : p.toFixed(3);
  const times = (ratio) => !known(ratio) ? "–" : ratio > 100 ? "> 100 ×" : (Number(ratio.toFixed(1)) < 0 ? "−" : "") + Math.abs(ratio).toFixed(1) + " ×";

  function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (key === "style") made.style.cssText = value; else made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  }

  const NONE = data.judged ? "no clean label" : "stands out for no role";

  /* The role whose score stands for a head: its label, the one it came closest to, or its best margin. */
  function leading(i) {
    if (data.label[i]) return data.label[i];
    if (data.near[i]) return data.near[i][0];
    let best = null;
    for (const role of Object.keys(data.scores)) {
      const margin = data.scores[role].margin[i];
      if (known(margin) && (best === null || margin > data.scores[best].margin[i])) best = role;
    }
    return best;
  }

  function facts(i) {
    const role = leading(i), scores = role && data.scores[role], task = data.shown[i], effect = task && data.effects[task];
    const sinks = Object.values(data.scores).map((s) => s.sink[i]).filter(known);
    return {
      i, name: names[i], label: data.label[i] ? title(data.label[i]) : "", tier: data.tier[i], near: role && !data.label[i] ? title(role) : "",
      score: scores ? scores.score[i] : null, margin: scores ? scores.margin[i] : null,
      task, total: effect ? effect.total[i] : null, p: effect ? effect.p[i] : null, direct: effect ? effect.direct[i] : null,
      sink: sinks.length ? sinks.reduce((a, b) => a + b, 0) / sinks.length : null,
    };
  }
  const rows = names.map((_, i) => facts(i));

  function inWords(i) {
    const row = rows[i], role = leading(i), scores = data.scores[role];
    let text = row.name + ": " + (row.label ? row.label + (row.tier.length === 1 ? ", tier " + row.tier : ", " + row.tier) : NONE + (row.tier === "D" ? ", though some task needs it" : ""));
    if (scores && known(scores.score[i])) {
      text += "\n" + (row.label ? "" : "nearest " + title(role) + ": ") + "score " + fixed(scores.score[i]);
      if (known(scores.low[i])) text += " (" + fixed(scores.low[i]) + "–" + fixed(scores.high[i]) + ")";
      text += ", chance " + fixed(scores.chance) + ", margin " + fixed(scores.margin[i], true);
    }
    if (known(row.total)) text += "\neffect on " + row.task + " " + fixed(row.total, true) + " (p " + pText(row.p) + ")";
    return text;
  }

  /* Tooltip */
  const tip = byId("tip");
  function showTip(text, x, y) {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 6)) + "px";
    tip.style.top = (y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18) + "px";
  }
  const hideTip = () => { tip.hidden = true; };

  /* Grids: the atlas and the map of each role */
  function headAt(svg, event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const [left, top, wide, high] = svg.dataset.place.split(" ").map(Number);
    const head = Math.floor((point.x - left) / wide), layer = Math.floor((point.y - top) / high);
    return indexOf.get("L" + layer + "H" + head);
  }
  function cursor(svg, i) {
    const [left, top, wide, high] = svg.dataset.place.split(" ").map(Number);
    let mark = svg.querySelector(".cursor");
    if (!mark) {
      mark = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      mark.setAttribute("class", "cursor");
      svg.append(mark);
    }
    const place = { x: left + data.head[i] * wide, y: top + data.layer[i] * high, width: wide, height: high };
    for (const [key, value] of Object.entries(place)) mark.setAttribute(key, value);
  }
  for (const svg of document.querySelectorAll("svg.grid")) {
    const role = svg.dataset.grid;
    svg.addEventListener("pointermove", (event) => {
      const i = headAt(svg, event);
      if (i === undefined) return hideTip();
      const scores = data.scores[role];
      const text = role === "atlas" ? inWords(i) : names[i] + " " + title(role) + ": " + fixed(scores.score[i]) + (known(scores.low[i]) ? " (" + fixed(scores.low[i]) + "–" + fixed(scores.high[i]) + ")" : "") + ", margin " + fixed(scores.margin[i], true);
      showTip(text, event.clientX, event.clientY);
    });
    svg.addEventListener("pointerleave", hideTip);
    svg.addEventListener("click", (event) => {
      const i = headAt(svg, event);
      if (i !== undefined) open(i);
    });
  }
  const box = byId("atlas-box"), atlas = box.querySelector("svg");
  let at = 0;
  function stand(i) {
    at = i;
    cursor(atlas, i);
    byId("atlas-now").textContent = inWords(i).replaceAll("\n", "; ");
  }
  box.addEventListener("focus", () => stand(at));
  box.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (move) {
      const next = indexOf.get("L" + (data.layer[at] + move[0]) + "H" + (data.head[at] + move[1]));
      if (next !== undefined) stand(next);
      event.preventDefault();
    } else if (event.key === "Enter" || event.key === " ") {
      open(at);
      event.preventDefault();
    }
  });

  /* The table of heads */
  const FIRST = 100;
  const body = byId("table").querySelector("tbody");
  const find = byId("find"), byRole = byId("by-role"), byTier = byId("by-tier"), only = byId("labelled");
  for (const role of [...new Set(data.held.flat())].sort()) byRole.append(element("option", { value: role }, title(role)));
  for (const tier of [...new Set(data.tier)].filter(Boolean).sort()) byTier.append(element("option", { value: tier }, tier));
  const tested = Object.keys(data.effects).length > 0;
  let sort = { key: "tier", down: false }, all = false;
  function compare(a, b) {
    const x = a[sort.key], y = b[sort.key];
    if (sort.key === "name") return (a.i - b.i) * (sort.down ? -1 : 1);
    const empty = (v) => !known(v) || v === "";
    if (empty(x) || empty(y)) return empty(x) - empty(y) || a.i - b.i;  // what is missing goes last
    const order = typeof x === "string" ? x.localeCompare(y) : x - y;
    return (sort.down ? -order : order) || a.i - b.i;
  }
  function fill() {
    const words = find.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const shown = rows.filter((row) => {
      if (only.checked && !row.label) return false;
      if (byRole.value && !data.held[row.i].includes(byRole.value)) return false;
      if (byTier.value && row.tier !== byTier.value) return false;
      const text = (row.name + " " + (row.label || NONE) + " " + data.held[row.i].join(" ") + " " + row.tier).toLowerCase();
      return words.every((word) => text.includes(word.replace(/_/g, " ")) || text.includes(word));
    }).sort(compare);
    const some = all ? shown : shown.slice(0, FIRST);
    body.replaceChildren(...some.map((row) => {
      const label = element("td", {});
      if (row.label) label.append(element("span", { class: "swatch", style: "background:" + colour(data.label[row.i]) }), " ");
      label.append(row.label ? data.held[row.i].map(title).join(", ") : NONE);
      if (row.near) label.append(" ", element("small", {}, "nearest " + row.near));
      const effect = element("td", { class: "n" }, fixed(row.total, true));
      if (row.task) effect.append(" ", element("small", {}, row.task + (known(row.p) ? ", p " + pText(row.p) : "")));
      const lesser = (key, text, signed) => element("td", { class: "n lesser", "data-label": text }, fixed(row[key], signed));
      return element("tr", {},
        element("th", { scope: "row" }, element("a", { href: "#" + row.name }, row.name)), label, element("td", {}, row.tier || "–"),
        element("td", { class: "n" }, fixed(row.score)), ...(tested ? [effect] : []), lesser("margin", "margin", true),
        ...(tested ? [lesser("direct", "direct", true)] : []), lesser("sink", "sink"));
    }));
    byId("count").textContent = shown.length + " of " + count + " heads" + (some.length < shown.length ? ", the first " + some.length + " shown" : "");
    byId("more").hidden = some.length === shown.length;
  }
  for (const control of [find, byRole, byTier, only]) control.addEventListener("input", fill);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("more").addEventListener("click", () => { all = true; fill(); });
  for (const header of byId("table").querySelectorAll("thead th")) {
    header.querySelector("button").addEventListener("click", () => {
      const key = header.dataset.key, text = key === "name" || key === "label" || key === "tier";
      sort = { key, down: sort.key === key ? !sort.down : !text };
      for (const other of byId("table").querySelectorAll("thead th")) other.setAttribute("aria-sort", other === header ? (sort.down ? "descending" : "ascending") : "none");
      fill();
    });
  }
  let before = all;
  addEventListener("beforeprint", () => { before = all; all = true; fill(); });
  addEventListener("afterprint", () => { all = before; fill(); });
  fill();

  /* The card of a head */
  const card = byId("card"), cardBody = byId("card-body");
  function bars(i) {
    const chart = element("div", { class: "bars", role: "table", "aria-label": "Score for every role" });
    const order = Object.keys(data.scores).sort((a, b) => (data.scores[b].score[i] ?? -1) - (data.scores[a].score[i] ?? -1));
    for (const role of order) {
      const s = data.scores[role], score = s.score[i];
      if (!known(score)) continue;
      const sure = known(s.p[i]) && s.p[i] < 0.05 && s.marginLow[i] > 0;
      const percent = (value) => 100 * Math.max(0, Math.min(1, value)) + "%";
      const bar = element("div", { class: "bar", role: "cell", "aria-hidden": "true" }, element("i", { style: "width:" + percent(score) + ";background:" + colour(role) + ";opacity:" + (sure ? 1 : 0.4) }));
      if (known(s.low[i])) bar.append(element("b", { style: "left:" + percent(s.low[i]) + ";width:" + percent(s.high[i] - s.low[i]) }));
      if (known(s.chance)) bar.append(element("u", { style: "left:" + percent(s.chance) }));
      if (known(s.baseline)) bar.append(element("s", { style: "left:" + percent(s.baseline) }));
      const numbers = fixed(score) + (known(s.low[i]) ? " (" + fixed(s.low[i]) + "–" + fixed(s.high[i]) + ")" : "");
      const line = element("div", { role: "row", style: "display:contents" }, element("span", { role: "rowheader" }, title(role) + (sure ? " ✓" : "")), bar, element("span", { class: "n", role: "cell" }, numbers));
      chart.append(line);
    }
    return chart;
  }
  const EFFECTS = [["Task", "name"], ["Total", "n"], ["p", "n"], ["Ratio", "n"], ["Direct", "n lesser"], ["Repaired", "n lesser"], ["Damage", "n lesser"], ["Other kinds", "lesser"]];
  function effectsTable(i) {
    const lines = [], unable = [], kind = Object.values(data.effects).map((e) => e.ablation)[0];
    for (const [task, e] of Object.entries(data.effects)) {
      if (!known(e.total[i])) continue;
      const kinds = Object.entries(e.kinds).filter(([, v]) => known(v[i])).map(([kind, v]) => kind + " " + fixed(v[i], true)).join(", ");
      if (e.cannot) unable.push(task + " (" + e.cannot + ")");
      const total = element("span", {}, fixed(e.total[i], true) + (e.cannot ? " *" : ""));
      if (known(e.low[i])) total.append(" ", element("small", {}, fixed(e.low[i]) + " to " + fixed(e.high[i])));
      const repair = !known(e.repair[i]) ? "–" : e.repair[i] > 1 ? "> 100 %" : Math.round(100 * e.repair[i]) + " %";
      const cells = [task + (e.ablation === kind ? "" : " (" + e.ablation + ")"), total, pText(e.p[i]), e.cannot ? "–" : times(e.ratio[i]), fixed(e.direct[i], true), repair, fixed(e.damage[i], true), kinds || "–"];
      const made = cells.map((cell, n) => n ? element("td", { class: EFFECTS[n][1], "data-label": EFFECTS[n][0].toLowerCase() }, cell) : element("th", { scope: "row", class: "name" }, cell));
      lines.push([Math.abs(e.total[i]), element("tr", {}, ...made)]);
    }
    if (!lines.length) return element("p", { class: "hint" }, Object.keys(data.effects).length ? "This head was not removed in this run." : "No effects were measured in this run (rolecall ablate).");
    lines.sort((a, b) => b[0] - a[0]);
    const head = element("tr", {}, ...EFFECTS.map(([name, look]) => element("th", { scope: "col", class: look || "" }, name)));
    const table = element("table", { class: "stack", style: "--main: 4.4", "aria-label": "Effects on every task" }, element("thead", {}, head), element("tbody", {}, ...lines.map((line) => line[1])));
    const hint = "By " + kind + " ablation, with 95 % intervals. Positive: the model does the task worse without the head. p: over all heads and tasks; on the task of a role whose pattern the head has, over such heads alone, if that is smaller. Ratio: the effect over that on other tasks or unrelated text, whichever is more; known for the tasks of roles.";
    const star = unable.length ? " * The model is not shown to do " + unable.join(", ") + ", so an effect on it tells nothing." : "";
    return element("div", {}, element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Effects, may scroll sideways" }, table), element("p", { class: "hint" }, hint + star));
  }
  function list(i) {
    const parts = [];
    for (const [role, tier, why] of data.reasons[i] || []) parts.push(element("li", {}, element("b", {}, title(role) + ", tier " + tier), why ? ": " + why : ""));
    const near = data.near[i];
    if (near) parts.push(element("li", {}, "Nearest to " + title(near[0]) + (near[1] ? ": " + near[1] : "")));
    return parts.length ? element("ul", {}, ...parts) : "";
  }
  function written(name) {
    const found = data.writes[name];
    if (!found) return element("p", {}, "Not stored in this run: examples are kept for each role's strongest heads (rolecall head RUN " + name + " --model shows any head).");
    const tokens = (list) => list.flatMap((t) => [element("code", { class: "token" }, t.replaceAll("\n", "⏎")), " "]);
    return element("div", {}, element("p", { class: "hint" }, "At the query of a " + title(found[0]) + " example: " + found[1]),
      element("p", {}, element("b", {}, "Raises "), ...tokens(found[2])), element("p", {}, element("b", {}, "Lowers "), ...tokens(found[3])));
  }
  function open(i) {
    hideTip();
    stand(i);
    const row = rows[i];
    const group = known(data.kv[i]) ? ", key–value group " + data.kv[i] : "";
    const said = row.label ? data.held[i].map(title).join(", ") + (row.tier ? (row.tier.length === 1 ? ", tier " : ", ") + row.tier : "") : NONE + (row.tier === "D" ? ", though some task needs it (tier D)" : "");
    const link = data.label[i] ? element("p", {}, element("a", { href: "#role-" + data.label[i] }, "All about " + title(data.label[i]))) : "";
    const weights = Object.entries(data.weights).filter(([, v]) => known(v[i])).map(([k, v]) => k.replaceAll("_", " ") + " " + fixed(v[i]));
    const fed = (data.feeds[i] || []).map(([name, kind, excess]) => name + " into its " + { q: "queries", k: "keys", v: "values" }[kind] + " (" + fixed(excess, true) + ")");
    cardBody.replaceChildren(
      element("h2", { id: "card-title" }, row.name + " — " + said),
      element("p", { class: "hint" }, "Layer " + data.layer[i] + ", head " + data.head[i] + group + "; rests " + fixed(row.sink) + " of its attention on the first and special tokens, on average."),
      list(i),
      element("h3", {}, "Where it looks: score for every role"), bars(i),
      element("p", { class: "hint" }, "Thin line: 95 % interval; upright stroke: chance; diamond: the best simpler account; ✓: stands out among all heads and roles."),
      element("h3", {}, "What breaks without it"), effectsTable(i),
      element("h3", {}, "Weights"), element("p", {}, weights.join("; ") || "Not worked out in this run (rolecall weights)."),
      element("h3", {}, "What it writes"), written(row.name),
      element("h3", {}, "Who feeds it"), element("p", {}, fed.join("; ") || "Unknown in this run, or nobody beyond the random baseline."),
      link);
    if (!card.open) card.showModal();
    card.scrollTop = 0;
    if (location.hash !== "#" + row.name) history.replaceState(null, "", "#" + row.name);
  }
  card.addEventListener("close", () => history.replaceState(null, "", location.pathname + location.search));
  card.addEventListener("click", (event) => { if (event.target === card) card.close(); });
  document.addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest("a[href^='#']");
    if (!link) return;
    const i = indexOf.get(link.getAttribute("href").slice(1));
    if (i !== undefined) { event.preventDefault(); open(i); } else if (card.open) card.close();
  });
  function fromHash() {
    const i = indexOf.get(location.hash.slice(1));
    if (i !== undefined) open(i);
  }
  addEventListener("hashchange", fromHash);
  fromHash();
})();
