// What is asked of the server, and what is not saved yet.

const TRIES = [200, 500, 1000, 2000, 4000, 8000];
export const unsaved = new Set();
let listening = () => {};

export function onTrouble(listener) { listening = listener; }

export class Refused extends Error {}

async function answer(response) {
  const body = await response.json();
  if (!response.ok) throw new Refused(body.error || response.statusText);
  return body;
}

export async function get(path, asked = {}) {
  const query = new URLSearchParams(
    Object.entries(asked).filter(([, value]) => value !== null && value !== undefined && value !== ""));
  return answer(await fetch(`/api/${path}?${query}`));
}

async function once(path, body) {
  return answer(await fetch(`/api/${path}`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  }));
}

// Sent again until the server has answered: a request has a name, and is taken only once. What is
// to be saved `after` something else waits for that, and counts as not saved.
export async function post(path, body = {}, after = null) {
  const request = crypto.randomUUID ? crypto.randomUUID() : `${Date.now()}-${Math.random()}`;
  unsaved.add(request);
  await after;
  for (let tried = 0; ; tried++) {
    try {
      const found = await once(path, { ...body, request });
      unsaved.delete(request);
      listening(null);
      return found;
    } catch (error) {
      if (error instanceof Refused) {
        unsaved.delete(request);
        throw error;
      }
      listening(`Not saved yet: ${unsaved.size}. The server does not answer; trying again.`);
      await new Promise((resume) => setTimeout(resume, TRIES[Math.min(tried, TRIES.length - 1)]));
    }
  }
}

window.addEventListener("beforeunload", (event) => { if (unsaved.size) event.preventDefault(); });
