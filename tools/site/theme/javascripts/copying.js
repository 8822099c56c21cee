// The copy button of a Python session copies what was typed: no prompts, nothing that was printed.

function typed(session) {
  const lines = [];
  let before = ""; // the prompt of the line before, none where that was printed
  for (const line of session.split("\n")) {
    const prompt = /^(>>>|\.\.\.)( |$)/.exec(line)?.[1] ?? "";
    if (prompt === ">>>" && before === "...") lines.push(""); // ends the block before, as Enter does
    before = prompt === "..." && !before ? "" : prompt;
    if (before) lines.push(line.slice(4));
    else if (lines.length && lines.at(-1)) lines.push("");
  }
  return lines.join("\n").trimEnd() + (/^\s/.test(lines.filter(Boolean).at(-1) ?? "") ? "\n\n" : "\n");
}

document.addEventListener(
  "click",
  (event) => {
    const button = event.target.closest("[data-clipboard-target]");
    const code = button && document.querySelector(button.dataset.clipboardTarget);
    if (code?.querySelector(".gp")) button.dataset.clipboardText = typed(code.textContent); // the theme takes it first
  },
  true,
);
