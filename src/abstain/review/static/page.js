// The page: what is before the person, what a key does, what comes next.

import { get, onTrouble, post, Refused } from "./server.js";
import { count, fill, foreign, large, make, percent, picture, preload, small } from "./sample.js";
import { close, showFilter, showHelp, showLog, showMore, showNote, showPerson } from "./panels.js";

const AHEAD = 12; // items that are fetched ahead
const at = (id) => document.getElementById(id);
export const page = {
  about: null, who: "", mode: "fix", filter: {}, grid: false,
  trail: [], place: -1, ahead: [], chosen: new Set(), tiles: [], status: null, like: null, waiting: false, done: [], saved: Promise.resolve(),
};
let fetching = null;
let ended = false;

// asking for what comes next

function asked(n) {
  const without = [...page.trail.slice(-30), ...page.ahead].map((item) => item.row);
  return { who: page.who, mode: page.mode === "verify" ? "verify" : null, count: n, without: without.join(","), like: page.like, ...page.filter };
}

async function refill() {
  if (fetching || ended || page.ahead.length >= AHEAD / 2) return fetching;
  const mode = page.mode, filter = page.filter;
  fetching = get("next", asked(AHEAD)).then((found) => {
    if (mode !== page.mode || filter !== page.filter) return;
    const known = new Set(page.ahead.map((item) => item.row));
    page.ahead.push(...found.items.filter((item) => !known.has(item.row)));
    ended = found.items.length === 0;
    page.ahead.slice(0, AHEAD).forEach((item) => preload(item, page.about.kind));
  }).catch(complain).finally(() => { fetching = null; });
  return fetching;
}

async function restart() {
  page.trail = []; page.place = -1; page.ahead = []; ended = false;
  await fetching;
  if (page.grid) return fillGrid();
  await refill();
  await forth();
}

export async function forth() {
  if (page.waiting) return;
  if (page.place + 1 < page.trail.length) page.place++;
  else {
    if (!page.ahead.length) { // until the next is there, a key must not decide this one again
      page.waiting = true;
      await refill();
      page.waiting = false;
    }
    const next = page.ahead.shift();
    if (!next) return nothing();
    page.trail.push(next);
    page.place = page.trail.length - 1;
  }
  show();
  refill();
}

export function back() {
  if (page.place <= 0) return;
  page.place--;
  show();
}

export const current = () => page.trail[page.place];

// deciding

export async function decide(answers, { advance = true, note = "" } = {}) {
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
  const before = page.saved;
  page.saved = save(answers, { answers: decided, mode, who: page.who, note }, before);
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
    page.done.push(entries);
  } catch (error) {
    answers.forEach(({ item }) => { item.decided = item.before ?? null; });
    complain(error);
  }
  standing();
  watch();
}

const choose = (kind, label) => { const item = current(); if (item && !page.waiting) decide([{ item, kind, label }]); };

export async function undo() {
  await page.saved;
  const last = page.done.pop();
  if (!last) return say("Nothing of this visit to undo: older decisions are in the log.");
  try {
    for (const entry of [...last].reverse()) await undoEntry(entry.seq);
  } catch (error) { return complain(error); }
  const place = page.trail.findLastIndex((item) => item.row === last[0].row);
  if (place >= 0 && !page.grid) page.place = place;
  if (page.grid) fillGrid(); else show();
}

export async function undoEntry(seq) {
  const { entries } = await post("undo", { seq, who: page.who });
  for (const entry of entries) {
    for (const item of page.trail) {
      if (item.row === entry.row) item.decided = entry.after && { ...entry.after, who: entry.who };
    }
  }
  ended = false;
  watch();
}

export async function note(item, text) {
  await post("note", { row: item.row, note: text, who: page.who });
  item.note = text;
  show();
}

// showing

function keyOf(k, place) {
  if (page.about.keys) return page.about.keys[k];
  return place < 10 ? String((place + 1) % 10) : null;
}

