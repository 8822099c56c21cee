// The connection to the server: receives states, and reconnects with growing waits after a loss.

const FIRST_WAIT = 1,
  LONGEST_WAIT = 30; // seconds
const SILENCE = 45; // seconds without a message after which the page sends a request

export function follow(seen, told) {
  let source = null,
    wait = FIRST_WAIT,
    timer = null,
    heard = 0,
    asking = false,
    fetching = false,
    again = false;

  function open() {
    clearTimeout(timer);
    source?.close();
    told({ standing: "waiting" });
    source = new EventSource("/api/stream");
    source.addEventListener("state", (event) => take(event.data));
    source.onopen = () => {
      heard = Date.now();
    };
    source.onerror = lost;
  }

  // A message has a state, or announces a new one, which is then fetched.
  async function take(text) {
    heard = Date.now();
    again = fetching;
    if (fetching) return;
    fetching = true;
    const from = source;
    try {
      let state = JSON.parse(text);
      do {
        again = false;
        if (state === null || state.stream === undefined) state = await fetched();
        wait = FIRST_WAIT;
        told({ standing: "live" });
        seen(state);
        state = null;
      } while (again);
    } catch {
      if (from === source) lost();
      else again = true; // the connection was opened again meanwhile
    } finally {
      fetching = false;
    }
    if (again) take("null");
  }

  async function fetched() {
    const answer = await fetch("/api/state", { cache: "no-store", signal: AbortSignal.timeout(10_000) });
    if (!answer.ok) throw new Error(String(answer.status));
    return answer.json();
  }

  function lost() {
    source?.close();
    source = null;
    clearTimeout(timer);
    const until = Date.now() + 1000 * wait;
    wait = Math.min(2 * wait, LONGEST_WAIT);
    countDown(until);
  }

  function countDown(until) {
    const left = Math.ceil((until - Date.now()) / 1000);
    if (left <= 0) {
      open();
      return;
    }
    told({ standing: "lost", left });
    timer = setTimeout(() => countDown(until), 1000);
  }

  // A connection can be dead without an error, such as after a laptop's sleep or the end of a tunnel.
  setInterval(async () => {
    if (source === null || asking || Date.now() - heard < 1000 * SILENCE) return;
    asking = true;
    try {
      await fetched();
      heard = Date.now();
    } catch {
      lost();
    } finally {
      asking = false;
    }
  }, 5000);

  addEventListener("online", open);
  addEventListener("pagehide", () => source?.close());
  addEventListener("pageshow", (event) => {
    if (event.persisted) open();
  });
  open();
  return {
    again() {
      wait = FIRST_WAIT;
      open();
    },
  };
}
