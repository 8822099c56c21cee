// The side panel: the instances of a subclass, or one instance in full.

import { find, make, say, show } from "./dom.js";
import { count, percent, plural, printable, subclass } from "./words.js";
import { named } from "./names.js";
import { instance } from "./instance.js";
import { frozen, frozenAnswer } from "./frozen.js";

const MOST_BACK = 20;

let trail = [],
  turn = 0,
  deeds = null;

export function panel(given) {
  deeds = given;
  const dialog = find("panel");
  dialog.querySelector(".back").addEventListener("click", () => {
    trail.pop();
    read(trail.at(-1));
  });
  dialog.addEventListener("close", () => {
    turn++;
    trail = [];
    dialog.querySelector(".body").replaceChildren();
  });
}

export const openSubclass = (id) => go({ kind: "subclass", id: String(id), before: null });
export const openInstance = (n) => go({ kind: "instance", n });

function go(place) {
  trail = [...trail.slice(-MOST_BACK), place];
  const dialog = find("panel");
  if (!dialog.open) dialog.showModal();
  read(place);
}

// A page of a subclass replaces the previous one, so memory does not grow.
function turnTo(place) {
  trail[trail.length - 1] = place;
  read(place);
}

const nameOf = (id) =>
  id.startsWith("class:") ? printable(id.slice("class:".length), 80) : id.split(",").map(subclass).join(", ");

async function read(place) {
  const mine = ++turn,
    dialog = find("panel"),
    body = dialog.querySelector(".body"),
    heading = find("panel-heading");
  show(dialog.querySelector(".back"), trail.length > 1);
  say(heading, place.kind === "subclass" ? nameOf(place.id) : `Instance ${count(place.n)}`);
  body.replaceChildren(make("p", { className: "note", role: "status", textContent: "Reading …" }));
  heading.focus();
  let shown;
  try {
    shown =
      place.kind === "subclass"
        ? instances(
            place,
            await got(
              `/api/subclass/${encodeURIComponent(place.id)}${place.before === null ? "" : `?before=${place.before}`}`,
            ),
          )
        : whole(await got(`/api/instance/${place.n}`), heading);
  } catch (error) {
    shown = [
      make("p", { className: "wrong", role: "alert", textContent: error.message }),
      make("button", { type: "button", textContent: "Try again", onclick: () => read(place) }),
    ];
  }
  if (mine === turn) {
    body.replaceChildren(...shown);
    body.scrollTop = 0;
  }
}

async function got(address) {
  if (frozen !== null) return frozenAnswer(address);
  let answer;
  try {
    answer = await fetch(address, { cache: "no-store", signal: AbortSignal.timeout(30_000) });
  } catch {
    throw new Error("The server does not answer. Try again when the connection is back.");
  }
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(printable(said.error ?? `The server answered ${answer.status}.`));
  return said;
}

function instances(place, { instances: some, more, cut }) {
  const out = [];
  const { size, nearest } = deeds.aboutSubclass(place.id);
  out.push(
    make("p", {
      className: "note",
      textContent: [
        Number.isFinite(size) ? plural(size, "instance") : "",
        nearest ?? "",
        cut ? `the latest ${count(some.length)}` : "",
        "newest first",
      ]
        .filter(Boolean)
        .join(", "),
    }),
  );
  if (some.length === 0)
    return [
      ...out,
      make("p", {
        className: "empty",
        textContent: place.before === null ? "No decision of this subclass can be read." : "There are no older instances.",
      }),
    ];
  const head = make(
    "tr",
    {},
    ...["instance", "decision", "P(unknown)"].map((text, at) =>
      make("th", { scope: "col", className: at === 2 ? "n" : "", textContent: text }),
    ),
  );
  const rows = some.map((one) =>
    make(
      "tr",
      {},
      make(
        "th",
        { scope: "row" },
        make(
          "button",
          { type: "button", className: "open", onclick: () => openInstance(one.n) },
          named(one.key ?? one.n),
        ),
      ),
      make("td", {}, ...labels(one)),
      make("td", { className: "n", textContent: percent(one.p_unknown) }),
    ),
  );
  out.push(make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
  const turnButton = (text, before) =>
    make("button", { type: "button", textContent: text, onclick: () => turnTo({ ...place, before }) });
  const turns = [];
  if (place.before !== null) turns.push(turnButton("Latest", null));
  if (more) turns.push(turnButton("Older", some.at(-1).n));
  if (turns.length > 0) out.push(make("p", { className: "buttons" }, ...turns));
  return out;
}

function labels({ label, first_label: first }) {
  return first === undefined || first === null || JSON.stringify(first) === JSON.stringify(label)
    ? [named(label)]
    : [named(label), make("small", {}, " at first ", named(first))];
}

function whole(told, heading) {
  say(heading, `Instance ${printable(told.key ?? told.n, 80)}`);
  return instance(told, {
    ...deeds,
    openSubclass,
    contributions:
      frozen === null ? async () => (await got(`/api/instance/${told.n}/contributions`)).contributions : null,
  });
}
