// Many labels at once.

import { get } from "./server.js";
import { count, fill, foreign, make, percent, small } from "./sample.js";
import { at, complain, current, page, say } from "./state.js";
import { decide, undo } from "./deciding.js";
import { isFiltered } from "./ends.js";
import { chooser } from "./search.js";
import { button, enlarge, show, telling } from "./single.js";
import { asked, forget, forth } from "./trail.js";

let anchor = null; // where a range begins: the tile that was chosen last

export async function fillGrid(marked = []) {
  if (!page.grid) return; // it was left while a decision was being saved
  at("single").hidden = true; at("grid").hidden = false;
  page.chosen.clear(); anchor = null;
  const found = await get("next", { ...asked(60), without: [...page.unsaved].join(",") }).catch(complain);
  if (!page.grid) return;
  page.tiles = (found?.items ?? []).filter((item) => !item.blind); // these go one at a time, as in Verify
  page.tiles.forEach((item) => { item.since = performance.now(); });
  fill(at("tiles"), ...(page.tiles.length ? page.tiles.map(tile) : [nothingHere()]));
  bar(found?.left ?? 0);
  for (const row of marked) tileOf(row)?.classList.add("undone");
  const first = at("tiles").querySelector(".undone") ?? at("tiles").querySelector(".tile");
  if (first) focus(first);
}

const nothingHere = () => make("div", { role: "option", "aria-selected": "false", "aria-disabled": "true", class: "note" },
  isFiltered() ? "Nothing left here: no label that fits the filter is open." : "Nothing left here: no label is open.");
const tileOf = (row) => at("tiles").querySelector(`[data-row="${row}"]`);

function tile(item, place) {
  const { classes } = page.about;
  return make("div", { role: "option", tabindex: place ? -1 : 0, "aria-selected": "false", class: "tile", "data-row": item.row,
    onclick: (event) => { focus(event.currentTarget); choose(item.row, event.shiftKey); }, ondblclick: () => enlarge(item) },
    small(item, page.about, telling(item)),
    make("p", {}, make("b", { class: "given" }, foreign(classes[item.given])), item.proposed === item.given ? " in doubt" : [" → ", make("b", { class: "proposed" }, foreign(classes[item.proposed]))], ` ${percent(item.wrong)}`));
}

function toggle(row, on) {
  on ? page.chosen.add(row) : page.chosen.delete(row);
  tileOf(row)?.setAttribute("aria-selected", String(on));
  at("chosen").textContent = `${page.chosen.size} selected`;
}

// One tile; with Shift all from the last one chosen to here.
function choose(row, range) {
  const rows = page.tiles.map((item) => item.row), from = rows.indexOf(anchor), to = rows.indexOf(row);
  if (range && from >= 0) rows.slice(Math.min(from, to), Math.max(from, to) + 1).forEach((one) => toggle(one, true));
  else { toggle(row, !page.chosen.has(row)); anchor = row; }
}

export function toggleFocused(range) {
  const tile = document.activeElement;
  if (!tile?.classList.contains("tile")) return false;
  choose(Number(tile.dataset.row), range);
  return true;
}

function bar(left) {
  fill(at("count"), make("b", { id: "chosen" }, "0 selected"), ` of ${page.tiles.length} shown, ${count(left)} in all`, page.like !== null && ", most alike first");
  fill(at("grid-bar"), button("all", "Select all", selectAll), button("accept", "Accept proposals", () => many("proposed"), { class: "proposed" }),
    button("keep", "Keep as given", () => many("given"), { class: "given" }),
    chooser("Any class by its name", (name) => label(name), { id: "grid-name" }),
    button("unsure", "Unsure", () => many("unsure")), button("drop", "Drop", () => many("drop")),
    button("enlarge", "Enlarge", enlargeFocused), button("undo", "Undo", () => undo()), button("grid", "One at a time", leaveGrid));
}

function selectAll() {
  const all = page.chosen.size < page.tiles.length;
  page.tiles.forEach((item) => toggle(item.row, all));
}

function enlargeFocused() {
  const row = Number(at("tiles").querySelector(".tile[tabindex='0']")?.dataset.row);
  const item = page.tiles.find((one) => one.row === row);
  if (item) enlarge(item);
}

async function answer(answered) {
  const items = page.tiles.filter((item) => page.chosen.has(item.row));
  if (!items.length) return say("Select labels first: by a click, by space, or all by the key x. Shift selects a range.");
  await decide(items.map((item) => ({ item, ...answered(item) })), { advance: false });
  await fillGrid();
}

function many(what) {
  const { classes } = page.about;
  return answer((item) => (what === "unsure" || what === "drop" ? { kind: what } : { kind: "label", label: classes[item[what]] }));
}

const label = (name) => answer(() => ({ kind: "label", label: name }));

// Classes that have a digit have it here, too.
export function digit(key) {
  const k = page.about.keys?.indexOf(key) ?? -1;
  if (k < 0) return false;
  label(page.about.classes[k]);
  return true;
}

export async function alike(item, of = null) { page.like = item.row; page.likeOf = of; page.grid = true; await fillGrid(); }

export async function openGrid() {
  if (page.mode === "verify") return say("Verify goes one at a time: an answer must not be led.");
  page.grid = true; page.like = null; await fillGrid();
}

export async function leaveGrid() {
  page.grid = false; page.like = null;
  at("grid").hidden = true; at("single").hidden = false;
  forget();
  const item = current();
  if (item) item.decided = (await get("item", { row: item.row, who: page.who, by: page.filter.by })).decided; // the grid may have decided it
  if (item && !item.decided) show(); else await forth();
}

const columns = () => getComputedStyle(at("tiles")).gridTemplateColumns.split(" ").length;
function focus(tile) {
  for (const one of at("tiles").querySelectorAll(".tile")) one.tabIndex = one === tile ? 0 : -1;
  tile.focus();
}
function step(by, range) {
  const tiles = [...at("tiles").querySelectorAll(".tile")], now = Math.max(0, tiles.indexOf(document.activeElement));
  const next = tiles[Math.min(tiles.length - 1, Math.max(0, now + by))];
  if (!next) return;
  anchor ??= range ? Number(tiles[now].dataset.row) : null;
  focus(next);
  if (range) choose(Number(next.dataset.row), true);
}

export const keys = { accept: () => many("proposed"), keep: () => many("given"), unsure: () => many("unsure"), drop: () => many("drop"), all: selectAll, undo: () => undo(),
  enlarge: enlargeFocused, name: () => at("grid-name").focus() };
export const arrows = { ArrowRight: () => 1, ArrowLeft: () => -1, ArrowDown: columns, ArrowUp: () => -columns() };
export const move = (key, range) => step(arrows[key](), range);