function listed(item) {
  if (item.proposals && !item.hidden) return item.proposals;
  return page.about.classes.slice(0, 10).map((_, k) => [k, null]);
}

function share(p) {
  const part = make("i");
  part.style.width = `${100 * p}%`;
  return make("span", { class: "share", "aria-hidden": "true" }, part);
}

function option(item, k, p, place) {
  const key = keyOf(k, place), name = page.about.classes[k];
  const isGiven = k === item.given && !item.hidden, isProposed = k === item.proposed && !item.hidden;
  const keys = [key && make("kbd", {}, key), isProposed && make("kbd", {}, "a"), isGiven && make("kbd", {}, "k")];
  const chosen = item.decided?.kind === "label" && item.decided.label === name;
  return make("button", {
    class: `option${isGiven ? " given" : ""}${isProposed ? " proposed" : ""}${chosen ? " chosen" : ""}`,
    "aria-pressed": chosen ? "true" : "false",
    onclick: () => choose("label", name),
  }, make("span", { class: "keys" }, keys), make("span", { class: "class" }, foreign(name)),
    isGiven && make("span", { class: "tag" }, "as given"), isProposed && !isGiven && make("span", { class: "tag" }, "proposed"),
    p !== null && share(p), p !== null && make("span", { class: "p" }, percent(p)));
}

function show() {
  const item = current();
  if (!item) return nothing();
  item.hidden = item.blind && !item.revealed;
  at("single").classList.remove("empty");
  const [shown, ready] = large(item, page.about);
  fill(at("stage"), shown);
  fill(at("id"), foreign(item.id));
  const list = listed(item);
  fill(at("choices"), ...list.map(([k, p], place) => option(item, k, p, place)));
  fill(at("near"));
  actions(item);
  standing();
  if (!item.hidden) like(item);
  ready.then(() => requestAnimationFrame(() => requestAnimationFrame(() => {
    document.body.dataset.row = item.row;
    if (performance.getEntriesByName("key", "mark").length) {
      performance.measure("next", "key");
      performance.clearMarks("key");
    }
  })));
}

function button(key, words, action, extra = {}) {
  return make("button", { onclick: action, ...extra }, make("kbd", {}, key), ...[words].flat());
}

function actions(item) {
  fill(at("actions"),
    !item.hidden && button("a", ["Accept ", foreign(page.about.classes[item.proposed])], single.a, { class: "by-thumb proposed" }),
    !item.hidden && button("k", ["Keep ", foreign(page.about.classes[item.given])], single.k, { class: "by-thumb given" }),
    button("u", "Unsure", () => choose("unsure")), button("d", "Drop", () => choose("drop"), { title: "Take the sample out of the data set" }),
    button("s", "Skip", () => choose("skip")), button("z", "Undo", undo),
    button("←", "Back", back), button("→", "Forth", forth),
    button("n", item.note ? "Note ✎" : "Note", () => showNote(item)),
    page.mode === "fix" && button("m", "All like this one", () => alike(item)),
    page.about.kind === "image" && button("e", "Enlarge", () => enlarge(item)),
    item.blind && !item.revealed && button("r", "Reveal what the audit says", () => reveal(item)));
}

function standing() {
  const item = current();
  if (!item) return;
  const place = at("standing");
  if (!item.decided || page.filter.by === "second") { place.textContent = item.note ? `Note: ${item.note}` : ""; return; }
  const { kind, label, who, pending } = item.decided;
  const what = { label: "", unsure: "unsure", drop: "to be dropped", skip: "skipped" }[kind];
  fill(place, "Decided: ", kind === "label" ? make("b", {}, foreign(label)) : make("b", {}, what),
    who ? " by " : "", who ? foreign(who) : "", pending ? " (saving …)" : "", item.note ? ` · ${item.note}` : "");
}

// Of a row, the columns that are unusual for its class tell most.
const telling = (item) => (item.columns ?? []).filter((column) => column.odd).map((column) => column.name);

