// The page: what keys and buttons do, and how it begins.

import { get, post } from "./server.js";
import { count, fill, foreign } from "./sample.js";
import { at, complain, current, page, say } from "./state.js";
import { choose, undo } from "./deciding.js";
import { close } from "./dialog.js";
import { figures, watch } from "./figures.js";
import { beginQueue, showChips, showFilter } from "./filter.js";
import { alike, arrows, digit as digitInGrid, fillGrid, keys as inGrid, leaveGrid, move, openGrid, toggleFocused } from "./grid.js";
import { recall, remember } from "./kept.js";
import { actionOf, digitOf, keyOf, named } from "./keys.js";
import { follow } from "./links.js";
import { brighter, turn, watchRoom } from "./looks.js";
import { offerInstructions, showExport, showHelp, showInstructions, showLog, showNote, showPerson, showTeam } from "./panels.js";
import { recent, watchRecent } from "./recent.js";
import { chooser } from "./search.js";
import { accept, digit, enlarge, keep, reveal, show } from "./single.js";
import { back, forget, forth, refill, restart } from "./trail.js";

export async function setMode(mode) {
  page.mode = mode; page.filter = {}; page.like = null; page.grid = false;
  close();
  at("grid").hidden = true; at("single").hidden = false;
  for (const name of ["fix", "verify"]) at(`mode-${name}`).setAttribute("aria-pressed", String(name === mode));
  document.body.dataset.mode = mode;
  showChips();
  if (page.status) figures(page.status);
  await restart();
}

export async function setFilter(filter) {
  page.filter = filter;
  page.like = null;
  close();
  showChips();
  await restart();
}

// Another name is another person: who had it before keeps no labels, and undo is of the new one's.
export async function setPerson(name) {
  const before = page.who;
  page.who = name;
  remember("who", name);
  fill(at("person"), foreign(name), /^guest \d+$/.test(name) && " – your name?");
  if (!before || before === name) return;
  page.done = [];
  recent();
  await restart(post("leave", { who: before, visit: page.visit }, page.saved).catch(complain));
}

const isPicture = () => page.about.kind === "image" && current();
const single = {
  accept, keep, unsure: () => choose("unsure"), drop: () => choose("drop"), skip: () => choose("skip"), undo: () => undo(),
  back, next: forth, note: () => current() && showNote(current()),
  alike: () => page.mode === "fix" && current() && !current().hidden && alike(current()),
  enlarge: () => current() && enlarge(current()), brighter: () => isPicture() && brighter(), turn: () => isPicture() && turn(),
  reveal: () => current()?.blind && reveal(current()), name: () => (at("blind-name") ?? at("name-of-class"))?.focus(),
};
const toggleGrid = () => (page.grid ? leaveGrid() : openGrid());
const everywhere = { filter: showFilter, log: showLog, team: showTeam, export: showExport, help: showHelp, grid: toggleGrid };

document.addEventListener("keydown", (event) => {
  if (at("dialog").open) return;
  const typing = event.target.matches("input, textarea, select");
  const isUndo = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "z";
  if (isUndo && !typing && !event.repeat) { event.preventDefault(); undo(); return; }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (typing) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.repeat && !event.key.startsWith("Arrow")) { // one decision for each press, by Enter on a button, too
    if (event.key === "Enter" || event.key === " ") event.preventDefault();
    return;
  }
  if (page.grid && event.key === " " && toggleFocused(event.shiftKey)) return event.preventDefault();
  if (page.grid && arrows[event.key]) { event.preventDefault(); return move(event.key, event.shiftKey); }
  performance.clearMarks("key");
  performance.mark("key");
  const number = digitOf(event);
  if (number !== null) { if (page.grid ? digitInGrid(number) : digit(number)) event.preventDefault(); return; }
  const action = actionOf(event), act = (page.grid ? inGrid : single)[action] ?? everywhere[action];
  if (act) { event.preventDefault(); act(); }
});
async function again() {
  at("again").disabled = true;
  const began = performance.now();
  try {
    figures(await post("again", {}));
    forget();
    say(`Ranked again by ${count(page.status.decided)} decisions in ${((performance.now() - began) / 1000).toFixed(1)} s: about ${count(Math.round(page.status.left_wrong.value))} wrong labels still hidden, ${count(page.status.flagged)} flagged.`);
    if (page.grid) fillGrid(); else refill();
  } catch (error) { complain(error); } finally { at("again").disabled = false; }
}

const buttons = { "open-filter": "filter", "open-grid": "grid", "open-log": "log", "open-team": "team", "open-export": "export", "open-help": "help" };
const pressed = {
  "mode-fix": () => setMode("fix"), "mode-verify": () => setMode("verify"), person: showPerson, again, "open-instructions": showInstructions,
  ...Object.fromEntries(Object.entries(buttons).map(([id, action]) => [id, everywhere[action]])),
};
for (const [id, action] of Object.entries(pressed)) at(id).addEventListener("click", () => action());
at("dialog").addEventListener("close", () => { at("dialog").classList.remove("full"); at("stage").focus({ preventScroll: true }); });
window.addEventListener("hashchange", follow);

// Keys that were changed, on everything that shows one.
export function renew() {
  for (const [id, action] of Object.entries(buttons)) at(id).dataset.key = named(keyOf(action));
  if (page.grid) fillGrid(); else if (current()) show();
}

async function begin() {
  page.about = await get("about");
  document.title = `Review of ${page.about.name}`;
  fill(at("name"), foreign(page.about.name));
  at("type").append(chooser("A class by its name", (name) => { at("name-of-class").blur(); choose("label", name); }, { id: "name-of-class" }));
  beginQueue();
  renew();
  await setPerson(recall("who") || page.about.you || (await post("guest")).name);
  document.body.dataset.kind = page.about.kind;
  watchRoom();
  watchRecent();
  watch();
  await setMode(location.hash === "#verify" ? "verify" : "fix");
  await follow();
  offerInstructions();
}

begin().catch(complain);
