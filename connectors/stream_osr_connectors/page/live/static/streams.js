// The keys of a run with a stream for each key.

import { find, keep, make, say, show } from "./dom.js";
import { count, percent, plural, printable } from "./words.js";

const LONGEST = 60,
  LONGEST_COMMAND = 10_000;

export function drawStreams({ keys }) {
  document.querySelector("main").classList.toggle("by-key", Boolean(keys));
  show(find("streams"), Boolean(keys));
  if (!keys) return;
  say(find("headline"), `${plural(keys.n, "key")}, ${count(keys.new)} with new subclasses`);
  keep(find("streams").querySelector("tbody"), keys.shown, ({ by }) => by, makeRow, updateRow);
  const rest = keys.n - keys.shown.length;
  say(find("streams-under"), rest > 0 ? `${count(rest)} further keys are not shown.` : "");
}

function makeRow({ by, command }) {
  const cells = [1, 2, 3].map(() => make("td", { className: "n" }));
  const code = make("td", {}, ...(command === undefined ? [] : [make("code", { textContent: printable(command, LONGEST_COMMAND) })]));
  return make("tr", {}, make("th", { scope: "row" }, printable(by, LONGEST)), ...cells, code);
}

function updateRow(row, { n, unknown, new: emerged }) {
  const [, instances, share, subclasses] = row.children;
  say(instances, count(n));
  say(share, percent(unknown));
  say(subclasses, count(emerged));
}
