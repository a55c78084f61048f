// The page: what keys and buttons do, and how it begins.

import { get, post } from "./server.js";
import { count, fill, foreign, make } from "./sample.js";
import { at, complain, current, page, say } from "./state.js";
import { choose, undo } from "./deciding.js";
import { figures, watch } from "./figures.js";
import { alike, fillGrid, keys as inGrid, leaveGrid, openGrid, toggleFocused } from "./grid.js";
import { close, showFilter, showHelp, showLog, showMore, showNote, showPerson } from "./panels.js";
import { accept, digit, enlarge, keep, reveal } from "./single.js";
import { back, forget, forth, refill, restart } from "./trail.js";

export async function setMode(mode) {
  page.mode = mode; page.filter = {}; page.like = null; page.grid = false;
  at("grid").hidden = true; at("single").hidden = false;
  for (const name of ["fix", "verify"]) at(`mode-${name}`).setAttribute("aria-pressed", String(name === mode));
  document.body.dataset.mode = mode;
  if (page.status) figures(page.status);
  await restart();
}

export async function setFilter(filter) { page.filter = filter; close(); await restart(); }

// Another name is another person: who had it before keeps no labels, and undo is of the new one's.
export async function setPerson(name) {
  const before = page.who;
  page.who = name;
  localStorage.setItem("who", name);
  fill(at("person"), foreign(name), /^guest \d+$/.test(name) && " – your name?");
  if (!before || before === name) return;
  page.done = [];
  await restart(post("leave", { who: before, visit: page.visit }, page.saved).catch(complain));
}

function typed(event) {
  const name = event.target.value.trim().toLowerCase();
  if (!name) return;
  const { classes } = page.about;
  const exact = classes.find((x) => x.toLowerCase() === name);
  const near = classes.filter((x) => x.toLowerCase().startsWith(name));
  const found = exact ?? (near.length === 1 ? near[0] : null);
  if (found === null || found === undefined) return say(near.length ? `Several classes begin so: ${near.slice(0, 6).join(", ")}` : "No class begins so.");
  event.target.value = ""; event.target.blur();
  choose("label", found);
}

const single = {
  a: accept, k: keep, u: () => choose("unsure"), d: () => choose("drop"), s: () => choose("skip"), z: undo,
  ArrowLeft: back, ArrowRight: forth, n: () => current() && showNote(current()),
  m: () => page.mode === "fix" && current() && alike(current()),
  e: () => page.about.kind === "image" && current() && enlarge(current()),
  r: () => current()?.blind && reveal(current()), "/": () => at("name-of-class").focus(),
};
const toggleGrid = () => (page.grid ? leaveGrid() : openGrid());
const everywhere = { f: showFilter, l: showLog, i: showMore, "?": showHelp, g: toggleGrid };

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || at("dialog").open) return;
  if (event.target.matches("input, textarea, select")) {
    if (event.key === "Enter" && event.target.id === "name-of-class") typed(event);
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (event.repeat && !key.startsWith("Arrow")) return; // one decision for each press
  if (page.grid && key === " " && toggleFocused()) return event.preventDefault();
  performance.clearMarks("key");
  performance.mark("key");
  if (/^[0-9]$/.test(key)) { if (!page.grid && digit(key)) event.preventDefault(); return; }
  const action = (page.grid ? inGrid : single)[key] ?? everywhere[key];
  if (action) { event.preventDefault(); action(); }
});

async function again() {
  at("again").disabled = true;
  const began = performance.now();
  try {
    figures(await post("again", {}));
    forget();
    say(`Judged again by ${count(page.status.decided)} decisions in ${((performance.now() - began) / 1000).toFixed(1)} s: about ${count(Math.round(page.status.left_wrong.value))} wrong labels are left, ${count(page.status.flagged_left)} are flagged.`);
    if (page.grid) fillGrid(); else refill();
  } catch (error) { complain(error); } finally { at("again").disabled = false; }
}

const pressed = {
  "mode-fix": () => setMode("fix"), "mode-verify": () => setMode("verify"), person: showPerson, again,
  "open-filter": showFilter, "open-grid": toggleGrid, "open-log": showLog, "open-more": showMore, "open-help": showHelp,
};
for (const [id, action] of Object.entries(pressed)) at(id).addEventListener("click", () => action());
at("dialog").addEventListener("close", () => { at("dialog").classList.remove("full"); at("stage").focus({ preventScroll: true }); });

async function begin() {
  page.about = await get("about");
  document.title = `Review of ${page.about.name}`;
  fill(at("name"), foreign(page.about.name));
  fill(at("classes"), ...page.about.classes.map((name) => make("option", { value: name })));
  await setPerson(localStorage.getItem("who") || page.about.you || (await post("guest")).name);
  document.body.dataset.kind = page.about.kind;
  watch();
  await setMode("fix");
}

begin().catch(complain);
