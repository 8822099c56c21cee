// The head of the page: number of candidates, the stream, and key figures.

import { find, keep, make, say, show } from "./dom.js";
import { count, moment, percent, plural, printable } from "./words.js";
import { knownAs, mayAct, READ_ONLY } from "./asking.js";
import { waiting } from "./state.js";

let stale = null,
  link = null;

export function drawHeader(state) {
  stale = state.stale ?? null;
  show(find("stale"), stale !== null);
  say(
    find("stale"),
    stale === null
      ? ""
      : `Stale since ${moment(stale.since)}: the page shows earlier data. ${printable(stale.why)}.`,
  );
  if (link !== null) drawLink(link);
  const things = waiting(state).length,
    { stream } = state;
  const name = printable(stream.name, 80);
  say(find("headline"), things === 0 ? "No new candidates" : `${plural(things, "candidate")} to check`);
  say(find("about"), about(stream));
  document.title = `${things === 0 ? "" : `(${things}) `}${name}: stream-osr`;
  drawFrame(state.frame ?? "", stream.kind);
  keep(find("tiles"), tiles(state), (tile) => tile.what, makeTile, updateTile);
}

// The offset of all known classes. A service has one for each partition, and needs its name on the command line.
function drawFrame(text, kind) {
  const [told, ...buttons] = find("frame").children;
  show(find("frame"), text !== "");
  say(told, printable(text, 600));
  for (const button of buttons) show(button, mayAct() && kind !== "kafka");
}

function about({ name, kind, source, running, behind }) {
  const kinds = { kafka: ["a Kafka service"], report: [] };
  const parts = [printable(name, 80), ...(kinds[kind] ?? ["a run on files"])];
  if (source && source !== name) parts.push(printable(source, 80));
  if (kind === "report") return parts.join(" · ");
  if (!running) parts.push("finished");
  else parts.push(behind ? `running, ${plural(behind, "record")} behind` : "running");
  return parts.join(" · ");
}

function tiles(state) {
  const { stream, unknown, recall, promised, dependent, new_classes: classes, delta } = state,
    things = waiting(state).length;
  const out = [
    { what: "decided", figure: count(stream.decided) },
    { what: "unknown", figure: percent(unknown.rate), fresh: true },
  ];
  if (stream.kind !== "report" || Number.isFinite(unknown.recent_rate))
    out.push({ what: "unknown among the latest 1,000", figure: percent(unknown.recent_rate), fresh: true });
  if (classes)
    out.push({
      what: "new classes, estimated",
      figure: estimate(classes),
      beside: classes.number < things ? "one class may be several candidates" : "",
      fresh: true,
    });
  else if (Number.isFinite(delta))
    out.push({ what: "new classes by the paper's Delta", figure: count(delta), beside: "a coarse number", fresh: true });
  if (!recall && promised)
    out.push({
      what: "expected recall of known classes",
      figure: percent(promised.recall),
      beside: promised.guarded ? "" : "not monitored",
    });
  if (recall)
    out.push({
      what: "estimated recall of known classes",
      figure: percent(recall.value),
      beside: sure(recall) + (dependent ? ", neighbouring instances depend on each other" : ""),
      bad: recall.high < recall.promised,
    });
  return out;
}

function estimate({ number, low, high }) {
  return low === high ? count(number) : `${count(number)} (${count(low)} to ${count(high)})`;
}

function sure({ low, high, promised }) {
  const promise = Number.isFinite(promised)
    ? `, ${high < promised ? "below the " : ""}expected ${percent(promised)}`
    : "";
  return `${percent(low)} to ${percent(high)}${promise}`;
}

function makeTile(tile) {
  return make(
    "div",
    { className: tile.fresh ? "tile new" : "tile" },
    make("b"),
    make("span", { textContent: tile.what }),
    make("small"),
  );
}

function updateTile(node, { figure, beside = "", bad = false }) {
  say(node.children[0], figure);
  say(node.children[2], beside);
  show(node.children[2], beside !== "");
  node.classList.toggle("bad", bad);
}

export function drawLink(given) {
  const { standing, left } = (link = given);
  const node = find("link"),
    [, told, next, again] = node.children;
  node.dataset.standing = standing === "live" && stale !== null ? "waiting" : standing;
  say(
    told,
    {
      live: stale === null ? "Live" : "Connected",
      lost: "Connection lost: the page may be out of date.",
      waiting: "Connecting …",
    }[standing],
  );
  say(next, standing === "lost" ? `Next attempt in ${left} s.` : "");
  show(again, standing === "lost");
}

export function drawWho() {
  const node = find("who"),
    name = knownAs();
  show(node, true);
  node.disabled = !mayAct();
  say(
    node,
    !mayAct()
      ? "Read-only"
      : name === null
        ? "Sign in to make changes"
        : name === ""
          ? "Sign out"
          : `${printable(name, 40)}: sign out`,
  );
  node.title = mayAct() ? "" : READ_ONLY;
}
