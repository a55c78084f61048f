// What is asked of the server, and what is not saved yet.

const TRIES = [200, 500, 1000, 2000];
export const unsaved = new Set();
let listening = () => {};
let silent = false; // whether the server did not answer lately

export function onTrouble(listener) { listening = listener; }

export class Refused extends Error {}

async function answer(response) {
  const body = await response.json();
  if (!response.ok) throw new Refused(body.error || response.statusText);
  return body;
}

// Asked again until the server answers, which it may do after it was started anew.
async function untilAnswered(ask) {
  for (let tried = 0; ; tried++) {
    try {
      const found = await ask();
      if (silent) { silent = false; listening(null); }
      return found;
    } catch (error) {
      if (error instanceof Refused) throw error;
      silent = true;
      listening(`${unsaved.size ? `Not saved yet: ${unsaved.size}. ` : ""}The server does not answer; trying again.`);
      await new Promise((resume) => setTimeout(resume, TRIES[Math.min(tried, TRIES.length - 1)]));
    }
  }
}

export function get(path, asked = {}) {
  const query = new URLSearchParams(
    Object.entries(asked).filter(([, value]) => value !== null && value !== undefined && value !== ""));
  return untilAnswered(async () => answer(await fetch(`/api/${path}?${query}`)));
}

// A request has a name, and is taken only once. What is to be saved `after` something else waits
// for that, and counts as not saved. A note is sent even if the page is being closed.
export async function post(path, body = {}, after = null) {
  const request = crypto.randomUUID ? crypto.randomUUID() : `${Date.now()}-${Math.random()}`;
  const sent = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ ...body, request }), keepalive: path === "note" };
  unsaved.add(request);
  try {
    await after;
    return await untilAnswered(async () => answer(await fetch(`/api/${path}`, sent)));
  } finally {
    unsaved.delete(request);
  }
}

window.addEventListener("beforeunload", (event) => { if (unsaved.size) event.preventDefault(); });
