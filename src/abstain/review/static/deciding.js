// Decisions, notes and undo: shown at once, saved one after the other.

import { get, post } from "./server.js";
import { at, complain, current, page, refuse, say } from "./state.js";
import { watch } from "./figures.js";
import { fillGrid } from "./grid.js";
import { visit } from "./links.js";
import { inWords, recent } from "./recent.js";
import { show, standing } from "./single.js";
import { forget, forth } from "./trail.js";

// Whoever was away from the page meanwhile did not look at the sample all the time.
document.addEventListener("visibilitychange", () => { for (const item of [...page.trail, ...page.tiles]) item.since = undefined; });
const seconds = (item, of) => (item.since === undefined ? null : Math.round((performance.now() - item.since) / 100 / of) / 10);

export async function decide(answers, { advance = true } = {}) {
  say("");
  const revealed = answers.some(({ item }) => item.revealed);
  const by = page.filter.by;
  // A second opinion of a label of the random sample is as blind, and counts as one of Verify.
  const mode = page.mode === "verify" || answers.some(({ item }) => item.blind) ? (revealed ? "verify-seen" : "verify")
    : by === "disputes" ? "settle" : by === "second" ? "second" : "fix";
  const decided = answers.map(({ item, kind, label }) => {
    item.before = item.decided;
    item.decided = { kind, label: label ?? null, who: page.who, pending: true };
    page.unsaved.add(item.row);
    return { row: item.row, kind, label, version: item.version, seconds: seconds(item, answers.length) };
  });
  const group = { items: answers.map(({ item }) => item), words: inWords(answers), entries: null };
  page.done.push(group);
  if (advance) forth(); else show();
  requestAnimationFrame(() => setTimeout(recent)); // the next sample is first
  page.saved = save(answers, { answers: decided, mode, who: page.who }, page.saved, group);
  await page.saved;
}

// One after the other, so that the last one saved is the last one decided.
async function save(answers, body, before, group) {
  try {
    const { entries } = await post("decide", body, before);
    for (const entry of entries) {
      const found = answers.find(({ item }) => item.row === entry.row);
      if (found) found.item.decided = { ...entry.after, seq: entry.seq, who: entry.who };
    }
    group.entries = entries;
    complain(null);
  } catch (error) {
    const invalid = new Map((error.invalid ?? []).map(({ row, error: why }) => [row, why]));
    const left = invalid.size ? answers.filter(({ item }) => !invalid.has(item.row)) : [];
    for (const { item } of answers.filter((one) => !left.includes(one))) {
      item.decided = item.before ?? null;
      refuse(item.id, invalid.get(item.row) ?? error.message);
      refresh(item);
    }
    group.items = left.map(({ item }) => item);
    group.words = inWords(left);
    if (left.length) await save(left, { ...body, answers: body.answers.filter(({ row }) => !invalid.has(row)) }, null, group);
    else page.done = page.done.filter((one) => one !== group);
  }
  answers.forEach(({ item }) => page.unsaved.delete(item.row));
  standing();
  recent();
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

// A decision of mine of this visit, the last one unless another is named, however many labels it was of.
export async function undo(named = null) {
  await page.saved;
  const group = named ?? page.done.at(-1);
  if (!page.done.includes(group)) return say("Nothing of this visit to undo: older decisions are in the log.");
  page.done = page.done.filter((one) => one !== group); // pressed once more, it is of the one before
  recent();
  try {
    await undoEntries(group.entries.map((entry) => entry.seq));
  } catch (error) {
    page.done.push(group);
    recent();
    return complain(error);
  }
  await (page.grid ? fillGrid(group.items.map((item) => item.row)) : showAgain(group.items[0]));
  say(`Undone: ${group.words}.`);
}

async function showAgain(item) {
  const place = page.trail.findLastIndex((one) => one.row === item.row);
  if (place < 0) return visit(item.row);
  page.place = place;
  show();
}

// Any entries of the log; what holds then may be the decision of another.
export async function undoEntries(seqs) {
  const { entries } = await post("undo", { seqs, who: page.who, by: page.filter.by });
  for (const entry of entries) {
    for (const item of page.trail) if (item.row === entry.row) item.decided = entry.standing;
  }
  say("");
  const left = (group) => !group.entries || group.entries.some(({ seq }) => !seqs.includes(seq));
  page.done = page.done.filter(left);
  forget();
  standing();
  recent();
  watch();
}

export async function note(item, text) {
  const before = item.note;
  item.note = text;
  if (current() === item && !at("single").hidden) show();
  try { await post("note", { row: item.row, note: text, who: page.who, by: page.filter.by }); } catch (error) { item.note = before; complain(error); }
}
