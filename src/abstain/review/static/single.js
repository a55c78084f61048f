// One label, large: the sample, the classes to choose from, and what else can be done.

import { get } from "./server.js";
import { fill, foreign, large, make, percent, picture, small } from "./sample.js";
import { at, current, page } from "./state.js";
import { choose, undo } from "./deciding.js";
import { alike } from "./grid.js";
import { back, forth } from "./trail.js";
import { showNote } from "./panels.js";

function keyOf(k, place) {
  if (page.about.keys) return page.about.keys[k];
  return place < 10 ? String((place + 1) % 10) : null;
}

function listed(item) {
  if (item.proposals && !item.hidden) return item.proposals;
  return page.about.classes.slice(0, 10).map((_, k) => [k, null]);
}

export function digit(key) {
  const item = current();
  if (!item) return false;
  const place = listed(item).findIndex(([k], n) => keyOf(k, n) === key);
  if (place < 0) return false;
  choose("label", page.about.classes[listed(item)[place][0]]);
  return true;
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

export function show() {
  const item = current();
  if (!item) return;
  item.hidden = item.blind && !item.revealed;
  at("single").classList.remove("empty");
  const [shown, ready] = large(item, page.about);
  fill(at("stage"), shown);
  fill(at("id"), foreign(item.id));
  fill(at("choices"), ...listed(item).map(([k, p], place) => option(item, k, p, place)));
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

// Words in place of a sample, and only what leads away from here.
export function blank(...words) {
  at("single").classList.add("empty");
  fill(at("choices")); fill(at("near")); at("standing").textContent = ""; at("id").textContent = "";
  fill(at("actions"), button("z", "Undo", undo)); fill(at("moves"), button("←", "Back", back));
  fill(at("stage"), make("div", { class: "done" }, ...words));
}

export function button(key, words, action, extra = {}) {
  return make("button", { onclick: action, ...extra }, make("kbd", {}, key), ...[words].flat());
}

export const accept = () => { const item = current(); if (item && !item.hidden) choose("label", page.about.classes[item.proposed]); };
export const keep = () => { const item = current(); if (item && !item.hidden) choose("label", page.about.classes[item.given]); };

function actions(item) {
  const doubted = item.proposed !== item.given;
  fill(at("actions"),
    !item.hidden && doubted && button("a", ["Accept ", foreign(page.about.classes[item.proposed])], accept, { class: "by-thumb proposed" }),
    !item.hidden && button("k", ["Keep ", foreign(page.about.classes[item.given])], keep, { class: `by-thumb given${doubted ? "" : " alone"}` }),
    button("u", "Unsure", () => choose("unsure")), button("d", "Drop", () => choose("drop"), { title: "Take the sample out of the data set" }),
    button("s", "Skip", () => choose("skip")), button("z", "Undo", undo));
  fill(at("moves"),
    button("←", "Back", back), button("→", "Forth", forth),
    button("n", item.note ? "Note ✎" : "Note", () => showNote(item)),
    page.mode === "fix" && button("m", "All like this one", () => alike(item)),
    page.about.kind === "image" && button("e", "Enlarge", () => enlarge(item)),
    item.hidden && button("r", "Reveal what the audit says", () => reveal(item)));
}

export function standing() {
  const item = current(), place = at("standing");
  if (!item || at("single").classList.contains("empty")) return;
  if (!item.decided) { place.textContent = item.note ? `Note: ${item.note}` : ""; return; }
  const { kind, label, who, pending } = item.decided;
  const what = { label: "", unsure: "unsure", drop: "to be dropped", skip: "skipped" }[kind];
  fill(place, "Decided: ", kind === "label" ? make("b", {}, foreign(label)) : make("b", {}, what),
    who ? " by " : "", who ? foreign(who) : "", pending ? " (saving …)" : "", item.note ? ` · ${item.note}` : "");
}

// Of a row, the columns that are unusual for its class tell most.
export const telling = (item) => (item.columns ?? []).filter((column) => column.odd).map((column) => column.name);

async function like(item) {
  await new Promise((resume) => setTimeout(resume, 60)); // whoever is faster does not look at these
  if (current() !== item) return;
  const found = await get("near", { row: item.row }).catch(() => []);
  if (current() !== item) return;
  fill(at("near"), ...found.map((group) => make("section", {},
    make("h3", {}, "most alike in ", make("b", { class: group.class === item.given ? "given" : "proposed" }, foreign(page.about.classes[group.class]))),
    make("div", { class: "strip" }, group.samples.map((sample) => small(sample, page.about, telling(item)))))));
}

export async function reveal(item) {
  Object.assign(item, await get("item", { row: item.row, who: page.who, by: page.filter.by }), { revealed: true, decided: item.decided, blind: true });
  if (current() === item) show();
}

export function enlarge(item) {
  at("dialog-title").textContent = item.id;
  fill(at("dialog-body"), make("div", { class: "zoom" }, picture(item, 2048)));
  at("dialog").classList.add("full");
  at("dialog").showModal();
}
