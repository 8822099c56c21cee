// One candidate: description, growth, examples and actions.

import { make, say, show, unlessDrawn } from "./dom.js";
import { count, difference, distance, nameOf, percent, plural, printable, subclass } from "./words.js";
import { named } from "./names.js";
import { examples } from "./examples.js";
import { spark } from "./sparks.js";
import { openForm } from "./forms.js";
import { READ_ONLY } from "./asking.js";
import { idsOf, waits } from "./state.js";

const STANDINGS = { dormant: "dormant", recurred: "recurred" };
const MOST_DIFFERENCES = 3,
  MOST_MEMBERS = 12,
  LONGEST_COMMAND = 10_000,
  MIXED_BELOW = 0.6; // share of the largest true class below which a candidate is mixed

export function makeCard(candidate, deeds) {
  const { id } = candidate;
  const card = make("article", { tabIndex: -1, className: "card", role: "listitem" });
  const heading = make("h3", { id: `candidate-${id}`, textContent: nameOf(candidate) });
  card.setAttribute("aria-labelledby", heading.id);
  const button = (text, key, act, kind = "") =>
    make(
      "button",
      { type: "button", className: kind, onclick: act },
      text,
      key ? make("kbd", { textContent: key, ariaHidden: "true" }) : "",
    );
  const parts = (card.parts = {
    heading,
    badges: make("span", { className: "badges" }),
    standing: make("p", { className: "standing" }),
    like: make("p", { className: "like" }),
    facts: make("p", { className: "facts" }),
    members: make("p", { className: "facts" }),
    truth: make("p", { className: "facts" }),
    command: make("div", { className: "naming" }),
    spark: make("div", { className: "growth" }),
    examples: make("div", { className: "examples" }),
    undo: button("Undo", "u", () => deeds.undo(id), "undo"),
    name: button("Name it", "n", () => card.open("name"), "first"),
    is: button("It is …", "i", () => card.open("is")),
    mute: button("Mute", "m", () => card.open("mute")),
    instances: button("Instances", "o", () => deeds.openSubclass(idsOf(card.candidate).join(","))),
    form: make("div", { className: "form" }),
    answer: make("p", { className: "answer", role: "status" }),
  });
  const { badges, standing, like, facts, members, truth, command, undo, name, is, mute, instances, form, answer } = parts;
  card.append(
    make(
      "div",
      { className: "head" },
      make(
        "div",
        { className: "told" },
        make("div", { className: "title" }, heading, badges),
        standing,
        like,
        facts,
        members,
        truth,
      ),
      parts.spark,
    ),
    parts.examples,
    command,
    make("div", { className: "acts" }, name, is, mute, undo, instances),
    form,
    answer,
  );
  card.open = (kind) => {
    if (card.settled || !deeds.mayAct()) return;
    say(answer, "");
    answer.classList.remove("wrong");
    openForm(form, kind, card.candidate, deeds, (reply) => taken(card, reply, deeds));
  };
  card.typing = () => form.firstChild !== null;
  card.closeForm = () => {
    form.replaceChildren();
    card.focus({ preventScroll: true });
  };
  return card;
}

// After an action: show the result on the card, and select the next candidate.
function taken(card, { ok, text }, deeds) {
  const { answer } = card.parts;
  say(answer, ok ? text : `Not done: ${text}`);
  answer.classList.toggle("wrong", !ok);
  if (!ok) return;
  card.parts.form.replaceChildren();
  deeds.said(text);
  deeds.advance(card.candidate.id);
}

