// One instance: first and final label, the probability of each class, and the reason.

import { draw, make, say } from "./dom.js";
import { count, figure, percent, printable, subclass } from "./words.js";
import { named } from "./names.js";
import { sameLabel } from "./state.js";
import { contributions } from "./contributions.js";

const MOST_BARS = 12,
  MOST_FEATURES = 300;

export function instance(told, deeds) {
  const out = [];
  if (told.why) out.push(make("p", { className: "why", textContent: printable(told.why, 600) }));
  if (told.image) out.push(picture(told));
  out.push(facts(told, deeds));
  out.push(make("h3", { textContent: "Probabilities" }), bars(told, deeds.labels().map(String)));
  out.push(...contributions(told, deeds.contributions));
  if (told.features) out.push(make("h3", { textContent: "Features" }), features(told.features));
  if (deeds.mayAct() && deeds.labels().length > 0 && told.key !== null && told.key !== undefined)
    out.push(make("h3", { textContent: "Correction" }), labelling(told, deeds));
  return out;
}

function facts(told, { openSubclass }) {
  const list = make("dl", {});
  const add = (what, ...shown) =>
    list.append(make("div", {}, make("dt", { textContent: what }), make("dd", {}, ...shown)));
  add("final label", named(told.label));
  add("first label", named(told.first_label));
  if (told.true_label !== undefined) add("true class", named(told.true_label));
  if (told.subclass !== null && told.subclass !== undefined)
    add(
      "subclass",
      make("button", {
        type: "button",
        className: "open",
        textContent: subclass(String(told.subclass)),
        onclick: () => openSubclass(String(told.subclass)),
      }),
    );
  if (told.nearest_class !== null && told.nearest_class !== undefined)
    add(
      "nearest class",
      named(told.nearest_class),
      Number.isFinite(told.distance) ? `, ${told.distance.toFixed(1)} σ away` : "",
    );
  if (Number.isFinite(told.density_rank))
    add("density rank", `more usual than ${percent(told.density_rank)} of the training instances of that class`);
  if (Number.isFinite(told.n)) add("position", count(told.n));
  if (told.t !== null && told.t !== undefined)
    add("time", typeof told.t === "number" ? String(told.t) : printable(told.t, 60));
  return list;
}

function bars({ probabilities, p_unknown: unknown }, known) {
  const all = Object.entries(probabilities ?? {}).sort((a, b) => b[1] - a[1]),
    some = all.slice(0, MOST_BARS),
    rest = all.slice(MOST_BARS);
  if (rest.length > 0) some.push([`${count(rest.length)} others`, rest.reduce((sum, [, p]) => sum + p, 0)]);
  const rows = some.map(([name, p]) => {
    const fresh = p === unknown && !known.includes(name);
    const bar = draw(
      "svg",
      { class: "bar", "aria-hidden": "true" },
      draw("rect", { width: `${(100 * p).toFixed(2)}%` }),
    );
    return make(
      "tr",
      { className: fresh ? "new" : "" },
      make("th", { scope: "row" }, named(name)),
      make("td", { className: "wide" }, bar),
      make("td", { className: "n", textContent: percent(p) }),
    );
  });
  return make("table", { className: "bars" }, make("tbody", {}, ...rows));
}

function features(all) {
  const some = Object.entries(all);
  const rows = some
    .slice(0, MOST_FEATURES)
    .map(([name, value]) =>
      make(
        "tr",
        {},
        make("th", { scope: "row" }, named(name)),
        make(
          "td",
          { className: "n" },
          value === null
            ? "missing"
            : make("span", { className: "clip", title: printable(value), textContent: figure(value) }),
        ),
      ),
    );
  const table = make("table", {}, make("tbody", {}, ...rows));
  return some.length > MOST_FEATURES
    ? make(
        "div",
        {},
        table,
        make("p", { className: "note", textContent: `${count(some.length - MOST_FEATURES)} more features are not shown.` }),
      )
    : table;
}

function picture({ image, key }) {
  const node = make("img", {
    src: image,
    alt: printable(key, 80),
    className: "large",
    referrerPolicy: "no-referrer",
  });
  node.addEventListener("error", () =>
    node.replaceWith(make("p", { className: "note", textContent: "The picture could not be loaded." })),
  );
  return node;
}

// A late label for this instance.
function labelling(told, deeds) {
  const labels = deeds.labels(),
    said = make("p", { role: "status" });
  const field = make(
    "select",
    { id: "label-of-instance" },
    ...labels.map((label, at) => make("option", { value: String(at), textContent: printable(label, 60) })),
  );
  field.value = String(
    Math.max(
      0,
      labels.findIndex((label) => sameLabel(label, told.label)),
    ),
  );
  const go = make("button", { type: "submit", textContent: "Set label" });
  const form = make("form", {}, make("label", { htmlFor: field.id, textContent: "True class" }), field, go, said);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (go.disabled) return;
    go.disabled = true;
    const where = deeds.inPartition(told.subclass === null || told.subclass === undefined ? [] : [told.subclass]);
    const reply = await deeds.ask({ action: "label", key: told.key, label: labels[Number(field.value)], ...where });
    go.disabled = false;
    if (reply === null) return;
    say(said, reply.ok ? reply.text : `Not done: ${reply.text}`);
    said.className = reply.ok ? "answer" : "wrong";
  });
  return form;
}
