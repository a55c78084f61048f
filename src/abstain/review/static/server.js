// What is asked of the server, and what is not saved yet.

const TRIES = [200, 500, 1000, 2000];
export const unsaved = new Set();
let listening = () => {};
const failing = new Map(); // requests that are asked again, and why: another may be answered meanwhile
let review = null; // what the page shows; on the same port there may be another one by now

export function onTrouble(listener) { listening = listener; }

// What was asked is invalid, and would be however often it is asked; `invalid` has rows and reasons.
export class Refused extends Error {
  constructor(message, invalid) { super(message); this.invalid = invalid; }
}

// Anything else says nothing of what was asked, which is kept and asked again.
class Waiting extends Error {
  constructor(message, copy = false) { super(message); this.copy = copy; }
}

const SAYS = {
  401: "The server asks for its token: open the address that abstain review printed in another tab",
  404: "Another server answers at this address",
};

async function answer(response) {
  const body = await response.json().catch(() => null);
  if (response.ok && body !== null) return body;
  if (response.status === 400 && body?.invalid) throw new Refused(body.error, body.invalid);
  const why = SAYS[response.status] ?? (body?.error ? `The server says: ${body.error}` : `The server answers ${response.status} ${response.statusText}`);
  throw new Waiting(why, body?.copy);
}

// Asked again until the server answers, which it may do after it was started anew.
async function untilAnswered(ask) {
  for (let tried = 0; ; tried++) {
    try {
      const found = await ask();
      if (failing.delete(ask)) tell();
      return found;
    } catch (error) {
      if (error instanceof Refused) {
        if (failing.delete(ask)) tell();
        throw error;
      }
      failing.set(ask, error);
      tell();
      await new Promise((resume) => setTimeout(resume, TRIES[Math.min(tried, TRIES.length - 1)]));
    }
  }
}

function tell() {
  const error = [...failing.values()].at(-1);
  if (!error) return listening(null);
  const why = error instanceof Waiting ? error.message : "The server does not answer";
  listening(why, { unsaved: unsaved.size, copy: error.copy });
}

const named = () => (review === null ? {} : { "Abstain-Review": review });

export function get(path, asked = {}) {
  const query = new URLSearchParams(
    Object.entries(asked).filter(([, value]) => value !== null && value !== undefined && value !== ""));
  return untilAnswered(async () => {
    const found = await answer(await fetch(`/api/${path}?${query}`, { headers: named() }));
    if (path === "about") review = found.review;
    return found;
  });
}

const sent = (body, keepalive) => ({ method: "POST", headers: { "Content-Type": "application/json", ...named() }, body: JSON.stringify(body), keepalive });

// A request has a name, and is taken only once. What is to be saved `after` something else waits
// for that, and counts as not saved. A note is sent even if the page is being closed.
export async function post(path, body = {}, after = null) {
  const request = crypto.randomUUID ? crypto.randomUUID() : `${Date.now()}-${Math.random()}`;
  unsaved.add(request);
  try {
    await after;
    return await untilAnswered(async () => answer(await fetch(`/api/${path}`, sent({ ...body, request }, path === "note"))));
  } finally {
    unsaved.delete(request);
  }
}

// As the page is being closed: sent once, whatever comes of it.
export function postLast(path, body) { fetch(`/api/${path}`, sent(body, true)).catch(() => {}); }

// An address of its own for each content, so that a browser never shows another one that it kept.
export function pictureOf(sample, side) {
  const asked = { row: sample.row, side, version: sample.version ?? "", review: review ?? "" };
  return `/api/picture?${new URLSearchParams(asked)}`;
}

window.addEventListener("beforeunload", (event) => { if (unsaved.size) event.preventDefault(); });