async function like(item) {
  await new Promise((resume) => setTimeout(resume, 60)); // whoever is faster does not look at these
  if (current() !== item) return;
  try {
    const found = await get("near", { row: item.row });
    if (current() !== item) return;
    fill(at("near"), ...found.map((group) => make("section", {},
      make("h3", {}, "most alike in ", make("b", { class: group.class === item.given ? "given" : "proposed" }, foreign(page.about.classes[group.class]))),
      make("div", { class: "strip" }, group.samples.map((sample) => small(sample, page.about, telling(item)))))));
  } catch (error) { if (!(error instanceof Refused)) throw error; }
}

async function reveal(item) {
  Object.assign(item, await get("item", { row: item.row }), { revealed: true, decided: item.decided, blind: true });
  show();
}

function enlarge(item) {
  const body = make("div", { class: "zoom" }, picture(item.row, 2048));
  at("dialog-title").textContent = item.id;
  fill(at("dialog-body"), body);
  at("dialog").classList.add("full");
  at("dialog").showModal();
}

function nothing() {
  const skipped = page.status?.skipped ?? 0;
  page.place = page.trail.length; // keys must not decide what is no longer shown
  at("single").classList.add("empty");
  fill(at("choices")); fill(at("actions"), button("z", "Undo", undo), button("←", "Back", () => { if (page.trail.length) { page.place = page.trail.length - 1; show(); } }));
  fill(at("near")); at("standing").textContent = ""; at("id").textContent = "";
  fill(at("stage"), make("div", { class: "done" }, make("h2", {}, "Nothing left here."),
    make("p", {}, page.mode === "verify" ? "All that was drawn at random is answered." : "No label that fits the filter is open."),
    skipped && page.mode === "fix" ? make("button", { onclick: () => setFilter({ state: "skip" }) }, `Look at ${count(skipped)} skipped`) : ""));
}

// many at once

async function fillGrid() {
  if (!page.grid) return; // it was left while a decision was being saved
  at("single").hidden = true; at("grid").hidden = false;
  page.chosen.clear();
  const found = await get("next", { ...asked(60), without: "" }).catch(complain);
  page.tiles = found?.items ?? [];
  fill(at("tiles"), ...page.tiles.map(tile));
  bar(found?.left ?? 0);
  at("tiles").firstElementChild?.focus();
}

function tile(item, place) {
  const classes = page.about.classes;
  return make("div", { role: "option", tabindex: place ? -1 : 0, "aria-selected": "false", class: "tile", "data-row": item.row, onclick: () => toggle(item.row) },
    small(item, page.about, telling(item)),
    make("p", {}, make("b", { class: "given" }, foreign(classes[item.given])), " → ", make("b", { class: "proposed" }, foreign(classes[item.proposed])), ` ${percent(item.wrong)}`));
}

function toggle(row, on = !page.chosen.has(row)) {
  on ? page.chosen.add(row) : page.chosen.delete(row);
  at("tiles").querySelector(`[data-row="${row}"]`)?.setAttribute("aria-selected", String(on));
  at("chosen").textContent = `${page.chosen.size} selected`;
}

function bar(left) {
  fill(at("grid-bar"), 
    make("b", { id: "chosen" }, "0 selected"), ` of ${page.tiles.length} shown, ${count(left)} in all`,
    button("x", "Select all", selectAll), button("a", "Accept proposals", () => many("proposed")),
    button("k", "Keep as given", () => many("given")), button("u", "Unsure", () => many("unsure")), button("d", "Drop", () => many("drop")),
    button("z", "Undo", undo), page.like !== null && make("span", { class: "tag" }, "most like one first"), button("g", "One at a time", leaveGrid));
}

function selectAll() {
  const all = page.chosen.size < page.tiles.length;
  page.tiles.forEach((item) => toggle(item.row, all));
}

