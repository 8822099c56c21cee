// The three forms of a card: name, known class, and reason for muting.

import { make, say } from "./dom.js";
import { nameOf, printable } from "./words.js";
import { idsOf, sameLabel } from "./state.js";

const LONGEST = 300;

export function openForm(place, kind, candidate, deeds, taken) {
  const { label, field, act, hint, wanted } = { name: naming, is: being, mute: muting }[kind](candidate, deeds);
  const id = `asked-${candidate.id}`,
    wrong = make("p", { className: "wrong", role: "alert" }),
    told = make("p", { className: "note" });
  field.id = id;
  const go = make("button", { type: "submit", className: "first", textContent: act }),
    stop = make("button", { type: "button", textContent: "Cancel" });
  const form = make(
    "form",
    {},
    make("label", { htmlFor: id, textContent: label }),
    field,
    make("span", { className: "buttons" }, go, stop),
    told,
    wrong,
  );
  const close = () => {
    place.replaceChildren();
    place.closest("article").focus({ preventScroll: true });
  };
  stop.addEventListener("click", close);
  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      close();
    } else if (event.key === "Enter" && event.target === field) {
      event.preventDefault(); // otherwise a list would open
      form.requestSubmit();
    }
  });
  if (hint) field.addEventListener("input", () => say(told, hint()));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (go.disabled) return;
    const { missing, ...what } = wanted();
    say(wrong, missing ?? "");
    if (missing) return;
    go.disabled = true;
    say(go, "Sending …");
    const reply = await deeds.ask(what);
    go.disabled = false;
    say(go, act);
    if (reply === null) field.focus();
    else taken(reply);
  });
  place.replaceChildren(form);
  field.focus({ preventScroll: true });
  form.scrollIntoView({ block: "nearest" });
}

// A command on a candidate applies to all its subclasses.
function subclassesOf(candidate) {
  const ids = idsOf(candidate);
  return ids.length === 1 ? ids[0] : ids;
}

function naming(candidate, deeds) {
  const field = make("input", { type: "text", maxLength: LONGEST, autocomplete: "off", spellcheck: false });
  field.autocapitalize = "off";
  const typed = () => field.value.trim();
  const known = () => deeds.labels().find((label) => String(label) === typed());
  const near = () => deeds.labels().find((label) => String(label).toLowerCase() === typed().toLowerCase());
  return {
    label: `Name of ${nameOf(candidate)}`,
    act: "Name it",
    field,
    hint: () =>
      known() !== undefined
        ? "This class is known. The candidate becomes a part of this class."
        : near() !== undefined
          ? `There is a class ${printable(near(), 60)}. This name creates another class.`
          : "",
    wanted: () =>
      typed() === ""
        ? { missing: "Type a name, or cancel." }
        : { action: "promote", subclass: subclassesOf(candidate), label: known() ?? typed() },
  };
}

function being(candidate, deeds) {
  const { nearest_class: nearest } = candidate;
  const labels = deeds.labels();
  const field = make(
    "select",
    {},
    ...labels.map((label, at) => make("option", { value: String(at), textContent: printable(label, 60) })),
  );
  field.value = String(
    Math.max(
      0,
      labels.findIndex((label) => sameLabel(label, nearest)),
    ),
  );
  return {
    label: `Known class of ${nameOf(candidate)}`,
    act: "Assign",
    field,
    wanted: () => ({ action: "promote", subclass: subclassesOf(candidate), label: labels[Number(field.value)] }),
  };
}

function muting(candidate) {
  const field = make("input", { type: "text", maxLength: LONGEST, autocomplete: "off" });
  return {
    label: `Reason for muting ${nameOf(candidate)}`,
    act: "Mute",
    field,
    wanted: () =>
      field.value.trim() === ""
        ? { missing: "Give a short reason for the history." }
        : { action: "mute", subclass: subclassesOf(candidate), reason: field.value.trim() },
  };
}
