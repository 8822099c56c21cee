// Examples side by side: typical, doubtful and nearest known instances of a candidate.

import { make } from "./dom.js";
import { figure, percent, printable } from "./words.js";
import { named } from "./names.js";

const MOST = 5; // features of a table
const KINDS = [
  ["core", "Typical"],
  ["boundary", "Doubtful"],
  ["known", "Nearest known"],
];

export function examples({ examples: all, differs }, openInstance) {
  if (!all || KINDS.every(([kind]) => !all[kind]?.length))
    return [make("p", { className: "note", textContent: "No examples could be read." })];
  const features = chosen(all, differs);
  return KINDS.map(([kind, title]) =>
    make(
      "div",
      { className: `side ${kind === "known" ? "known" : "new"}` },
      make("h4", { textContent: title }),
      side(all[kind] ?? [], features, openInstance),
    ),
  );
}

// The most distinctive features come first.
function chosen(all, differs) {
  const there = new Set(KINDS.flatMap(([kind]) => all[kind] ?? []).flatMap((one) => Object.keys(one.features ?? {})));
  const telling = differs.map(({ feature }) => String(feature)).filter((name) => there.has(name));
  return [...new Set([...telling, ...there])].slice(0, MOST);
}

function side(some, features, openInstance) {
  if (some.length === 0) return make("p", { className: "note", textContent: "none" });
  if (some.some((one) => one.image))
    return make("div", { className: "pictures" }, ...some.map((one) => picture(one, openInstance)));
  if (features.length === 0)
    return make("ul", { className: "keys" }, ...some.map((one) => make("li", {}, opener(one, openInstance))));
  const head = make(
    "tr",
    {},
    make("th", { scope: "row", textContent: "key" }),
    ...some.map((one) => make("th", { scope: "col" }, opener(one, openInstance))),
  );
  const rows = features.map((name) =>
    make("tr", {}, make("th", { scope: "row" }, named(name)), ...some.map((one) => value(one.features?.[name]))),
  );
  return make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows));
}

function value(it) {
  const text = it === undefined || it === null ? "–" : figure(it);
  return make("td", { className: "n", title: text, textContent: text });
}

function opener(one, openInstance) {
  const told = Number.isFinite(one.p_unknown) ? `unknown ${percent(one.p_unknown)}` : "from training";
  const name = named(
    one.key === null || one.key === undefined ? (Number.isFinite(one.n) ? one.n : one.label) : one.key,
  );
  if (!Number.isFinite(one.n)) return name;
  const node = make("button", { type: "button", className: "open", onclick: () => openInstance(one.n) }, name);
  node.ariaDescription = told;
  return node;
}

function picture(one, openInstance) {
  const image = make("img", {
    src: one.image,
    alt: `${printable(one.key, 80)}`,
    loading: "lazy",
    decoding: "async",
    referrerPolicy: "no-referrer",
  });
  image.addEventListener("error", () =>
    image.replaceWith(make("span", { className: "lost", textContent: "no picture" })),
  );
  return make("figure", {}, image, make("figcaption", {}, opener(one, openInstance)));
}
