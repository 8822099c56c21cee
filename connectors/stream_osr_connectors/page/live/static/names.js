// Names from the data as nodes: escaped, clipped to their place, with up to 300 characters in a tooltip.

import { make } from "./dom.js";
import { printable } from "./words.js";

export function named(value, kind = "") {
  return rename(make("bdi", { className: `clip ${kind}` }), value);
}

export function rename(node, value) {
  const text = printable(value);
  if (node.title !== text) node.title = node.textContent = text;
  return node;
}
