// The inbox: candidates in an order that does not change while a person uses it.

import { find, keep, make, say, show } from "./dom.js";
import { plural, subclass } from "./words.js";
import { named } from "./names.js";
import { makeCard, updateCard } from "./card.js";
import { idsOf, undoableOf, waiting, waits } from "./state.js";

const A_PAGE = 5; // cards at first, and more at a time
const MOST_SETTLED = 50;
const LEFT_FOR = 700; // milliseconds after which an inbox without focus is sorted again
const POINTED_FOR = 30_000; // milliseconds for which a resting pointer keeps the order

let order = [],
  current = null,
  shown = A_PAGE,
  seen = null,
  deeds = null,
  touched = 0;
const candidates = new Map();

export function inbox(given) {
  deeds = { ...given, advance };
  find("inbox-more").querySelector("button").addEventListener("click", more);
  find("cards").addEventListener("pointermove", () => {
    touched = Date.now();
  });
  for (const kind of ["focusout", "pointerleave"])
    find("cards").addEventListener(kind, () => setTimeout(left, LEFT_FOR));
  find("cards").addEventListener("focusin", (event) => {
    const card = event.target.closest("article");
    if (card && card.candidate.id !== current) choose(card.candidate.id, false);
  });
}

const list = () => find("cards");
const cards = () => [...list().children];
const pointed = () => list().matches(":hover") && Date.now() - touched < POINTED_FOR;
const held = () => list().contains(document.activeElement) || pointed() || cards().some((card) => card.typing());

function left() {
  if (seen !== null && !held()) deeds.redraw();
}

export function drawInbox(state) {
  seen = state;
  const fresh = waiting(state),
    now = new Map(state.inbox.map((candidate) => [candidate.id, candidate]));
  const stay = held() ? order.filter((id, at) => now.has(id) || at < shown) : []; // candidates that are gone stay in place
  const last = new Map(stay.map((id) => [id, candidates.get(id)]));
  order = [...new Set([...stay, ...fresh.map(({ id }) => id)])];
  candidates.clear();
  for (const id of order) candidates.set(id, now.get(id) ?? { ...last.get(id), status: "gone" });
  if (!candidates.has(current)) current = order[0] ?? null;
  redraw();
  drawSettled(state.inbox.filter((candidate) => !waits(candidate) && !candidates.has(candidate.id)));
}

function redraw() {
  const some = order.slice(0, shown).map((id) => candidates.get(id));
  keep(
    list(),
    some,
    ({ id }) => id,
    (candidate) => makeCard(candidate, deeds),
    updateOne,
  );
  const left = order.length - some.length;
  show(find("inbox-more"), left > 0);
  say(find("inbox-more").querySelector("button"), `Show ${Math.min(left, A_PAGE)} more of ${left}`);
  show(find("inbox-empty"), order.length === 0);
  const nothing =
    seen.stream.decided === 0
      ? "No decisions yet. New candidates will appear here."
      : "No candidates to check. New candidates will appear here.";
  say(find("inbox-empty"), nothing);
}

const updateOne = (card, candidate) =>
  updateCard(
    card,
    candidate,
    { current: candidate.id === current, undo: undoableOf(seen, candidate.id) !== null },
    deeds,
  );

function drawSettled(settled) {
  const node = find("settled");
  show(node, settled.length > 0);
  say(node.querySelector("summary"), `${plural(settled.length, "subclass", "subclasses")} named or muted`);
  keep(node.querySelector("ul"), settled.slice(0, MOST_SETTLED), ({ id }) => id, settledLine, updateSettled);
}

function settledLine({ id }) {
  const open = make("button", {
    type: "button",
    className: "open",
    textContent: subclass(id),
    onclick: () => deeds.openSubclass(id),
  });
  const undo = make("button", {
    type: "button",
    className: "undo",
    textContent: "Undo",
    onclick: () => deeds.undo(id),
  });
  return make("li", {}, open, make("span"), undo);
}

function updateSettled(line, { id, status, label }) {
  const [, told, undo] = line.children,
    text = JSON.stringify([status, label]);
  if (told.shown !== text) told.replaceChildren(...(status === "named" ? [" is ", named(label)] : [" is muted"]));
  told.shown = text;
  show(undo, deeds.mayAct() && undoableOf(seen, id) !== null);
}

function more() {
  const at = Math.min(shown, order.length - 1);
  shown += A_PAGE;
  redraw();
  choose(order[at], true);
}

function choose(id, focus) {
  current = id;
  for (const card of cards()) updateOne(card, card.candidate);
  const card = theCard();
  if (!focus || !card) return;
  card.focus({ preventScroll: true });
  card.scrollIntoView({ block: "nearest" });
}

const theCard = () => cards().find((card) => card.candidate.id === current) ?? null;

// By keys: the next or previous candidate, or the current one if none has the focus.
export function step(by) {
  if (order.length === 0) return;
  const at = order.indexOf(current),
    inside = list().contains(document.activeElement);
  const to = inside ? Math.max(0, Math.min(order.length - 1, at + by)) : at;
  if (to >= shown) {
    shown += A_PAGE;
    redraw();
  }
  choose(order[to], true);
}

// After an action: the next candidate without a decision, or the same one.
function advance(id) {
  const at = order.indexOf(id);
  const next = [...order.slice(at + 1), ...order.slice(0, at)].find(
    (other) => waits(candidates.get(other)) && !answered(other),
  );
  if (next !== undefined && order.indexOf(next) >= shown) {
    shown += A_PAGE;
    redraw();
  }
  choose(next ?? id, true);
}

const answered = (id) => cards().some((card) => card.candidate.id === id && card.parts.answer.textContent !== "");

export function openCurrent(kind) {
  const card = theCard();
  if (!card) return false;
  card.scrollIntoView({ block: "nearest" });
  card.open(kind);
  return true;
}

export function openInstances() {
  if (current !== null) deeds.openSubclass(idsOf(candidates.get(current)).join(","));
}
