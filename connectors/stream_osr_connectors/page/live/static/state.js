// What follows from the state that the server tells.

const WAITING = new Set(["emerging", "recurred", "dormant"]);

export const waits = (candidate) => WAITING.has(candidate.status);

// Candidates that wait for somebody, in the order of all other reports.
export const waiting = (state) => state.inbox.filter(waits);

// The subclasses of a candidate.
export const idsOf = ({ id, ids }) => ids ?? [id];

// The act that an undo would take back now.
export function undoable(state) {
  const acts = state.history;
  if (acts.some((act) => act.undoable !== undefined)) return acts.find((act) => act.undoable) ?? null;
  return acts.find((act) => !act.undone && act.action !== "undo") ?? null;
}

// What it takes back of one subclass.
export function undoableOf(state, id) {
  return state.history.find((act) => act.undoable && (act.subclasses ?? []).map(String).includes(id)) ?? null;
}

export const sameLabel = (one, other) => JSON.stringify(one) === JSON.stringify(other);