export function updateCard(card, candidate, { current, undo }, deeds) {
  const { parts } = card,
    before = card.candidate?.status,
    inside = card.contains(document.activeElement) && document.activeElement !== card;
  card.candidate = candidate;
  card.settled = !waits(candidate);
  if (before !== undefined && before !== candidate.status) say(parts.answer, "");
  card.classList.toggle("settled", card.settled);
  card.classList.toggle("current", current);
  card.tabIndex = current ? 0 : -1;
  if (current) card.setAttribute("aria-current", "true");
  else card.removeAttribute("aria-current");
  unlessDrawn(parts.badges, candidate.status, () => drawBadges(parts.badges, candidate));
  unlessDrawn(parts.standing, [candidate.status, candidate.label], () => drawStanding(parts.standing, candidate));
  unlessDrawn(parts.like, [candidate.nearest_class, candidate.distance, candidate.differs], () =>
    drawLike(parts.like, candidate),
  );
  say(parts.heading, nameOf(candidate));
  say(parts.facts, facts(candidate));
  unlessDrawn(parts.members, candidate.subclasses, () => drawMembers(parts.members, candidate, deeds));
  say(parts.truth, truth(candidate));
  show(parts.truth, parts.truth.textContent !== "");
  unlessDrawn(parts.spark, candidate.growth, () => parts.spark.replaceChildren(spark(candidate.growth)));
  if (!parts.examples.contains(document.activeElement)) {
    unlessDrawn(parts.examples, [candidate.examples, candidate.differs], () =>
      parts.examples.replaceChildren(...examples(candidate, deeds.openInstance)),
    );
  }
  const may = deeds.mayAct();
  show(parts.command, Boolean(candidate.command) && !may && !card.settled);
  unlessDrawn(parts.command, candidate.command, () => parts.command.replaceChildren(...command(candidate.command)));
  show(parts.name, !card.settled && (may || !candidate.command));
  parts.name.disabled = !may;
  parts.name.title = may ? "" : READ_ONLY;
  show(parts.mute, may && !card.settled);
  show(parts.is, may && !card.settled && deeds.labels().length > 0);
  show(parts.undo, may && undo);
  // The focused button may have disappeared because of another person's change.
  if (inside && !card.querySelector(":focus:not([hidden])")) card.focus({ preventScroll: true });
}

// The subclasses of a candidate, if there are several.
function drawMembers(node, { subclasses: some = [] }, deeds) {
  const opener = ({ id, size }) =>
    make(
      "button",
      { type: "button", className: "open", onclick: () => deeds.openSubclass(id) },
      `${subclass(id)} ${count(size)}`,
    );
  const first = some.slice(0, MOST_MEMBERS).flatMap((one, at) => (at === 0 ? [opener(one)] : [", ", opener(one)]));
  const rest = some.length > MOST_MEMBERS ? [` and ${count(some.length - MOST_MEMBERS)} more`] : [];
  node.replaceChildren(...(some.length > 1 ? ["Subclasses: ", ...first, ...rest] : []));
  show(node, some.length > 1);
}

function drawBadges(node, { status }) {
  const text = STANDINGS[status];
  node.replaceChildren(...(text ? [make("span", { className: "badge", textContent: text })] : []));
}

function drawStanding(node, { status, label }) {
  const told =
    {
      named: ["is ", named(label)],
      muted: ["is muted: unknown, no further events"],
      gone: ["is gone: the model no longer has it"],
    }[status] ?? [];
  node.replaceChildren(...told);
  show(node, told.length > 0);
}

function drawLike(node, { nearest_class: nearest, distance: far, differs }) {
  const start =
    nearest === null || nearest === undefined
      ? ["No nearest known class"]
      : [make("b", { textContent: distance(far) }), " from ", named(nearest)];
  const rest = differs.slice(0, MOST_DIFFERENCES).map(difference).join(", ");
  node.replaceChildren(...start, rest === "" ? "" : `; ${rest}`);
}

function facts({ size, share, recent, since, last }) {
  const parts = [plural(size, "instance")];
  if (Number.isFinite(share)) parts.push(`${percent(share)} of the stream`);
  if (Number.isFinite(recent)) parts.push(`${count(Math.round(recent))} in the latest 1,000`);
  if (since !== null && since !== undefined) parts.push(`first at ${place(since)}`);
  if (last !== null && last !== undefined) parts.push(`last at ${place(last)}`);
  return parts.join(" · ");
}

// The true classes of the instances, if there are true labels.
function truth({ truth: made = [] }) {
  const total = made.reduce((sum, [, n]) => sum + n, 0);
  const shares = made.slice(0, 3).map(([label, n]) => `${printable(label, 80)} ${percent(n / total)}`);
  const kind = made.length > 0 && made[0][1] < MIXED_BELOW * total ? "mixed: " : "";
  return total === 0 ? "" : `True classes: ${kind}${shares.join(", ")}`;
}

// The command that names the candidate, for a page that cannot send it.
function command(text) {
  const code = make("code", { textContent: printable(text, LONGEST_COMMAND) }),
    copy = make("button", { type: "button", textContent: "Copy" });
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      say(copy, "Copied");
    } catch {
      getSelection().selectAllChildren(code);
      say(copy, "Selected");
    }
  });
  return [make("p", { className: "note", textContent: "To name it, put its class in place of NAME:" }), code, copy];
}

const place = (at) => (typeof at === "number" ? count(at) : printable(at, 40));