async function many(what) {
  const items = page.tiles.filter((item) => page.chosen.has(item.row));
  if (!items.length) return say("Select labels first: by a click, by space, or all by x.");
  const kind = what === "unsure" || what === "drop" ? what : "label";
  await decide(items.map((item) => ({ item, kind, label: kind === "label" ? page.about.classes[item[what]] : undefined })), { advance: false });
  await fillGrid();
}

async function alike(item) { page.like = item.row; page.grid = true; await fillGrid(); }

async function openGrid() {
  if (page.mode === "verify") return say("Verify goes one at a time: an answer must not be led.");
  page.grid = true; page.like = null; await fillGrid();
}

async function leaveGrid() {
  page.grid = false; page.like = null;
  at("grid").hidden = true; at("single").hidden = false;
  page.ahead = []; ended = false;
  const item = current();
  if (item) item.decided = (await get("item", { row: item.row })).decided; // the grid may have decided it
  if (item && !item.decided) show(); else await forth();
}

// what is always in sight

let asking = null;
export async function watch() {
  clearTimeout(asking);
  asking = setTimeout(async () => {
    try { figures(await get("status")); } catch (error) { complain(error); }
    if (page.status && (!page.status.up_to_date || page.status.training?.running)) watch();
  }, page.status ? 250 : 0);
}

function figures(status) {
  page.status = status;
  if (status.trouble) complain(new Error(status.trouble));
  const range = (x, show) => `${show(x.value)} (${show(x.low)} to ${show(x.high)})`;
  at("decided").textContent = count(status.decided);
  at("left").textContent = count(status.flagged_left);
  at("last").textContent = status.last ? `${status.last_wrong} of ${status.last}` : "–";
  const whole = (x) => count(Math.round(x));
  if (page.mode === "verify") {
    at("unseen").textContent = status.is_measured ? range(status.rate, (x) => `${(100 * x).toFixed(1)}%`) : `${status.checked} of ${status.enough}`;
    at("unseen-words").textContent = status.is_measured
      ? `of all labels are wrong, measured on ${count(status.checked)}${status.halved_by ? `; ${count(status.halved_by)} more answers halve the interval` : ""}`
      : "answers until the rate is measured";
  } else {
    at("unseen").textContent = range(status.left_wrong, whole);
    at("unseen-words").textContent = `wrong, not yet seen (${status.is_measured ? "measured, 95%" : "estimated, 90%"})`;
  }
  const training = status.training ?? {};
  const hint = training.running ? `Training on the corrected labels: ${training.step}.`
    : page.mode === "fix" && !status.pays
      ? `Of the next 50 labels about ${Math.round(status.next_wrong)} are wrong: going on worst first no longer pays.${status.is_measured ? "" : " Verify a random sample to know what is left."}` : "";
  at("hint").textContent = hint; at("hint").hidden = !hint;
}

function say(text) { const place = at("hint"); place.textContent = text; place.hidden = false; }
export function complain(error) {
  const place = at("trouble");
  place.textContent = error === null ? "" : error.message ?? String(error);
  place.hidden = !place.textContent;
  if (error && !(error instanceof Refused) && !(error instanceof TypeError)) console.error(error);
}

// what keys do

export async function setMode(mode) {
  page.mode = mode; page.filter = {}; page.like = null; page.grid = false;
  at("grid").hidden = true; at("single").hidden = false;
  for (const name of ["fix", "verify"]) at(`mode-${name}`).setAttribute("aria-pressed", String(name === mode));
  document.body.dataset.mode = mode;
  if (page.status) figures(page.status);
  await restart();
}

