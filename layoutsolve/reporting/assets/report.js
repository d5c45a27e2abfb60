"use strict";
// Both graphs side by side: what is drawn, found, selected and told.
(() => {
  const SLOW = 800; // from so many operators on, lines are left out while the view moves
  const HEIGHT = { quant: 20, "": 28 };
  const TIGHT = 0.8; // of the distances between layers, where all is seen at once
  const data = JSON.parse(document.getElementById("data").textContent);
  const PART = data.part;
  const byId = (id) => document.getElementById(id);
  const find = byId("find"), matches = byId("matches"), found = byId("found"), details = byId("details");

  const make = (tag, attributes = {}, ...content) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "onclick") made.addEventListener("click", value);
      else made.setAttribute(name, value);
    }
    made.append(...content);
    return made;
  };

  // Colours are CSS variables, which a canvas has to be told.
  const probe = document.body.appendChild(make("span", { hidden: "" }));
  const colour = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };

  const styles = () => {
    const ordered = ["same", "first", "other", "none"].map((order) => ({
      selector: `node[order = "${order}"]`,
      style: { "background-color": colour(order), "border-color": colour(`${order}-edge`) },
    }));
    const font = getComputedStyle(document.body).fontFamily;
    return [
      {
        selector: "node",
        style: {
          shape: "round-rectangle", width: "data(w)", height: "data(h)", label: "data(label)", color: colour("ink"),
          "font-size": 12, "font-family": font, "text-valign": "center", "border-width": 1.5,
          "min-zoomed-font-size": 5, "transition-duration": 0, "corner-radius": 6,
        },
      },
      ...ordered,
      { selector: 'node[kind = "quant"]', style: { "font-size": 10, "border-width": 1, "background-opacity": 0.45 } },
      { selector: 'node[kind = "end"]', style: { "corner-radius": 14, "font-weight": 600, "border-width": 2 } },
      { selector: 'node[kind = "reshape"]', style: { "border-style": "dashed", "background-opacity": 0.35 } },
      {
        selector: 'node[kind = "transpose"]',
        style: {
          shape: "hexagon", "background-color": colour("transpose"), "border-color": colour("ink"),
          color: colour("transpose-ink"), "font-weight": 600,
        },
      },
      {
        selector: 'node[kind = "slow"]',
        style: {
          "background-color": colour("slow"), "border-style": "double", "border-width": 4,
          "border-color": colour("ink"), color: colour("slow-ink"),
        },
      },
      {
        selector: "edge",
        style: { width: 1.3, "line-color": colour("line"), "curve-style": "straight", "events": "no" },
      },
      {
        selector: "edge[bends]",
        style: {
          "curve-style": "round-segments", "edge-distances": "node-position", "segment-radii": 8,
          "segment-weights": "data(weights)", "segment-distances": "data(distances)",
        },
      },
      {
        selector: 'node[kind = "fold"]',
        style: { "border-style": "dashed", "background-color": colour("raised"), "border-color": colour("soft") },
      },
      { selector: "node.hit", style: { "underlay-color": colour("link"), "underlay-opacity": 0.35, "underlay-padding": 5 } },
      { selector: ".linked", style: { "outline-color": colour("link"), "outline-width": 2.5, "outline-offset": 2.5 } },
      { selector: "node.chosen", style: { "outline-color": colour("ink"), "outline-width": 3, "outline-offset": 2 } },
      { selector: "edge.near", style: { width: 2.6, "line-color": colour("link"), "z-index": 9 } },
    ];
  };

  // Where a line bends, as Cytoscape wants it: along the straight one between its ends, and beside it.
  const bent = (from, to, bends) => {
    const [dx, dy] = [to.x - from.x, to.y - from.y];
    const length = Math.hypot(dx, dy);
    const weights = [], distances = [];
    for (let at = 0; at < bends.length; at += 2) {
      const [px, py] = [bends[at] - from.x, bends[at + 1] - from.y];
      weights.push((px * dx + py * dy) / (length * length));
      distances.push((px * dy - py * dx) / -length);
    }
    return { bends: 1, weights, distances };
  };

  class Panel {
    constructor(name) {
      Object.assign(this, data[name], { name, box: byId(name), at: { tab: -1, part: 0 }, hits: new Set() });
      this.canvas = this.box.querySelector(".canvas");
      this.makers = new Map();
      this.readers = new Map();
      this.nodes.forEach((node, id) => {
        for (const each of node.gives ?? []) if (!this.makers.has(each)) this.makers.set(each, id);
        for (const each of node.reads ?? []) this.readers.set(each, [...(this.readers.get(each) ?? []), id]);
      });
      this.tabs.forEach(([, begin, end], tab) => {
        for (let id = begin; id < end; id++) this.nodes[id].tab = tab;
      });
      this.ordered = this.tabs.map(([, begin, end]) => {
        const ids = Array.from({ length: end - begin }, (_, place) => begin + place);
        const { nodes } = this;
        ids.sort((a, b) => nodes[a].y - nodes[b].y || nodes[a].x - nodes[b].x);
        ids.forEach((id, place) => (nodes[id].part = Math.floor(place / PART)));
        return ids;
      });
      this.folded = this.folded.map((view, tab) => (this.ordered[tab].length > PART ? null : view));
      this.lines = this.tabs.map(() => []);
      this.edges.forEach((edge) => this.lines[this.nodes[edge[0]].tab].push(edge));
      this.cy = cytoscape({
        container: this.canvas, style: styles(), autoungrabify: true, autounselectify: true, boxSelectionEnabled: false,
        minZoom: 0.02, maxZoom: 4, hideEdgesOnViewport: this.nodes.length > SLOW, pixelRatio: "auto",
      });
      this.cy.on("tap", "node", (event) => {
        const hidden = event.target.data("hidden");
        if (hidden) select(this, hidden[0], true);
        else select(this, Number(event.target.id()), false);
      });
      this.cy.on("tap", (event) => event.target === this.cy && clear());
      this.zoomed = this.box.querySelector("output.level");
      this.cy.on("zoom", () => (this.zoomed.textContent = `${Math.round(100 * this.cy.zoom())} %`));
      this.wire();
      this.show(Math.max(0, this.tabs.findIndex((_, tab) => tab === this.main)), 0);
    }

    // What is seen at once of a tab: nodes and blocks, in as many columns as make them largest.
    overview(tab) {
      const view = this.folded[tab];
      const more = view.more.map(([label, x, y, w, hidden], place) => {
        return { id: `more${place}`, x, y: y * TIGHT, data: { label, kind: "fold", order: "none", w, h: 22, hidden } };
      });
      const nodes = view.nodes.map(([id, x, y]) => ({ id: String(id), x, y: y * TIGHT, data: this.drawn(id) })).concat(more);
      const half = (node) => node.data.w / 2;
      const left = Math.min(...nodes.map((node) => node.x - half(node)));
      const wide = Math.max(...nodes.map((node) => node.x + half(node))) - left + 24;
      const top = Math.min(...nodes.map((node) => node.y)), high = Math.max(...nodes.map((node) => node.y)) - top + 44;
      const level = (count) => Math.min(this.cy.width() / (count * wide), this.cy.height() / (high / count + 60));
      let columns = 1;
      for (let count = 2; level(columns) < 0.8 && count <= 16; count++) if (level(count) > level(columns)) columns = count;
      const each = high / columns;
      const column = (y) => Math.min(Math.floor((y - top) / each), columns - 1);
      const placed = (x, y, at = column(y)) => ({ x: x - left + at * wide, y: y - top - at * each });
      const drawn = nodes.map(({ id, x, y, data }) => ({ data: { id, ...data }, position: placed(x, y) }));
      for (const [from, to, ...bends] of view.lines) {
        const [one, other] = [nodes[from], nodes[to]];
        const at = column(one.y);
        const points = [];
        for (let place = 0; place < bends.length; place += 2) {
          const { x, y } = placed(bends[place], bends[place + 1] * TIGHT, at);
          points.push(x, y);
        }
        const bend = points.length && column(other.y) === at;
        const more = bend ? bent(placed(one.x, one.y), placed(other.x, other.y), points) : {};
        drawn.push({ data: { source: one.id, target: other.id, ...more } });
      }
      return drawn;
    }

    drawn(id) {
      const { kind = "", label, order, w } = this.nodes[id];
      return { label, kind, order, w, h: HEIGHT[kind] ?? HEIGHT[""] };
    }

    wire() {
      const { box } = this;
      this.choice = box.querySelector("select");
      this.tabs.forEach(([title, begin, end], tab) => {
        const inner = this.nodes.slice(begin, end).filter((node) => node.kind !== "end").length;
        this.choice.append(make("option", { value: tab }, `${title} (${inner})`));
      });
      this.choice.hidden = this.tabs.length < 2;
      this.choice.addEventListener("change", () => this.show(Number(this.choice.value), 0));
      const parts = (step) => () => this.show(this.at.tab, this.at.part + step);
      box.querySelector(".before").addEventListener("click", parts(-1));
      box.querySelector(".after").addEventListener("click", parts(1));
      box.querySelector(".in").addEventListener("click", () => this.zoom(1.4));
      box.querySelector(".out").addEventListener("click", () => this.zoom(1 / 1.4));
      box.querySelector(".fit").addEventListener("click", () => this.fit());
      this.folding = box.querySelector(".fold");
      this.folding.addEventListener("click", () => this.show(this.at.tab, this.at.part, !this.at.folded));
      this.canvas.addEventListener("keydown", (event) => this.key(event));
      this.canvas.addEventListener("pointerdown", () => this.canvas.focus({ preventScroll: true }));
    }

    show(tab, part, folded = this.at.tab === tab ? this.at.folded : true) {
      folded = folded && Boolean(this.folded[tab]);
      if (this.at.tab === tab && this.at.part === part && this.at.folded === folded) return;
      this.at = { tab, part, folded };
      this.choice.value = String(tab);
      this.folding.hidden = !this.folded[tab];
      this.folding.textContent = folded ? "unfold" : "fold";
      if (folded) {
        this.draw(this.overview(tab));
        this.tellPart(this.ordered[tab].length, 0);
        this.fit();
        this.mark();
        return;
      }
      const ids = (this.ordered[tab] ?? []).slice(part * PART, (part + 1) * PART);
      const shown = new Set(ids);
      const top = ids.length ? this.nodes[ids[0]].y : 0;
      const place = (id) => ({ x: this.nodes[id].x, y: this.nodes[id].y - top });
      const drawn = ids.map((id) => {
        return { data: { id: String(id), ...this.drawn(id) }, position: place(id) };
      });
      for (const [from, to, ...bends] of this.lines[tab] ?? []) {
        if (!shown.has(from) || !shown.has(to)) continue;
        const moved = bends.map((value, at) => (at % 2 ? value - top : value));
        const more = bends.length ? bent(place(from), place(to), moved) : {};
        drawn.push({ data: { source: String(from), target: String(to), ...more } });
      }
      this.draw(drawn);
      this.tellPart(ids.length, part);
      this.begin();
      this.mark();
    }

    draw(elements) {
      this.cy.batch(() => {
        this.cy.elements().remove();
        this.cy.add(elements);
      });
    }

    tellPart(count, part) {
      const all = (this.ordered[this.at.tab] ?? []).length;
      const box = this.box.querySelector(".parts");
      box.hidden = all <= PART;
      box.querySelector("output").textContent = `${part * PART + 1}–${part * PART + count} of ${all}`;
      box.querySelector(".before").disabled = part === 0;
      box.querySelector(".after").disabled = (part + 1) * PART >= all;
      const blank = this.canvas.parentElement.querySelector(".blank");
      blank.hidden = count > 0;
    }

    // All of it where that can be read, else its beginning.
    begin() {
      const whole = this.cy.elements().boundingBox();
      const [width, height] = [this.cy.width(), this.cy.height()];
      const wide = Math.min((width - 40) / whole.w, 1);
      const zoom = Math.max(Math.min(wide, (height - 40) / whole.h), Math.min(wide, 0.75), 0.45);
      const first = this.cy.nodes()[0];
      if (!first) return;
      const middle = wide < 0.45 ? first.position("x") : (whole.x1 + whole.x2) / 2;
      const above = whole.h * zoom < height - 40 ? (height - whole.h * zoom) / 2 : 20;
      this.cy.viewport({ zoom, pan: { x: width / 2 - middle * zoom, y: above - whole.y1 * zoom } });
    }

    fit() {
      this.cy.fit(undefined, 20);
    }

    zoom(factor) {
      const middle = { x: this.cy.width() / 2, y: this.cy.height() / 2 };
      this.cy.zoom({ level: this.cy.zoom() * factor, renderedPosition: middle });
    }

    // Bring operators into sight, and mark what is chosen, linked and found.
    reveal(ids) {
      if (!ids.length) return;
      const first = this.nodes[ids[0]];
      this.show(first.tab, first.part);
      if (this.at.folded && !this.cy.$id(String(ids[0])).length) this.show(first.tab, first.part, false);
      const seen = this.cy.collection(ids.map((id) => this.cy.$id(String(id))).filter((each) => each.length));
      if (this.at.folded) return; // all of it is in sight
      const zoom = Math.max(this.cy.zoom(), 0.7);
      this.cy.viewport({ zoom, pan: this.cy.pan() });
      this.cy.center(seen);
    }

    mark(chosen = this.chosen ?? null, linked = this.linked ?? []) {
      Object.assign(this, { chosen, linked });
      this.cy.batch(() => {
        this.cy.elements(".chosen, .linked, .near").removeClass("chosen linked near");
        for (const id of linked) this.cy.$id(String(id)).addClass("linked");
        const marked = new Set(this.cy.nodes(".hit").map((node) => Number(node.id())));
        for (const id of marked) if (!this.hits.has(id)) this.cy.$id(String(id)).removeClass("hit");
        for (const id of this.hits) if (!marked.has(id)) this.cy.$id(String(id)).addClass("hit");
        if (chosen !== null) this.cy.$id(String(chosen)).addClass("chosen").connectedEdges().addClass("near");
      });
    }

    key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const does = {
        ArrowDown: () => this.step("y", 1), ArrowUp: () => this.step("y", -1),
        ArrowRight: () => this.step("x", 1), ArrowLeft: () => this.step("x", -1),
        "+": () => this.zoom(1.4), "=": () => this.zoom(1.4), "-": () => this.zoom(1 / 1.4), 0: () => this.fit(),
      }[event.key];
      if (!does) return;
      event.preventDefault();
      does();
    }

    // Down to what reads the result, up to what makes an operand, sideways along the layer.
    step(axis, way) {
      if (this.chosen === null || this.chosen === undefined) {
        const first = (this.ordered[this.at.tab] ?? [])[this.at.part * PART];
        if (first !== undefined) select(this, first, true);
        return;
      }
      const node = this.nodes[this.chosen];
      const beside = () => this.ordered[node.tab].filter((id) => this.nodes[id].y === node.y);
      let near;
      if (axis === "x") near = beside()[beside().indexOf(this.chosen) + way];
      else if (way > 0) near = (node.gives ?? []).flatMap((each) => this.readers.get(each) ?? [])[0];
      else near = this.above(node);
      if (near !== undefined) select(this, near, true);
    }

    // What makes an operand: of several the one that reads something itself.
    above(node) {
      const made = (node.reads ?? []).map((each) => this.makers.get(each)).filter((id) => id !== undefined);
      return made.find((id) => (this.nodes[id].reads ?? []).some((each) => this.makers.has(each))) ?? made[0];
    }
  }

  const linkedTo = (panel, id) => {
    if (panel.name === "written") return panel.nodes[id].comes ?? [];
    return written.nodes.flatMap((node, number) => ((node.comes ?? []).includes(id) ? [number] : []));
  };

  const select = (panel, id, reveal) => {
    const other = panel === written ? source : written;
    const linked = linkedTo(panel, id);
    panel.chosen = id;
    if (reveal) panel.reveal([id]);
    panel.mark(id, []);
    other.reveal(linked);
    other.mark(null, linked);
    tell(panel, id, linked);
  };

  const clear = () => {
    for (const panel of [written, source]) panel.mark(null, []);
    details.replaceChildren(...help());
  };

  const help = () => {
    const keys = [["/", "search"], ["↑ ↓ ← →", "from operator to operator"], ["+ − 0", "zoom, fit"], ["Esc", "let go"]];
    const list = make("ul", {}, ...keys.map(([key, what]) => make("li", {}, make("kbd", {}, key), ` ${what}`)));
    const first = "Choose an operator to see what it reads, where it comes from and why it is there.";
    return [make("h2", {}, "Operators"), make("p", { class: "soft" }, first), list];
  };

  const link = (panel, id, text) => {
    return make("button", { class: "link mono", title: text, onclick: () => select(panel, id, true) }, text);
  };

  const tensor = (panel, number, others, arrow) => {
    const [name, kind, constant, dims] = panel.tensors[number];
    const line = make("li", {}, make("span", { class: "mono" }, name), make("br"));
    const order = dims ? ` · order ${dims}` : "";
    line.append(make("span", { class: "soft" }, `${kind}${constant ? " · constant" : ""}${order}`));
    for (const id of others.slice(0, 12)) line.append(make("div", { class: "tie" }, arrow, link(panel, id, title(panel, id))));
    if (others.length > 12) line.append(make("br"), `and ${others.length - 12} more`);
    return line;
  };

  const title = (panel, id) => {
    const { op, name } = panel.nodes[id];
    return panel === source ? name : name && name !== op ? name : op;
  };

  const list = (heading, items) => (items.length ? [make("h3", {}, heading), make("ul", {}, ...items)] : []);

  const ORDERS = {
    same: "stored in the source's order of dimensions", first: "stored channels first",
    other: "stored in another order of dimensions", none: "",
  };

  const tell = (panel, id, linked) => {
    const node = panel.nodes[id], other = panel === written ? source : written;
    const content = [make("h2", {}, node.op)];
    content.push(make("p", { class: "mono soft" }, node.name));
    if (panel === written && ORDERS[node.order]) content.push(make("p", {}, ORDERS[node.order]));
    if (node.why) content.push(make("div", { class: `why ${node.kind}` }, ...node.why.map((line) => make("p", {}, line))));
    if (node.share) content.push(make("p", {}, node.share));
    const ties = linked.slice(0, 24).map((each) => make("li", {}, link(other, each, title(other, each))));
    content.push(...list(panel === written ? "From" : "Written as", ties));
    const opens = (node.opens ?? []).map((tab) => {
      return make("li", {}, make("button", { class: "link mono", onclick: () => panel.show(tab, 0) }, panel.tabs[tab][0]));
    });
    content.push(...list("Opens", opens));
    const makers = (each) => (panel.makers.has(each) ? [panel.makers.get(each)] : []);
    content.push(...list("Reads", (node.reads ?? []).map((each) => tensor(panel, each, makers(each), "← "))));
    content.push(...list("Gives", (node.gives ?? []).map((each) => tensor(panel, each, panel.readers.get(each) ?? [], "→ "))));
    content.push(...list("Attributes", (node.facts ?? []).map((fact) => make("li", { class: "mono" }, fact))));
    details.replaceChildren(...content);
    details.scrollTop = 0;
  };

  // Search: words that all have to be in an operator's name, its type, its kind or its tensors.
  const texts = new Map();
  const text = (panel, id) => {
    const key = `${panel.name}${id}`;
    if (!texts.has(key)) {
      const { op, name, kind = "", gives = [] } = panel.nodes[id];
      texts.set(key, [op, name, `kind:${kind}`, ...gives.map((each) => panel.tensors[each][0])].join("\n").toLowerCase());
    }
    return texts.get(key);
  };

  let hits = [], current = 0;

  const search = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    hits = [];
    for (const panel of [written, source]) {
      panel.hits = new Set();
      if (words.length) {
        panel.nodes.forEach((_, id) => {
          if (words.every((word) => text(panel, id).includes(word))) panel.hits.add(id);
        });
      }
      hits.push(...[...panel.hits].map((id) => [panel, id]));
      panel.mark();
    }
    current = 0;
    found.textContent = words.length ? `${hits.length} found` : "";
    offer();
  };

  const offer = () => {
    matches.hidden = !hits.length || document.activeElement !== find;
    find.setAttribute("aria-expanded", String(!matches.hidden));
    if (matches.hidden) return;
    const start = Math.max(0, Math.min(current - 50, hits.length - 100));
    const rows = hits.slice(start, start + 100).map(([panel, id], place) => {
      const chosen = start + place === current;
      const row = make("li", { role: "option", "aria-selected": chosen, ...(chosen && { id: "match" }) });
      const { op, name } = panel.nodes[id];
      row.append(make("b", {}, op), make("span", {}, panel === source ? `source · ${name}` : name));
      row.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        take(start + place);
      });
      return row;
    });
    matches.replaceChildren(...rows);
    find.setAttribute("aria-activedescendant", "match");
    byId("match")?.scrollIntoView({ block: "nearest" });
  };

  const take = (place) => {
    current = place;
    const [panel, id] = hits[place];
    select(panel, id, true);
    matches.hidden = true;
    find.setAttribute("aria-expanded", "false");
    panel.canvas.focus({ preventScroll: true });
  };

  find.addEventListener("input", search);
  find.addEventListener("focus", offer);
  find.addEventListener("blur", () => (matches.hidden = true));
  find.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && hits.length) {
      event.preventDefault();
      current = (current + step + hits.length) % hits.length;
      offer();
    } else if (event.key === "Enter" && hits.length) take(current);
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof HTMLInputElement;
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      byId("graphs").scrollIntoView({ block: "start" });
      find.focus({ preventScroll: true });
      find.select();
    } else if (event.key === "Escape") {
      find.value = "";
      search();
      clear();
      if (typing) find.blur();
    }
  });
  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      find.value = `kind:${button.dataset.kind}`;
      find.focus({ preventScroll: true });
      search();
    });
  }

  const written = new Panel("written"), source = new Panel("source");
  addEventListener("themed", () => [written, source].forEach(({ cy }) => cy.style(styles())));
  clear();
  requestAnimationFrame(() => (document.documentElement.dataset.ready = Math.round(performance.now())));
})();
