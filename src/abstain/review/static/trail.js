// One label after the other: what comes next, and the way back.

import { get, onTrouble, postLast } from "./server.js";
import { fill, make, preload } from "./sample.js";
import { at, complain, current, page, say, wait } from "./state.js";
import { nothing } from "./ends.js";
import { fillGrid } from "./grid.js";
import { blank, show } from "./single.js";

const AHEAD = 12; // items that are fetched ahead
let fetching = null;
let ended = false;
let held = 0; // labels that fit and that others have before them, where nothing is left
let turn = 0; // of two restarts at once only the last goes on

export function asked(n) {
  const without = new Set([...page.trail.slice(-30), ...page.ahead].map((item) => item.row).concat(...page.unsaved));
  return { who: page.who, visit: page.visit, mode: page.mode === "verify" ? "verify" : null, count: n, without: [...without].join(","), like: page.like, of: page.like === null ? null : page.likeOf, ...page.filter };
}

export async function refill() {
  if (fetching || ended || page.ahead.length >= AHEAD / 2) return fetching;
  const { mode, filter, who } = page;
  fetching = get("next", asked(AHEAD)).then((found) => {
    if (mode !== page.mode || filter !== page.filter || who !== page.who) return;
    const known = new Set(page.ahead.map((item) => item.row));
    page.ahead.push(...found.items.filter((item) => !known.has(item.row)));
    ended = found.items.length === 0;
    held = ended && (page.mode === "verify" || (page.filter.state ?? "open") === "open") ? found.held ?? 0 : 0;
    page.ahead.slice(0, AHEAD).forEach((item) => preload(item, page.about.kind));
  }).catch(complain).finally(() => { fetching = null; });
  return fetching;
}

// What was fetched ahead may be decided or ranked otherwise by now.
export function forget() { page.ahead = []; ended = false; }

export async function restart(after = null) {
  page.trail = []; page.place = -1; forget(); say("");
  const mine = ++turn;
  wait(true);
  await after;
  await fetching;
  if (!page.grid) await refill();
  if (mine !== turn) return;
  wait(false);
  if (page.grid) return fillGrid();
  await forth();
}

export async function forth() {
  if (page.waiting) return;
  if (page.place + 1 < page.trail.length) page.place++;
  else {
    if (!page.ahead.length) { // until the next is there, a key must not decide this one again
      const mine = turn;
      wait(true);
      await refill();
      if (mine !== turn) return;
      wait(false);
    }
    const next = page.ahead.shift();
    if (!next) { // keys must not decide what is no longer shown
      page.place = page.trail.length;
      return nothing(held);
    }
    page.trail.push(next);
    page.place = page.trail.length - 1;
  }
  show();
  refill();
}

export function back() {
  if (page.place <= 0 || page.waiting) return;
  page.place = Math.min(page.place, page.trail.length) - 1;
  show();
}

onTrouble((why, about) => {
  const copy = about?.copy && make("a", { href: "/api/copy", download: "" }, "Download the log as it is in memory.");
  complain(why && `${about.unsaved ? `Not saved yet: ${about.unsaved}. ` : ""}${why}; trying again. `, ...(copy ? [copy] : []));
  if (why && page.waiting) {
    blank(make("h2", {}, `${why}.`), make("p", {}, "What you decided is kept here until it is saved. The page goes on by itself."));
    fill(at("actions")); fill(at("moves"));
  } else if (!why && current() && at("stage").querySelector(".broken")) show(); // its picture was not to be had
});

// Whoever closes the page leaves what is before them to others.
window.addEventListener("pagehide", () => {
  if (page.who) postLast("leave", { who: page.who, visit: page.visit });
});
window.addEventListener("pageshow", (event) => { if (event.persisted) restart(); });
