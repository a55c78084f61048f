// Decisions, notes and undo: shown at once, saved one after the other.

import { post } from "./server.js";
import { at, complain, current, page, say } from "./state.js";
import { watch } from "./figures.js";
import { fillGrid } from "./grid.js";
import { show, standing } from "./single.js";
import { forget, forth } from "./trail.js";

export async function decide(answers, { advance = true } = {}) {
  say("");
  const revealed = answers.some(({ item }) => item.revealed);
  const by = page.filter.by;
  const mode = page.mode === "verify" ? (revealed ? "verify-seen" : "verify")
    : by === "disputes" ? "settle" : by === "second" ? "second" : "fix";
  const decided = answers.map(({ item, kind, label }) => {
    item.before = item.decided;
    item.decided = { kind, label: label ?? null, who: page.who, pending: true };
    return { row: item.row, kind, label };
  });
  if (advance) forth(); else show();
  page.saved = save(answers, { answers: decided, mode, who: page.who }, page.saved);
  await page.saved;
}

// One after the other, so that the last one saved is the last one decided.
async function save(answers, body, before) {
  try {
    const { entries } = await post("decide", body, before);
    for (const entry of entries) {
      const found = answers.find(({ item }) => item.row === entry.row);
      if (found) found.item.decided = { ...entry.after, seq: entry.seq, who: entry.who };
    }
    if (body.who === page.who) page.done.push(entries);
    complain(null);
  } catch (error) {
    answers.forEach(({ item }) => { item.decided = item.before ?? null; });
    complain(error);
  }
  standing();
  watch();
}

export const choose = (kind, label) => { const item = current(); if (item && !page.waiting) decide([{ item, kind, label }]); };

// My last decision of this visit, however many labels it was of; never that of another.
export async function undo() {
  await page.saved;
  const last = page.done.pop();
  if (!last) return say("Nothing of this visit to undo: older decisions are in the log.");
  try { await undoEntries(last.map((entry) => entry.seq)); } catch (error) { return complain(error); }
  const place = page.trail.findLastIndex((item) => item.row === last[0].row);
  if (place >= 0 && !page.grid) page.place = place;
  if (page.grid) fillGrid(); else if (current()) show(); else forth();
}

// Any entries of the log; what holds then may be the decision of another.
export async function undoEntries(seqs) {
  const { entries } = await post("undo", { seqs, who: page.who });
  for (const entry of entries) {
    for (const item of page.trail) if (item.row === entry.row) item.decided = entry.standing;
  }
  say("");
  page.done = page.done.map((group) => group.filter(({ seq }) => !seqs.includes(seq))).filter((group) => group.length);
  forget();
  standing();
  watch();
}

export async function note(item, text) {
  const before = item.note;
  item.note = text;
  if (current() === item && !at("single").hidden) show();
  try { await post("note", { row: item.row, note: text, who: page.who }); } catch (error) { item.note = before; complain(error); }
}
