// The content of a report: the state of the page, and the server's answers by address. A live page has none.

import { find } from "./dom.js";

const node = find("frozen");

export const frozen = node === null ? null : JSON.parse(node.textContent);

export function frozenAnswer(address) {
  const known = decodeURIComponent(address);
  if (Object.hasOwn(frozen.answers, known)) return frozen.answers[known];
  throw new Error("This report does not contain these instances. Use stream-osr watch to see all of them.");
}
