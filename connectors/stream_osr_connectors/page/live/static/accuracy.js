// Decisions against true labels: the confusion matrix, and the calibration of the probability of unknown.

import { draw, find, make, say, show, unlessDrawn } from "./dom.js";
import { count, percent, plural, printable } from "./words.js";
import { named } from "./names.js";

const SIDE = 240,
  EDGE = 30; // pixels

export function drawAccuracy({ accuracy }) {
  const node = find("accuracy");
  show(node, Boolean(accuracy));
  if (!accuracy) return;
  const { n, known_right: known, unknown_found: found, auroc, calibration_error: error } = accuracy;
  say(
    find("accuracy-facts"),
    `${plural(n, "decision")} with a true label. ${percent(known)} of the known instances got the right label, ` +
      `${percent(found)} of the new ones were called unknown. AUROC of the probability of unknown ` +
      `${decimal(auroc)}, its expected calibration error ${decimal(error)}.`,
  );
  unlessDrawn(node, accuracy, () => {
    find("confusion").replaceChildren(confusion(accuracy));
    find("calibration").replaceChildren(calibration(accuracy.calibration));
  });
}

const decimal = (x) => (Number.isFinite(x) ? x.toFixed(3) : "–");

function confusion({ columns, rows }) {
  const head = make(
    "tr",
    {},
    make("th", { scope: "col", textContent: "true class" }),
    ...columns.map((column) => make("th", { scope: "col", className: "n" }, named(column))),
  );
  const body = rows.map(({ label, new: fresh, counts }) =>
    make(
      "tr",
      { className: fresh ? "new" : "" },
      make("th", { scope: "row" }, named(label), fresh ? " (new)" : ""),
      ...counts.map((cell, at) => {
        const right = fresh ? at === 0 : at > 0 && columns[at] === label;
        return make("td", { className: right ? "n right" : "n", textContent: cell === 0 ? "·" : count(cell) });
      }),
    ),
  );
  return make("table", { className: "confusion" }, make("thead", {}, head), make("tbody", {}, ...body));
}

// Observed against predicted share of unknown instances. On the diagonal they are equal.
function calibration(bins) {
  const x = (share) => (EDGE + share * SIDE).toFixed(1),
    y = (share) => (10 + (1 - share) * SIDE).toFixed(1);
  const spots = bins.map(({ n, predicted, observed }) => {
    const title = `predicted ${percent(predicted)}, observed ${percent(observed)}, ${plural(n, "instance")}`;
    return draw("circle", { cx: x(predicted), cy: y(observed), r: 4 }, draw("title", {}, title));
  });
  const line = bins.map((bin, at) => `${at === 0 ? "M" : "L"}${x(bin.predicted)} ${y(bin.observed)}`).join("");
  const ticks = [0, 0.5, 1].flatMap((share) => [
    draw("text", { x: x(share), y: SIDE + 26, "text-anchor": "middle" }, percent(share)),
    draw("text", { x: EDGE - 4, y: y(share), "text-anchor": "end" }, printable(share)),
  ]);
  return draw(
    "svg",
    { viewBox: `0 0 ${SIDE + EDGE + 24} ${SIDE + 34}`, role: "img", "aria-label": "Calibration" },
    draw("path", { class: "ground", d: `M${x(0)} ${y(0)}L${x(1)} ${y(1)}M${x(0)} ${y(1)}V${y(0)}H${x(1)}` }),
    draw("path", { class: "line", d: line }),
    ...ticks,
    ...spots,
  );
}
