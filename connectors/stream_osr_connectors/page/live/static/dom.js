// Creates nodes, and updates lists of nodes. Text is inserted as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

// An element with properties (or attributes, if a name has a dash or is no property) and children.
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

// Changes a text only if it differs, so selections stay and screen readers do not repeat it.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function show(node, yes) {
  if (node.hidden === yes) node.hidden = !yes;
}

// Updates the children of a node to match items. A child is created once for each key and moved only if the order
// differs. `update(child, item)` is called for all children.
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
