// The known classes: their share of the stream and their estimated recall.

import { draw, find, keep, make, say, show, unlessDrawn } from "./dom.js";
import { count, percent } from "./words.js";
import { named } from "./names.js";

const AT_FIRST = 12;

let all = false;

export function known(redraw) {
  find("known-more")
    .querySelector("button")
    .addEventListener("click", () => {
      all = true;
      redraw();
    });
}

export function drawKnown(state, { openSubclass }) {
  const classes = all ? state.known : state.known.slice(0, AT_FIRST);
  show(find("known"), classes.length > 0);
  show(find("known-empty"), classes.length === 0);
  say(find("known-empty"), "No known class has been decided yet.");
  show(find("known-more"), state.known.length > classes.length);
  say(find("known-more").querySelector("button"), `Show all ${state.known.length}`);
  keep(find("known").tBodies[0], classes, ({ label }) => JSON.stringify(label), makeRow, updateRow);
  drawSignals(state.signals);

  function makeRow({ label }) {
    const open = make(
      "button",
      { type: "button", className: "open", onclick: () => openSubclass(`class:${label}`) },
      named(label),
    );
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, open),
      make("td", { className: "n" }),
      make("td", { className: "n" }),
      make("td", { className: "wide" }),
    );
  }
}

function updateRow(row, { n, share, recall }) {
  const [, decided, part, sure] = row.children;
  say(decided, count(n));
  say(part, percent(share));
  unlessDrawn(sure, recall, () =>
    sure.replaceChildren(
      ...(recall
        ? [interval(recall), `${percent(recall.value)} (${percent(recall.low)} to ${percent(recall.high)})`]
        : ["not available"]),
    ),
  );
}

function interval({ value, low, high }) {
  const x = (share) => (100 * Math.max(0, Math.min(1, share))).toFixed(2);
  return draw(
    "svg",
    { class: "interval", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    draw("rect", { class: "all", x: 0, y: 3.5, width: 100, height: 3 }),
    draw("rect", { class: "sure", x: x(low), y: 2, width: Math.max(0.6, x(high) - x(low)), height: 6 }),
    draw("path", { class: "at", d: `M${x(value)} 0v10` }),
  );
}

const SIGNALS = {
  novelty: "new subclasses announced",
  drift: "drifts of known classes",
  outliers: "outliers",
  data_quality: "records with missing or unusable values",
  odd_values: "instances with one odd value that was not used",
};

function drawSignals(signals) {
  const told = Object.entries(SIGNALS)
    .filter(([name]) => Number.isFinite(signals?.[name]))
    .map(([name, what]) => `${count(signals[name])} ${what}`);
  say(find("signals"), told.length === 0 ? "" : `Since the start of the stream: ${told.join(", ")}.`);
}
