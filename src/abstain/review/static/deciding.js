// Decisions, notes and undo: shown at once, saved one after the other.

import { get, post } from "./server.js";
import { at, complain, current, page, refuse, say } from "./state.js";
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
    page.unsaved.add(item.row);
    return { row: item.row, kind, label, version: item.version };
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
    const invalid = new Map((error.invalid ?? []).map(({ row, error: why }) => [row, why]));
    const left = invalid.size ? answers.filter(({ item }) => !invalid.has(item.row)) : [];
    for (const { item } of answers.filter((one) => !left.includes(one))) {
      item.decided = item.before ?? null;
      refuse(item.id, invalid.get(item.row) ?? error.message);
      refresh(item);
    }
    if (left.length) await save(left, { ...body, answers: body.answers.filter(({ row }) => !invalid.has(row)) }, null);
  }
  answers.forEach(({ item }) => page.unsaved.delete(item.row));
  standing();
  watch();
}

// Its file may be another one by now, which has another address.
async function refresh(item) {
  const { version } = await get("item", { row: item.row, who: page.who, by: page.filter.by }).catch(() => item);
  if (version === item.version) return;
  item.version = version;
  if (current() === item && !page.grid) show();
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
  const { entries } = await post("undo", { seqs, who: page.who, by: page.filter.by });
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
  try { await post("note", { row: item.row, note: text, who: page.who, by: page.filter.by }); } catch (error) { item.note = before; complain(error); }
}
