// Facts that follow from the server's state.

const WAITING = new Set(["emerging", "recurred", "dormant"]);

export const waits = (candidate) => WAITING.has(candidate.status);

// Candidates that need a decision, in the order of all other reports.
export const waiting = (state) => state.inbox.filter(waits);

// The subclasses of a candidate.
export const idsOf = ({ id, ids }) => ids ?? [id];

// The change that an undo would revert now.
export function undoable(state) {
  const acts = state.history;
  if (acts.some((act) => act.undoable !== undefined)) return acts.find((act) => act.undoable) ?? null;
  return acts.find((act) => !act.undone && act.action !== "undo") ?? null;
}

// The change of one subclass that an undo would revert now.
export function undoableOf(state, id) {
  return state.history.find((act) => act.undoable && (act.subclasses ?? []).map(String).includes(id)) ?? null;
}

export const sameLabel = (one, other) => JSON.stringify(one) === JSON.stringify(other);
