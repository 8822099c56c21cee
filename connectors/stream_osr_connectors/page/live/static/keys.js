// Keyboard shortcuts: single letters work unless a field has the focus, or they are off.

import { find } from "./dom.js";

const OFF = "stream-osr single keys off";

export function keys(deeds) {
  const single = find("single-keys");
  single.checked = localStorage.getItem(OFF) === null;
  single.addEventListener("change", () =>
    single.checked ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, "yes"),
  );
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || document.querySelector("dialog[open]"))
      return;
    const typing = event.target.closest("input, select, textarea");
    if (typing && !typing.closest("dialog")) return; // a field of a closed dialog has the focus until the next frame
    if (event.key === "Escape") {
      document.activeElement.blur();
      return;
    }
    if (event.key === "Enter" && event.target.tagName === "ARTICLE") {
      deeds.o();
      event.preventDefault();
      return;
    }
    const act = Object.hasOwn(deeds, event.key) ? deeds[event.key] : undefined;
    if (act === undefined || !single.checked || (event.repeat && !"jk".includes(event.key))) return;
    event.preventDefault();
    act();
  });
}

export function dialogs() {
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.querySelector(".close").addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialog.close();
    });
  }
}
