// Acts: who asks (a token, kept until the tab is closed) and what the server answers.

import { find, say } from "./dom.js";

const KEPT = "stream-osr token",
  KNOWN_AS = "stream-osr name";

let allowed = false,
  whenGiven = null;
const listeners = [];

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

// Asks the server for something, for the token first where there is none; the answer is { ok, text, standing }, or null
// where the token was not given.
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
      text: "the server does not answer: whether it was done will stand in the history once it is back",
    };
  }
}

const bearer = (token) => ({ Authorization: `Bearer ${token}` });

function forget() {
  sessionStorage.removeItem(KEPT);
  sessionStorage.removeItem(KNOWN_AS);
  tell();
}

// Opens the prompt; true once there is a token, false where it was closed without one.
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

// Whose token it is: the server says so before anything is asked with it.
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
    return { wrong: "the server does not answer; try again once the link is back" };
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
          ? "type the token, or close this"
          : "a token has letters, digits and signs of ASCII only, and no blanks",
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
