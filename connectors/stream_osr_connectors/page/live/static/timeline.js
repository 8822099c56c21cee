// Arrivals along the stream: the share of unknown instances, and a strip for each new subclass and known class.

import { draw, find, keep, make, say, show, unlessDrawn } from "./dom.js";
import { count, percent, plural, printable, subclass } from "./words.js";
import { rename } from "./names.js";

const WIDE = 1000,
  HIGH = 20,
  RATE_HIGH = 100;
const LEVELS = 5; // strengths of colour
const TICK_WIDE = 64; // pixels that a tick needs
const OTHERS = "others";

let drawn = null;

export function timeline() {
  const place = find("came");
  place.addEventListener("pointermove", under);
  place.addEventListener("pointerleave", () => say(find("came-under"), ""));
  new ResizeObserver(() => {
    const axis = place.querySelector(".ticks div");
    if (axis && drawn) drawTicks(axis);
  }).observe(place);
  place.addEventListener("focusin", (event) => {
    const { row } = event.target.closest(".strip") ?? {};
    if (row)
      say(
        find("came-under"),
        `${row.name}: ${plural(row.total, "arrival")}${row.total === 0 ? "" : `, first at ${count(drawn.edges[row.first])}`}`,
      );
  });
}

export function drawTimeline({ timeline: told, inbox }, { openSubclass }) {
  const bins = told.edges.length - 1,
    place = find("came");
  show(find("came-empty"), bins < 1);
  say(find("came-empty"), "Nothing has arrived yet.");
  show(place, bins >= 1);
  if (bins < 1) return;
  const names = Object.fromEntries(
    inbox
      .filter(({ label }) => label !== null && label !== undefined)
      .map(({ id, label }) => [id, printable(label, 80)]),
  );
  unlessDrawn(place, [told, names], () => {
    drawn = told;
    const nameOf = (id) => (Object.hasOwn(names, id) ? `${subclass(id)} ${names[id]}` : subclass(id));
    const rows = [
      ...rowsOf(told.subclasses, "new", (id) => (id === OTHERS ? OTHERS : nameOf(id)), told.marks),
      ...rowsOf(told.classes, "known", (label) => printable(label, 80)),
    ];
    const most = Math.max(1, ...rows.flatMap(({ counts }) => counts));
    const items = [
      { key: "rate", kind: "rate" },
      ...rows.map((row) => ({ ...row, most })),
      { key: "ticks", kind: "ticks" },
    ];
    keep(
      place,
      items,
      ({ key }) => key,
      (item) => makeStrip(item, openSubclass),
      updateStrip,
    );
  });
}

const rowsOf = (all, kind, name, marks = {}) =>
  Object.entries(all).map(([id, counts]) => ({
    key: `${kind}:${id}`,
    id,
    kind,
    name: name(id),
    counts,
    marks: marks[id] ?? [],
    total: counts.reduce((a, b) => a + b, 0),
    first: counts.findIndex((n) => n > 0),
  }));