export async function setFilter(filter) { page.filter = filter; close(); await restart(); }

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
  a: () => { const item = current(); if (item && !item.hidden) choose("label", page.about.classes[item.proposed]); },
  k: () => { const item = current(); if (item && !item.hidden) choose("label", page.about.classes[item.given]); },
  u: () => choose("unsure"), d: () => choose("drop"), s: () => choose("skip"), z: undo,
  ArrowLeft: back, ArrowRight: forth, n: () => current() && showNote(current()),
  m: () => page.mode === "fix" && current() && alike(current()),
  e: () => page.about.kind === "image" && current() && enlarge(current()),
  r: () => current()?.blind && reveal(current()), "/": () => at("name-of-class").focus(),
};
const inGrid = { a: () => many("proposed"), k: () => many("given"), u: () => many("unsure"), d: () => many("drop"), x: selectAll, z: undo,
  ArrowRight: () => step(1), ArrowLeft: () => step(-1), ArrowDown: () => step(columns()), ArrowUp: () => step(-columns()) };
const everywhere = { f: () => showFilter(), l: () => showLog(), i: () => showMore(), "?": () => showHelp(), g: () => (page.grid ? leaveGrid() : openGrid()) };

const columns = () => getComputedStyle(at("tiles")).gridTemplateColumns.split(" ").length;
function step(by) {
  const tiles = [...at("tiles").children], now = Math.max(0, tiles.indexOf(document.activeElement));
  const next = tiles[Math.min(tiles.length - 1, Math.max(0, now + by))];
  tiles.forEach((one) => { one.tabIndex = one === next ? 0 : -1; });
  next?.focus();
}

function digit(key) {
  const item = current();
  if (page.grid || !item) return false;
  const place = listed(item).findIndex(([k], n) => keyOf(k, n) === key);
  if (place < 0) return false;
  choose("label", page.about.classes[listed(item)[place][0]]);
  return true;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || at("dialog").open) return;
  if (event.target.matches("input, textarea, select")) {
    if (event.key === "Enter" && event.target.id === "name-of-class") typed(event);
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (event.repeat && !key.startsWith("Arrow")) return; // one decision for each press
  if (page.grid && key === " " && document.activeElement?.classList.contains("tile")) {
    event.preventDefault();
    return toggle(Number(document.activeElement.dataset.row));
  }
  performance.clearMarks("key");
  performance.mark("key");
  if (/^[0-9]$/.test(key)) { if (digit(key)) event.preventDefault(); return; }
  const action = (page.grid ? inGrid : single)[key] ?? everywhere[key];
  if (action) { event.preventDefault(); action(); }
});

// beginning

onTrouble((text) => complain(text && new Error(text)));
at("mode-fix").onclick = () => setMode("fix");
at("mode-verify").onclick = () => setMode("verify");
at("open-filter").onclick = () => showFilter();
at("open-grid").onclick = () => (page.grid ? leaveGrid() : openGrid());
at("open-log").onclick = () => showLog();
at("open-more").onclick = () => showMore();
at("open-help").onclick = () => showHelp();
at("person").onclick = () => showPerson();
at("again").onclick = async () => {
  at("again").disabled = true;
  const began = performance.now();
  try {
    figures(await post("again", {}));
    page.ahead = []; ended = false;
    say(`Judged again by ${count(page.status.decided)} decisions in ${((performance.now() - began) / 1000).toFixed(1)} s: about ${count(Math.round(page.status.left_wrong.value))} wrong labels are left, ${count(page.status.flagged_left)} are flagged.`);
    if (page.grid) fillGrid(); else refill();
  } catch (error) { complain(error); } finally { at("again").disabled = false; }
};
at("dialog").addEventListener("close", () => { at("dialog").classList.remove("full"); at("stage").focus({ preventScroll: true }); });

export function setPerson(name) {
  page.who = name;
  localStorage.setItem("who", name);
  fill(at("person"), foreign(name));
}

async function begin() {
  page.about = await get("about");
  document.title = `Review of ${page.about.name}`;
  fill(at("name"), foreign(page.about.name));
  fill(at("classes"), ...page.about.classes.map((name) => make("option", { value: name })));
  setPerson(localStorage.getItem("who") || page.about.you || "me");
  document.body.dataset.kind = page.about.kind;
  watch();
  await setMode("fix");
}

begin().catch(complain);
