// What the page knows, and how it speaks.

import { Refused } from "./server.js";

export const page = {
  about: null, who: "", mode: "fix", filter: {}, status: null,
  trail: [], place: -1, ahead: [], waiting: false, // one at a time
  grid: false, like: null, likeOf: null, chosen: new Set(), tiles: [], // many at once
  done: [], saved: Promise.resolve(), // my decisions of this visit, for undo
  visit: Math.random().toString(36).slice(2), // of this page, as a person may have another
  unsaved: new Set(), // rows of decisions that are not saved yet
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

// What was not taken stays in sight until somebody has read it: it has to be decided again.
export function refuse(name, why) {
  const line = document.createElement("p"), sample = document.createElement("bdi"), read = document.createElement("button");
  sample.textContent = name;
  read.textContent = "OK";
  read.addEventListener("click", () => { line.remove(); at("refused").hidden = !at("refused").children.length; });
  line.append("Not taken: ", sample, ` – ${why}. `, read);
  at("refused").append(line);
  at("refused").hidden = false;
}

export function complain(error, ...more) {
  const place = at("trouble");
  place.replaceChildren(error?.message ?? error ?? "", ...more);
  place.hidden = !place.textContent;
  if (error instanceof Error && !(error instanceof Refused)) console.error(error);
}