function makeStrip({ kind, id, name }, openSubclass) {
  if (kind === "ticks")
    return make("div", { className: "strip ticks", ariaHidden: "true" }, make("span"), make("div"), make("span"));
  const high = kind === "rate" ? RATE_HIGH : HIGH;
  const picture = draw("svg", { viewBox: `0 0 ${WIDE} ${high}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  if (kind === "rate") {
    picture.append(
      ...[0, 50, 100].map((y) => draw("path", { class: "ground", d: `M0 ${y}h${WIDE}` })),
      draw("path", { class: "line truth" }),
      draw("path", { class: "line" }),
    );
    return make(
      "div",
      { className: "strip rate" },
      make(
        "span",
        { className: "label" },
        make("i", { textContent: "100 %" }),
        "unknown",
        make("i", { textContent: "0 %" }),
      ),
      picture,
      make("span", { className: "n" }),
    );
  }
  for (let level = 1; level <= LEVELS; level++) picture.append(draw("path", { class: `level${level}` }));
  picture.append(draw("path", { class: "marks" }));
  const label =
    id === OTHERS
      ? make("bdi", { className: "label" })
      : make("button", {
          type: "button",
          className: "label open",
          onclick: () => openSubclass(kind === "new" ? id : `class:${id}`),
        });
  const text = rename(make("bdi", { className: "clip" }), name);
  label.append(text);
  return make("div", { className: `strip ${kind}` }, label, picture, make("span", { className: "n" }));
}

function updateStrip(strip, { kind, counts, total, most, name, first, marks }) {
  const [, picture, number] = strip.children;
  if (kind === "rate") {
    picture.lastChild.setAttribute("d", rateLine(drawn.unknown));
    picture.lastChild.previousSibling.setAttribute("d", rateLine(drawn.truly_unknown ?? []));
    const known = drawn.unknown.filter(Number.isFinite);
    say(number, known.length === 0 ? "" : percent(known.at(-1)));
  } else if (kind === "ticks") drawTicks(picture);
  else {
    strip.row = { name, total, counts, first, marks };
    rename(strip.firstChild.firstChild, name);
    say(number, count(total));
    drawCells(picture, counts, most);
    picture.lastChild.setAttribute("d", marks.map(([at]) => `M${place(at).toFixed(1)} 0v${HIGH}`).join(""));
  }
}

function place(edge) {
  const { edges } = drawn,
    first = edges[0],
    last = edges.at(-1);
  return last === first ? 0 : ((edge - first) / (last - first)) * WIDE;
}

function drawCells(picture, counts, most) {
  const cells = Array.from({ length: LEVELS }, () => "");
  counts.forEach((n, at) => {
    if (n <= 0) return;
    const from = place(drawn.edges[at]),
      to = place(drawn.edges[at + 1]);
    cells[Math.min(LEVELS, Math.ceil((LEVELS * n) / most)) - 1] +=
      `M${from.toFixed(1)} 0h${(to - from).toFixed(1)}v${HIGH}h${(from - to).toFixed(1)}z`;
  });
  cells.forEach((d, level) => picture.children[level].setAttribute("d", d));
}

function rateLine(rates) {
  let d = "",
    pen = "M";
  rates.forEach((rate, at) => {
    if (!Number.isFinite(rate)) {
      pen = "M";
      return;
    }
    d += `${pen}${place(drawn.edges[at]).toFixed(1)} ${((1 - rate) * RATE_HIGH).toFixed(1)}H${place(drawn.edges[at + 1]).toFixed(1)}`;
    pen = "L";
  });
  return d;
}

function drawTicks(axis) {
  const first = drawn.edges[0],
    last = drawn.edges.at(-1);
  const ticks = nice(first, last, Math.max(2, axis.clientWidth / TICK_WIDE));
  keep(
    axis,
    ticks,
    String,
    () => make("span"),
    (tick, at) => {
      say(tick, count(at));
      tick.style.left = `${((place(at) / WIDE) * 100).toFixed(2)}%`;
    },
  );
}

function nice(first, last, most) {
  const rough = Math.max(1, (last - first) / most),
    size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * size).find((one) => one >= rough);
  const out = [];
  for (let at = Math.ceil(first / step) * step; at <= last - step / 4 && out.length < 24; at += step) out.push(at);
  return out;
}

// The values under the pointer, in a line below the strips.
function under(event) {
  const strip = event.target.closest(".strip"),
    picture = strip?.querySelector("svg");
  if (!picture || drawn === null) return;
  const box = picture.getBoundingClientRect(),
    x = ((event.clientX - box.left) / box.width) * WIDE;
  const at = drawn.edges.findIndex((edge, number) => number > 0 && x < place(edge)) - 1;
  if (x < 0 || at < 0) return;
  const here = `${count(drawn.edges[at])} to ${count(drawn.edges[at + 1])}`,
    rate = drawn.unknown[at];
  const own = strip.row ? `${strip.row.name}: ${plural(strip.row.counts[at], "arrival")}, ` : "";
  const between = ([seq]) => seq >= drawn.edges[at] && seq < drawn.edges[at + 1];
  const marks = (strip.row?.marks ?? []).filter(between).map(([seq, what]) => `, ${what} at ${count(seq)}`);
  say(find("came-under"), `${here}: ${own}${percent(rate)} unknown${marks.join("")}`);
}
