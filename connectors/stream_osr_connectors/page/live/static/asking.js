// Changes: the person's token (stored until the tab is closed) and the server's answers.

import { find, say } from "./dom.js";

const KEPT = "stream-osr token",
  KNOWN_AS = "stream-osr name";

let allowed = false,
  whenGiven = null;
const listeners = [];

export const READ_ONLY = "Read-only: start stream-osr watch with --allow-commands, then sign in with a token.";
export const mayAct = () => allowed;
export const knownAs = () =>
  sessionStorage.getItem(KEPT) === null ? null : (sessionStorage.getItem(KNOWN_AS) ?? "");
export const onWho = (listener) => listeners.push(listener);

export function allow(yes) {
  if (allowed === yes) return;
  allowed = yes;
  tell();
}

const tell = () => listeners.forEach((listener) => listener());

// Sends a command to the server, after asking for a token if there is none. The answer is { ok, text, standing }, or
// null without a token.
export async function ask(what) {
  let wrong = "";
  for (;;) {
    if (sessionStorage.getItem(KEPT) === null && !(await typed(wrong))) return null;
    const answer = await post(what);
    if (answer.status !== 401) return answer;
    forget();
    wrong = answer.text;
  }
}

async function post(what) {
  const headers = { "Content-Type": "application/json", ...bearer(sessionStorage.getItem(KEPT)) };
  try {
    const answer = await fetch("/api/ask", {
      method: "POST",
      headers,
      body: JSON.stringify(what),
      signal: AbortSignal.timeout(60_000),
    });
    const said = await answer.json().catch(() => ({}));
    const text = said.said ?? said.error ?? `the server answered ${answer.status}`;
    return { ok: answer.ok, status: answer.status, text, standing: said.standing };
  } catch {
    return {
      ok: false,
      status: 0,
      text: "the server does not answer. When it is back, the history shows whether the change was made",
    };
  }
}

const bearer = (token) => ({ Authorization: `Bearer ${token}` });

function forget() {
  sessionStorage.removeItem(KEPT);
  sessionStorage.removeItem(KNOWN_AS);
  tell();
}

// Opens the prompt. True when there is a token, false if it was closed without one.
export function typed(wrong = "") {
  const dialog = find("token"),
    input = find("token-typed");
  input.value = "";
  say(find("token-wrong"), wrong);
  if (!dialog.open) dialog.showModal();
  input.focus();
  return new Promise((resolve) => {
    whenGiven = resolve;
  });
}

export function leave() {
  forget();
}

// The name of a token, from the server, before the first command.
async function whose(token) {
  try {
    const answer = await fetch("/api/who", {
      headers: bearer(token),
      cache: "no-store",
      signal: AbortSignal.timeout(10_000),
    });
    if (answer.status === 404) return { by: "" };
    const said = await answer.json().catch(() => ({}));
    return answer.ok
      ? { by: String(said.by ?? "") }
      : { wrong: said.error ?? `the server answered ${answer.status}` };
  } catch {
    return { wrong: "the server does not answer. Try again when the connection is back" };
  }
}

export function prompting() {
  const dialog = find("token"),
    input = find("token-typed");
  dialog.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const token = input.value.trim();
    if (token === "" || !/^[\x21-\x7e]+$/.test(token)) {
      say(
        find("token-wrong"),
        token === ""
          ? "type the token, or close this dialog"
          : "a token has only ASCII letters, digits and punctuation, and no spaces",
      );
      return;
    }
    const { by, wrong } = await whose(token);
    if (wrong !== undefined) {
      say(find("token-wrong"), wrong);
      input.select();
      return;
    }
    sessionStorage.setItem(KEPT, token);
    sessionStorage.setItem(KNOWN_AS, by);
    tell();
    const given = whenGiven;
    whenGiven = null;
    dialog.close();
    given?.(true);
  });
  dialog.addEventListener("close", () => {
    input.value = "";
    const given = whenGiven;
    whenGiven = null;
    given?.(false);
  });
}
