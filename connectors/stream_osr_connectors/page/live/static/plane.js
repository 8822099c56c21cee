// The feature map. A name is placed where it covers no other name, or hidden if there is no such place.

import { draw, find, keep, say, show, unlessDrawn } from "./dom.js";
import { count, plural, printable, subclass } from "./words.js";

const EDGE = 16,
  LEFT = 40,
  BOTTOM = 36; // pixels around the points
const LEAST_RADIUS = 3.5,
  MOST_RADIUS = 15;
const LONGEST_NAME = 22;
const GAP = 3;

let points = [],
  axes = null,
  chosen = null,
  deeds = null;

export function plane(given) {
  deeds = given;
  const place = find("lies");
  const picture = draw("svg", {
    role: "group",
    "aria-label": "Feature map of the subclasses, arrow keys move between them",
  });
  picture.append(
    draw("g", { class: "grid", "aria-hidden": "true" }),
    draw("g", { class: "points" }),
    draw("g", { class: "names", "aria-hidden": "true" }),
  );
  place.append(picture);
  new ResizeObserver(() => redraw()).observe(place);
  picture.addEventListener("keydown", move);
  for (const kind of ["pointerover", "focusin"]) picture.addEventListener(kind, (event) => told(event.target));
  picture.addEventListener("pointerleave", () => say(find("lies-under"), ""));
}

function told(node) {
  const { point } = node;
  if (point) say(find("lies-under"), `${describe(point)}, ${plural(point.n, "instance")}`);
}

const describe = ({ id, kind, label }) =>
  kind === "known"
    ? `${printable(label, 80)}, a known class`
    : label === null || label === undefined
      ? subclass(id)
      : `${subclass(id)}, ${printable(label, 80)}`;

export function drawPlane({ plane: shown }) {
  const place = find("lies");
  show(place, shown.points.length > 0);
  show(find("lies-empty"), shown.points.length === 0);
  say(find("lies-empty"), "The map is empty until there is a checkpoint of the model, or an emerged subclass.");
  unlessDrawn(place, shown, () => {
    points = shown.points.filter(({ x, y }) => Number.isFinite(x) && Number.isFinite(y)).sort((a, b) => b.n - a.n);
    axes = shown.axes ?? ["first axis (standard deviations)", "second axis (standard deviations)"];
    redraw();
  });
}

function redraw() {
  const place = find("lies"),
    wide = place.clientWidth;
  if (wide === 0 || points.length === 0) return;
  const high = Math.max(260, Math.min(460, Math.round(0.72 * wide)));
  const picture = place.firstChild,
    [grid, dots, names] = picture.children;
  picture.setAttribute("viewBox", `0 0 ${wide} ${high}`);
  picture.setAttribute("height", high);
  const x = scale(
      points.map((point) => point.x),
      LEFT + EDGE,
      wide - EDGE,
    ),
    y = scale(
      points.map((point) => point.y),
      high - BOTTOM - EDGE,
      EDGE,
    );
  drawGrid(grid, x, y, wide, high);
  const most = Math.max(1, ...points.map(({ n }) => n));
  const placed = points.map((point) => ({
    point,
    cx: x.at(point.x),
    cy: y.at(point.y),
    r: Math.max(LEAST_RADIUS, Math.sqrt(point.n / most) * MOST_RADIUS),
  }));
  if (!points.some(({ id }) => String(id) === chosen)) chosen = String(points[0].id);
  keep(dots, placed, ({ point }) => String(point.id), makeDot, updateDot);
  drawNames(names, placed, wide, high);
}

function scale(values, from, to) {
  let low = Math.min(...values),
    high = Math.max(...values);
  if (high - low < 1e-9) [low, high] = [low - 1, high + 1];
  return { low, high, at: (value) => from + ((value - low) / (high - low)) * (to - from) };
}

function ticks({ low, high }) {
  const rough = (high - low) / 5,
    size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * size).find((one) => one >= rough);
  const out = [];
  for (let at = Math.ceil(low / step); at * step <= high && out.length < 12; at++)
    out.push(Number((at * step).toPrecision(6)));
  return out;
}

