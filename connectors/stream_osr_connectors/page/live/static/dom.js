// Making nodes, and keeping lists of them in step with what is to be shown. Text goes in as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

// An element with properties (or attributes, where a name holds a dash or is not the element's own) and children.
export function make(tag, properties = {}, ...children) {
  return furnish(document.createElement(tag), properties, children);
}

export function draw(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function furnish(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name in node) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

export const find = (id) => document.getElementById(id);

// Changes a text only where it differs: selections stay, and screen readers are not told the same again.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function show(node, yes) {
  if (node.hidden === yes) node.hidden = !yes;
}

// Brings the children of a node in step with items. A child is made once for each key, moved only where the order
// differs, and told of its item each time; `update(child, item)` is called for all.
export function keep(parent, items, key, create, update) {
  const held = (parent.held ??= new Map());
  const wanted = new Set(items.map(key));
  for (const [name, child] of held) {
    if (wanted.has(name)) continue;
    child.remove();
    held.delete(name);
  }
  let place = parent.firstChild;
  for (const item of items) {
    const name = key(item);
    let child = held.get(name);
    if (child === undefined) held.set(name, (child = create(item)));
    if (child === place) place = place.nextSibling;
    else parent.insertBefore(child, place);
    update(child, item);
  }
}

// Runs `redraw` only when what it draws has changed since it was drawn in that node.
export function unlessDrawn(node, shown, redraw) {
  const text = JSON.stringify(shown);
  if (node.shown === text) return;
  node.shown = text;
  redraw();
}
