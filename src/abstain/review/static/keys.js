// Which key does what. A person may change the letters; digits choose classes and stay.

import { recall, remember } from "./kept.js";

export const ACTIONS = {
  accept: ["a", "accept the proposed label"], keep: ["k", "keep the label as given"],
  unsure: ["u", "unsure"], drop: ["d", "drop the sample"], skip: ["s", "skip: it comes back later"],
  undo: ["z", "undo my last decision, as Ctrl+Z does"],
  back: ["ArrowLeft", "back"], next: ["ArrowRight", "next"],
  name: ["/", "type the name of a class, Enter"], note: ["n", "note"],
  alike: ["m", "all like this one, in the grid"], enlarge: ["e", "enlarge"],
  brighter: ["b", "picture: brighter"], turn: ["t", "picture: turn"],
  reveal: ["r", "Verify: reveal the given label and the proposal"],
  grid: ["g", "grid, and back"], all: ["x", "grid: select all"],
  filter: ["f", "filter"], log: ["l", "log"], team: ["i", "team and results"], export: ["o", "export"],
  help: ["?", "keys"],
};
const NAMES = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", " ": "space" };
const TAKEN = new Set(["Enter", " ", "Tab", "Escape", "Shift", "ArrowUp", "ArrowDown", ..."0123456789"]);

let own = {};
try { own = JSON.parse(recall("keys") ?? "{}") ?? {}; } catch { /* kept by another version */ }

export const keyOf = (action) => (typeof own[action] === "string" ? own[action] : ACTIONS[action][0]);
export const named = (key) => NAMES[key] ?? key;
export const isOwn = () => Object.keys(own).length > 0;
export const plainKey = (event) => (event.key.length === 1 ? event.key.toLowerCase() : event.key);

export const actionOf = (event) => Object.keys(ACTIONS).find((action) => keyOf(action) === plainKey(event));

// On keyboards where digits need Shift (AZERTY), the key without it counts as well.
export function digitOf(event) {
  if (/^[0-9]$/.test(event.key)) return event.key;
  const place = /^Digit([0-9])$/.exec(event.code ?? "");
  return place && !event.shiftKey && !actionOf(event) ? place[1] : null;
}

// Why a key cannot be taken; null once it is.
export function change(action, key) {
  if (TAKEN.has(key) || key.length > 1 && !NAMES[key]) return `${named(key)} has a fixed meaning.`;
  const other = Object.keys(ACTIONS).find((one) => one !== action && keyOf(one) === key);
  if (other) return `${named(key)} means: ${ACTIONS[other][1]}.`;
  own = { ...own, [action]: key };
  remember("keys", JSON.stringify(own));
  return null;
}

export function restoreKeys() { own = {}; remember("keys", "{}"); }
