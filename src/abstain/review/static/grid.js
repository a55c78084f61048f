// Many labels at once.

import { get } from "./server.js";
import { count, fill, foreign, make, percent, small } from "./sample.js";
import { at, complain, current, page, say } from "./state.js";
import { decide, undo } from "./deciding.js";
import { button, show, telling } from "./single.js";
import { asked, forget, forth } from "./trail.js";

export async function fillGrid() {
  if (!page.grid) return; // it was left while a decision was being saved
  at("single").hidden = true; at("grid").hidden = false;
  page.chosen.clear();
  const found = await get("next", { ...asked(60), without: [...page.unsaved].join(",") }).catch(complain);
  if (!page.grid) return;
  page.tiles = found?.items ?? [];
  fill(at("tiles"), ...(page.tiles.length ? page.tiles.map(tile) : [make("p", { class: "note" }, "Nothing left here: no label that fits the filter is open.")]));
  bar(found?.left ?? 0);
  at("tiles").querySelector(".tile")?.focus();
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

export function toggleFocused() {
  const tile = document.activeElement;
  if (!tile?.classList.contains("tile")) return false;
  toggle(Number(tile.dataset.row));
  return true;
}

function bar(left) {
  fill(at("grid-bar"), make("span", { class: "chosen" }, make("b", { id: "chosen" }, "0 selected"), ` of ${page.tiles.length} shown, ${count(left)} in all`),
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

export async function alike(item) { page.like = item.row; page.grid = true; await fillGrid(); }

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
function step(by) {
  const tiles = [...at("tiles").querySelectorAll(".tile")], now = Math.max(0, tiles.indexOf(document.activeElement));
  const next = tiles[Math.min(tiles.length - 1, Math.max(0, now + by))];
  tiles.forEach((one) => { one.tabIndex = one === next ? 0 : -1; });
  next?.focus();
}

export const keys = { a: () => many("proposed"), k: () => many("given"), u: () => many("unsure"), d: () => many("drop"), x: selectAll, z: undo,
  ArrowRight: () => step(1), ArrowLeft: () => step(-1), ArrowDown: () => step(columns()), ArrowUp: () => step(-columns()) };
