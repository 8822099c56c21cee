// The three questions of a card: its name, which class it is, why it is muted.

import { make, say } from "./dom.js";
import { printable, subclass } from "./words.js";
import { sameLabel } from "./state.js";

const LONGEST = 300;

export function openForm(place, kind, candidate, deeds, taken) {
  const { label, field, act, hint, wanted } = { name: naming, is: being, mute: muting }[kind](candidate, deeds);
  const id = `asked-${candidate.id}`,
    wrong = make("p", { className: "wrong", role: "alert" }),
    told = make("p", { className: "note" });
  field.id = id;
  const go = make("button", { type: "submit", className: "first", textContent: act }),
    stop = make("button", { type: "button", textContent: "Leave it" });
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
      event.preventDefault(); // a list would open itself
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
    say(go, "Asking …");
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

function naming({ id }, deeds) {
  const field = make("input", { type: "text", maxLength: LONGEST, autocomplete: "off", spellcheck: false });
  field.autocapitalize = "off";
  const typed = () => field.value.trim();
  const known = () => deeds.labels().find((label) => String(label) === typed());
  const near = () => deeds.labels().find((label) => String(label).toLowerCase() === typed().toLowerCase());
  return {
    label: `Name of ${subclass(id)}`,
    act: "Name it",
    field,
    hint: () =>
      known() !== undefined
        ? "This class is known: it becomes part of it."
        : near() !== undefined
          ? `There is a class ${printable(near(), 60)}: this would be another.`
          : "",
    wanted: () =>
      typed() === ""
        ? { missing: "Type a name, or leave it." }
        : { action: "promote", subclass: id, label: known() ?? typed() },
  };
}

function being({ id, nearest_class: nearest }, deeds) {
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
    label: `${subclass(id)} is part of`,
    act: "It is",
    field,
    wanted: () => ({ action: "promote", subclass: id, label: labels[Number(field.value)] }),
  };
}

function muting({ id }) {
  const field = make("input", { type: "text", maxLength: LONGEST, autocomplete: "off" });
  return {
    label: `Why is ${subclass(id)} of no interest?`,
    act: "Mute it",
    field,
    wanted: () =>
      field.value.trim() === ""
        ? { missing: "Say why in a word or two: it stands in the history." }
        : { action: "mute", subclass: id, reason: field.value.trim() },
  };
}
