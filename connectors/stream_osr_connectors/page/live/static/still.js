// Keeps the focused or visible part in place while the page around it changes.

const PARTS = "article, main > :not(:has(article)):not(.pair), .pair > *";
const TOP = 60;

let room = 0; // pixels above the page, if it cannot be scrolled as far as the part above has shrunk

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

function makeRoom(pixels) {
  room = Math.max(0, pixels);
  document.querySelector("main").style.marginTop = room === 0 ? "" : `${room}px`;
}

export function holdStill(change) {
  const node = anchor(),
    before = node?.getBoundingClientRect().top;
  const moved = () => node.getBoundingClientRect().top - before;
  change();
  if (room > 0 && (!node?.isConnected || node !== document.activeElement)) makeRoom(0);
  if (!node?.isConnected) return;
  if (room > 0 && moved() > 0) makeRoom(room - moved());
  if (Math.abs(moved()) >= 1) window.scrollBy({ top: moved(), behavior: "instant" });
  if (node === document.activeElement && moved() <= -1) makeRoom(room - moved());
}
