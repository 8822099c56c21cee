// The change history.

import { find, keep, make, say, show } from "./dom.js";
import { moment, printable } from "./words.js";
import { undoable } from "./state.js";
import { frozen } from "./frozen.js";

const AT_FIRST = 8;

let all = false;

export function history(redraw) {
  find("history-more")
    .querySelector("button")
    .addEventListener("click", () => {
      all = true;
      redraw();
    });
}

export function drawHistory(state, deeds) {
  const acts = all ? state.history : state.history.slice(0, AT_FIRST),
    last = undoable(state);
  show(find("changes"), frozen === null || acts.length > 0);
  show(find("history-empty"), acts.length === 0);
  say(find("history-empty"), "There are no changes yet.");
  show(find("history-more"), state.history.length > acts.length);
  say(find("history-more").querySelector("button"), `Show all ${state.history.length}`);
  keep(
    find("history"),
    acts,
    ({ n }) => String(n),
    makeLine,
    (line, act) => {
      line.act = act;
      const mayUndo = deeds.mayAct() && (act.undoable ?? act === last);
      const [when, who, what, outcome, reason, undo] = line.children;
      say(when, moment(act.at));
      when.dateTime = printable(act.at, 40);
      say(who, printable(act.by ?? "unknown person", 60));
      say(what, printable(act.what));
      say(outcome, act.undone ? "undone" : printable(act.outcome ?? ""));
      show(outcome, act.undone || Boolean(act.outcome));
      say(reason, act.reason ? `“${printable(act.reason)}”` : "");
      show(reason, Boolean(act.reason));
      show(undo, mayUndo);
      line.classList.toggle("undone", Boolean(act.undone));
    },
  );

  function makeLine() {
    const line = make(
      "li",
      {},
      make("time"),
      make("bdi", { className: "by" }),
      make("bdi", { className: "what" }),
      make("span", { className: "outcome" }),
      make("bdi", { className: "reason" }),
    );
    line.append(
      make("button", {
        type: "button",
        className: "undo",
        textContent: "Undo",
        onclick: () => deeds.undoAct(line.act),
      }),
    );
    return line;
  }
}
