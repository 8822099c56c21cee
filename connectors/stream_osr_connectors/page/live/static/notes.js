// Skipped input, and announcements of new candidates for screen readers.

import { find, keep, make, say, show } from "./dom.js";
import { distance, nameOf, plural, printable } from "./words.js";
import { waiting } from "./state.js";

const MOST = 20;
const PAUSE = 5000; // milliseconds between two announcements

let before = null,
  fresh = [],
  timer = null;

export function drawNotes({ notes }) {
  show(find("notes"), notes.length > 0);
  const some = notes.slice(0, MOST).map((note, at) => ({ at, note }));
  keep(
    find("notes").querySelector("ul"),
    some,
    ({ at }) => at,
    () => make("li"),
    (line, { note }) => say(line, printable(note)),
  );
}

export function hear(state) {
  const now = waiting(state);
  if (before !== null) fresh.push(...now.filter(({ id }) => !before.has(id)));
  before = new Set(now.map(({ id }) => id));
  fresh = fresh.filter(({ id }) => before.has(id));
  if (fresh.length > 0 && timer === null) timer = setTimeout(announce, 250);
}

function announce() {
  if (fresh.length === 1) {
    const [one] = fresh,
      { distance: far, nearest_class: nearest } = one;
    say(find("heard"), `New in the inbox: ${nameOf(one)}, ${distance(far)} from ${printable(nearest, 60)}.`);
  } else if (fresh.length > 1) say(find("heard"), `${plural(fresh.length, "new candidate")} in the inbox.`);
  fresh = [];
  timer = setTimeout(() => {
    timer = null;
    if (fresh.length > 0) announce();
  }, PAUSE);
}
