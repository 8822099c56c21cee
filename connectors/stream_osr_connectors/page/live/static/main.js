// The page: passes the server's state to the parts, and the person's actions to the server.

import { allow, ask, knownAs, leave, mayAct, onWho, prompting, READ_ONLY, typed } from "./asking.js";
import { find, say, show } from "./dom.js";
import { drawAccuracy } from "./accuracy.js";
import { drawEvents } from "./events.js";
import { frozen } from "./frozen.js";
import { drawHeader, drawLink, drawWho } from "./header.js";
import { drawHistory, history } from "./history.js";
import { drawInbox, inbox, openCurrent, openInstances, step } from "./inbox.js";
import { dialogs, keys } from "./keys.js";
import { drawKnown, known } from "./known.js";
import { follow } from "./link.js";
import { drawNotes, hear } from "./notes.js";
import { openInstance, openSubclass, panel } from "./panel.js";
import { drawPlane, plane } from "./plane.js";
import { idsOf, undoable, undoableOf } from "./state.js";
import { holdStill } from "./still.js";
import { drawStreams } from "./streams.js";
import { drawTimeline, timeline } from "./timeline.js";
import { distance, printable } from "./words.js";

const TOLD_FOR = 8000; // milliseconds for which an answer is shown at the foot of the page

let state = null,
  waits = false,
  hides = null;

const deeds = {
  mayAct,
  labels: () => state?.commands.labels ?? [],
  openSubclass,
  openInstance,
  aboutSubclass,
  ask: async (what) => {
    const reply = await ask(what);
    return reply === null ? null : { ...reply, text: printable(reply.text) };
  },
  said,
  redraw,
  inPartition,
  undo: (id) => undoAct(undoableOf(state, id)),
  undoAct,
};

function aboutSubclass(id) {
  if (id.startsWith("class:")) return { size: state.known.find(({ label }) => `class:${label}` === id)?.n };
  const candidate = state.inbox.find((one) => idsOf(one).join(",") === id || one.id === id);
  return {
    size: candidate?.size,
    nearest: candidate ? `${distance(candidate.distance)} from ${printable(candidate.nearest_class, 60)}` : undefined,
  };
}

function said(text, wrong = false) {
  const node = find("said");
  clearTimeout(hides);
  show(node, true);
  node.classList.toggle("wrong", wrong);
  say(node, text);
  hides = setTimeout(() => show(node, false), TOLD_FOR);
}

// Subclasses identify the partition of a service. A run on files has one stream.
function inPartition(subclasses) {
  return state.stream.kind === "kafka" && subclasses.length > 0 ? { subclass: subclasses.map(String) } : {};
}

async function undoAct(act) {
  if (!mayAct()) return;
  if (!act) {
    said("There is nothing to undo.");
    return;
  }
  await send({ action: "undo", n: act.n, ...inPartition(act.subclasses ?? []) });
}

async function send(what) {
  const reply = await deeds.ask(what);
  if (reply !== null) said(reply.ok ? reply.text : `Not done: ${reply.text}`, !reply.ok);
}

function who() {
  if (!mayAct()) return;
  if (knownAs() === null) typed();
  else leave();
}

function redraw() {
  if (state === null) return;
  holdStill(() => {
    drawHeader(state);
    drawStreams(state);
    drawInbox(state);
    drawTimeline(state, deeds);
    drawPlane(state);
    drawKnown(state, deeds);
    drawAccuracy(state);
    drawEvents(state);
    drawHistory(state, deeds);
    drawNotes(state);
  });
  document.documentElement.dataset.seq = state.seq;
}

// Only the newest state is drawn, once a frame. A hidden page stores one state.
function take(told) {
  hear(told);
  state = told;
  allow(told.commands.allowed);
  if (waits) return;
  waits = true;
  requestAnimationFrame(() => {
    waits = false;
    redraw();
  });
}

const open = (dialog) => () => find(dialog).showModal();
const act = (kind) => () =>
  mayAct() ? openCurrent(kind) : said(READ_ONLY);

dialogs();
prompting();
panel(deeds);
inbox(deeds);
timeline();
plane(deeds);
known(redraw);
history(redraw);
onWho(() => {
  drawWho();
  redraw();
});
keys({
  j: () => step(1),
  k: () => step(-1),
  n: act("name"),
  i: act("is"),
  m: act("mute"),
  u: () => undoAct(state && undoable(state)),
  o: openInstances,
  t: who,
  "?": open("help"),
});
find("who").addEventListener("click", who);
for (const button of find("frame").querySelectorAll("button"))
  button.addEventListener("click", () => send({ action: button.dataset.action }));
find("help-opens").addEventListener("click", open("help"));
if (frozen !== null) take(frozen.state);
else {
  const link = follow(take, drawLink);
  find("link").querySelector("button").addEventListener("click", link.again);
  drawWho();
}
