// Events that no subclass shows, in words.

import { find, keep, make, say, show } from "./dom.js";
import { count, printable } from "./words.js";

export function drawEvents({ events }) {
  const { n = 0, latest = [] } = events ?? {};
  show(find("events"), n > 0);
  const rows = latest.map((one, at) => ({ ...one, at: n - at }));
  keep(find("events").querySelector("tbody"), rows, ({ at }) => at, makeRow, () => {});
  say(find("events-under"), n > latest.length ? `${count(n - latest.length)} earlier events are not shown.` : "");
}

function makeRow({ kind, seq, facts }) {
  return make(
    "tr",
    {},
    make("td", { className: "n", textContent: count(seq) }),
    make("th", { scope: "row", textContent: printable(kind, 60) }),
    make("td", { textContent: printable(facts) }),
  );
}