function drawGrid(grid, x, y, wide, high) {
  const floor = high - BOTTOM,
    lines = [];
  for (const at of ticks(x))
    lines.push(draw("path", { d: `M${x.at(at)} 0V${floor}` }), text(x.at(at), floor + 14, count(at), "middle"));
  for (const at of ticks(y))
    lines.push(draw("path", { d: `M${LEFT} ${y.at(at)}H${wide}` }), text(LEFT - 6, y.at(at) + 4, count(at), "end"));
  const across = text(LEFT + (wide - LEFT) / 2, high - 5, printable(axes[0], 60), "middle"),
    up = text(0, 0, printable(axes[1], 60), "middle");
  up.setAttribute("transform", `translate(11 ${floor / 2}) rotate(-90)`);
  grid.replaceChildren(...lines, across, up);
}

const text = (x, y, shown, anchor) => draw("text", { x, y, "text-anchor": anchor }, shown);

function makeDot({ point }) {
  const dot = draw("circle", { role: "button", class: point.kind === "known" ? "known" : "new" });
  dot.append(draw("title"));
  const open = () =>
    deeds.openSubclass(dot.point.kind === "known" ? `class:${dot.point.label}` : String(dot.point.id));
  dot.addEventListener("click", open);
  dot.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    open();
  });
  return dot;
}

function updateDot(dot, { point, cx, cy, r }) {
  dot.point = point;
  for (const [name, value] of Object.entries({
    cx: cx.toFixed(1),
    cy: cy.toFixed(1),
    r: r.toFixed(1),
    class: point.kind === "known" ? "known" : "new",
  }))
    dot.setAttribute(name, value);
  dot.setAttribute("tabindex", String(point.id) === chosen ? 0 : -1);
  dot.setAttribute("aria-label", `${describe(point)}, ${plural(point.n, "instance")}`);
  say(dot.firstChild, describe(point));
}

// Names of new subclasses first, then of known classes at their largest subclass.
function drawNames(names, placed, wide, high) {
  const labelled = new Set(),
    wanted = [];
  for (const one of [
    ...placed.filter(({ point }) => point.kind !== "known"),
    ...placed.filter(({ point }) => point.kind === "known"),
  ]) {
    const { kind, label, id } = one.point,
      name =
        kind === "known"
          ? printable(label, LONGEST_NAME)
          : label === null || label === undefined
            ? subclass(id)
            : printable(label, LONGEST_NAME);
    if (kind === "known" && labelled.has(name)) continue;
    labelled.add(name);
    wanted.push({ ...one, node: draw("text", { class: kind === "known" ? "known" : "new" }, name) });
  }
  names.replaceChildren(...wanted.map(({ node }) => node));
  const sizes = wanted.map(({ node }) => node.getBBox()),
    taken = [];
  wanted.forEach(({ node, cx, cy, r }, at) => {
    const { width, height } = sizes[at],
      spots = around(cx, cy, r, width, height).filter(
        ({ left, top }) => left >= LEFT && left + width <= wide && top >= 0 && top + height <= high - BOTTOM,
      );
    const free = spots.filter((spot) => !taken.some((other) => cover(spot, other)));
    const best =
      free.find(
        (spot) =>
          !placed.some(
            (dot) => dot.cx > spot.left && dot.cx < spot.right && dot.cy > spot.top && dot.cy < spot.bottom,
          ),
      ) ?? free[0];
    if (best === undefined) {
      node.remove();
      return;
    }
    taken.push(best);
    node.setAttribute("x", best.left.toFixed(1));
    node.setAttribute("y", (best.top - sizes[at].y).toFixed(1));
  });
}

function around(cx, cy, r, width, height) {
  const middle = cy - height / 2,
    centre = cx - width / 2,
    side = r + GAP;
  const corners = [
    [cx + side, middle],
    [cx - side - width, middle],
    [centre, cy - side - height],
    [centre, cy + side],
    [cx + 0.7 * side, cy - 0.7 * side - height],
    [cx + 0.7 * side, cy + 0.7 * side],
  ];
  return corners.map(([left, top]) => ({ left, top, right: left + width, bottom: top + height }));
}

const cover = (a, b) => a.left < b.right + GAP && b.left < a.right + GAP && a.top < b.bottom && b.top < a.bottom;

function move(event) {
  const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (by === undefined) return;
  event.preventDefault();
  const dots = [...find("lies").firstChild.children[1].children],
    at = dots.findIndex((dot) => String(dot.point.id) === chosen);
  const next = dots[(at + by + dots.length) % dots.length];
  dots[at]?.setAttribute("tabindex", -1);
  chosen = String(next.point.id);
  next.setAttribute("tabindex", 0);
  next.focus();
}
