// What the page knows, and how it speaks.

import { Refused } from "./server.js";

export const page = {
  about: null, who: "", mode: "fix", filter: {}, status: null,
  trail: [], place: -1, ahead: [], waiting: false, // one at a time
  grid: false, like: null, chosen: new Set(), tiles: [], // many at once
  done: [], saved: Promise.resolve(), // my decisions of this visit, for undo
};

export const at = (id) => document.getElementById(id);
export const current = () => page.trail[page.place];

// While the next label is being fetched, keys decide nothing.
export function wait(on) { page.waiting = on; at("main").setAttribute("aria-busy", String(on)); }

// What is said of something that a person did stays until they do something else; a hint, while it holds.
let said = "", holds = "";
function put() { const place = at("hint"); place.textContent = said || holds; place.hidden = !place.textContent; }
export function say(text) { said = text; put(); }
export function hint(text) { holds = text; put(); }

export function complain(error) {
  const place = at("trouble");
  place.textContent = error?.message ?? error ?? "";
  place.hidden = !place.textContent;
  if (error instanceof Error && !(error instanceof Refused)) console.error(error);
}
