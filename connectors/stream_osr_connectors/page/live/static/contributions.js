// Contributions of the features of one instance to its log-odds: those of the decision, or computed when opened.

import { draw, make } from "./dom.js";
import { figure, printable } from "./words.js";
import { named } from "./names.js";

const MOST = 20;

export function contributions({ contributions: own, features }, compute) {
  if (own) return [make("h3", { textContent: "Contributions" }), ...tables(own)];
  return features && compute ? [whenOpened(compute)] : [];
}

function whenOpened(compute) {
  const content = make("div", {});
  let asked = false;
  const node = make("details", {}, make("summary", {}, make("h3", { textContent: "Contributions" })), content);
  node.addEventListener("toggle", async () => {
    if (!node.open || asked) return;
    asked = true;
    content.replaceChildren(make("p", { className: "note", role: "status", textContent: "Computing …" }));
    try {
      const note = "Computed now, with the state of the last checkpoint.";
      content.replaceChildren(make("p", { className: "note", textContent: note }), ...tables(await compute()));
    } catch (error) {
      asked = false;
      content.replaceChildren(make("p", { className: "wrong", role: "alert", textContent: error.message }));
    }
  });
  return node;
}

const tables = ({ unknown, nearest }) => [unknown, nearest].filter(Boolean).map((odds, at) => table(odds, at === 0));

function table({ label, against, log_odds: total, prior, features, rest }, ofUnknown) {
  const all = Array.isArray(features) ? features.filter((each) => typeof each?.contribution === "number") : [],
    some = all.slice(0, MOST),
    others = all.slice(MOST).reduce((sum, { contribution }) => sum + contribution, rest);
  const largest = Math.max(...some.map(({ contribution }) => Math.abs(contribution)), 1e-9);
  const head = make(
    "caption",
    {},
    className(label),
    " against ",
    against === null ? "all known classes" : className(against),
    `: log-odds ${signed(total)}`,
  );
  const row = (name, value, bar, contribution) =>
    make(
      "tr",
      { className: ofUnknown && contribution > 0 ? "new" : "" },
      make("th", { scope: "row" }, name),
      make("td", { className: "n" }, value),
      make("td", { className: "wide" }, bar),
      make("td", { className: "n", textContent: signed(contribution) }),
    );
  const rows = some.map(({ name, value, contribution }) =>
    row(
      named(name),
      value === null
        ? "missing"
        : make("span", { className: "clip", title: printable(value), textContent: figure(value) }),
      bar(contribution / largest),
      contribution,
    ),
  );
  const sum = [row("class frequency", "", "", prior), ...rows, row("rest", "", "", others)];
  return make("table", { className: "bars parts" }, head, make("tbody", {}, ...sum));
}

const className = (label) => make("bdi", { title: printable(label), textContent: printable(label, 60) });

// A bar from the middle to the right (positive) or to the left.
function bar(share) {
  const width = 50 * Math.min(1, Math.abs(share));
  const x = share < 0 ? 50 - width : 50;
  return draw(
    "svg",
    { class: "bar", "aria-hidden": "true" },
    draw("rect", { x: `${x.toFixed(2)}%`, width: `${width.toFixed(2)}%` }),
  );
}

const signed = (x) => (Number.isFinite(x) ? `${x < 0 ? "−" : "+"}${Math.abs(x).toFixed(1)}` : "–");
