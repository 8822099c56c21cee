// Draws all charts, separates names on the feature map, and handles choices, tooltips of terms, and copying.
const overlaps = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
const within = (a, b) => a.left >= b.left && a.right <= b.right && a.top >= b.top && a.bottom <= b.bottom;
const RINGS = [0, 14, 24, 36, 50];
const SIDES = [[0, -1], [1, 0], [0, 1], [-1, 0], [1, -1], [1, 1], [-1, 1], [-1, -1]];
const views = new Map();

function* places() {
  yield [0, 0];
  for (const far of RINGS.slice(1)) for (const [x, y] of SIDES) yield [x * far * 1.6, y * far];
}

function spread(figure) {  // names that would cover others are moved, with a line to their place, or hidden
  const svg = figure.querySelector("svg");
  const frame = figure.querySelector(".background")?.getBoundingClientRect() ?? svg.getBoundingClientRect();
  const corner = svg.getBoundingClientRect();
  const placed = [], lines = [];
  for (const text of figure.querySelectorAll(".names_marks text")) {
    text.removeAttribute("dx");
    text.removeAttribute("dy");
    text.style.visibility = "hidden";
    if (text.getAttribute("opacity") === "0" || getComputedStyle(text).opacity === "0") continue;
    const box = text.getBoundingClientRect();
    if (!overlaps(box, frame)) continue;
    for (const [x, y] of places()) {
      const moved = { left: box.left + x - 1, right: box.right + x + 1, top: box.top + y, bottom: box.bottom + y };
      if (placed.some((other) => overlaps(moved, other)) || ((x || y) && !within(moved, frame))) continue;
      if (x || y) {
        text.setAttribute("dx", x);
        text.setAttribute("dy", y);
      }
      if (Math.hypot(x, y) > 20) {
        const [from, to] = [box, moved].map((b) => [(b.left + b.right) / 2 - corner.left, (b.top + b.bottom) / 2 - corner.top]);
        lines.push([...from, to[0], to[1] + (y < 0 ? 7 : y > 0 ? -7 : 0), text.getAttribute("fill")]);
      }
      text.style.visibility = "";
      placed.push(moved);
      break;
    }
  }
  svg.querySelector(".leaders")?.remove();
  const group = document.createElementNS("http://www.w3.org/2000/svg", "g");
  group.setAttribute("class", "leaders");
  for (const [x1, y1, x2, y2, stroke] of lines) {
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    Object.entries({ x1, y1, x2, y2, stroke }).forEach(([name, value]) => line.setAttribute(name, value));
    group.append(line);
  }
  svg.append(group);
}

async function draw(figure, spec) {
  const { view } = await vegaEmbed(figure, spec, { actions: false, renderer: "svg", ast: true, defaultStyle: false, tooltip: { disableDefaultStyle: true } });
  views.set(figure.dataset.figure, view);
  if (!figure.classList.contains("plane")) return;
  let waiting = false;
  const again = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; spread(figure); });
  };
  spread(figure);
  new MutationObserver(again).observe(figure, { attributes: true, attributeFilter: ["width", "transform", "opacity"], subtree: true });
  view.addEventListener("click", (event, item) => {
    const name = item?.datum?.name;
    if (typeof name === "string") choose(name);
  });
}

// Choice of a subclass, in the list or by a click on the feature map.
const list = document.getElementById("chosen");
function choose(name) {
  if (![...list.options].some((option) => option.value === name)) return;
  list.value = name;
  const link = document.getElementById("to-chosen");
  link.hidden = !document.getElementById(name)?.closest("#candidates");
  link.href = link.hidden ? "#candidates" : `#${name}`;
  for (const figure of document.querySelectorAll(".plane")) views.get(figure.dataset.figure)?.signal("chosen", name).runAsync();
}
list?.addEventListener("change", () => choose(list.value));

for (const row of document.querySelectorAll(".zoom")) {
  row.addEventListener("click", (event) => {
    const by = event.target.dataset?.zoom, view = views.get(row.dataset.of);
    if (by === undefined || !view) return;
    for (const axis of ["x", "y"]) {
      const [low, high] = view.scale(axis).domain(), middle = (low + high) / 2, half = ((high - low) / 2) * by;
      view.signal(`zoom_${axis}`, Number(by) ? [middle - half, middle + half] : null);
    }
    view.runAsync();
  });
}

// Terms have a tooltip under the pointer and the focus. Escape hides it.
const tip = document.createElement("div");
tip.id = "tip";
tip.setAttribute("role", "tooltip");
tip.hidden = true;
document.body.append(tip);
let explained = null;
function explain(word) {
  explained = word;
  tip.textContent = word.dataset.meaning;
  tip.hidden = false;
  const at = word.getBoundingClientRect(), box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(at.left, document.documentElement.clientWidth - box.width - 8))}px`;
  tip.style.top = `${at.bottom + box.height + 6 > innerHeight ? at.top - box.height - 4 : at.bottom + 4}px`;
}
const quiet = () => { explained = null; tip.hidden = true; };
for (const word of document.querySelectorAll(".term")) {
  word.dataset.meaning = word.title;
  word.removeAttribute("title");
  word.setAttribute("aria-describedby", "tip");
  for (const kind of ["mouseenter", "focus"]) word.addEventListener(kind, () => explain(word));
  for (const kind of ["mouseleave", "blur"]) word.addEventListener(kind, quiet);
}
addEventListener("keydown", (event) => { if (event.key === "Escape") quiet(); });
addEventListener("scroll", () => { if (explained) explain(explained); }, { passive: true });

// Commands are copied without a network. Without access to the clipboard, the text is selected.
for (const button of document.querySelectorAll(".copy")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const code = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}

function open() {  // the target of a link may be in closed parts of the page
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  let found = false;
  for (let closed; (closed = target?.closest("details:not([open])")); found = true) closed.open = true;
  if (found) target.scrollIntoView();
}
addEventListener("hashchange", open);
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));

const specs = JSON.parse(document.getElementById("specs").textContent);
Promise.all([...document.querySelectorAll("[data-figure]")].map((figure) => draw(figure, specs[figure.dataset.figure])))
  .then(() => {
    for (const each of document.querySelectorAll(".zoom, .choose")) each.hidden = false;
    for (const each of document.querySelectorAll("details.later")) {  // closed when the charts in it are drawn
      each.open = false;
      each.addEventListener("toggle", () => dispatchEvent(new Event("resize")));
    }
    document.documentElement.dataset.drawn = "yes";
    open();
  });
