// What an operator has focused, or is looking at, stays where it is while the page around it changes.

const PARTS = "article, main > :not(:has(article)):not(.pair), .pair > *";
const TOP = 60;

function anchor() {
  const focused = document.activeElement;
  if (focused !== document.body && focused?.closest("main") && inView(focused)) return focused;
  if (window.scrollY === 0) return null;
  return [...document.querySelectorAll(PARTS)].find((part) => part.getBoundingClientRect().bottom > TOP) ?? null;
}

function inView(node) {
  const box = node.getBoundingClientRect();
  return box.bottom > 0 && box.top < window.innerHeight;
}

export function holdStill(change) {
  const node = anchor();
  const before = node?.getBoundingClientRect().top;
  change();
  if (!node?.isConnected) return;
  const moved = node.getBoundingClientRect().top - before;
  if (Math.abs(moved) >= 1) window.scrollBy({ top: moved, behavior: "instant" });
}
