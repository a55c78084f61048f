// One label, large: the sample, the classes to choose from, and what else can be done.

import { get } from "./server.js";
import { fill, foreign, large, make, percent, picture, small } from "./sample.js";
import { at, current, page } from "./state.js";
import { choose, undo } from "./deciding.js";
import { open } from "./dialog.js";
import { alike } from "./grid.js";
import { keyOf, named } from "./keys.js";
import { addressOf } from "./links.js";
import * as looks from "./looks.js";
import { chooser } from "./search.js";
import { back, forth } from "./trail.js";
import { showNote } from "./panels.js";

const DIGITS = 10; // classes that have one

function digitFor(k, place) {
  if (page.about.keys) return page.about.keys[k];
  return place < DIGITS ? String((place + 1) % DIGITS) : null;
}

// With more classes than digits, a blind choice is by name alone: any ten of them would lead.
const byName = (item) => item.hidden && page.about.classes.length > DIGITS;

function listed(item) {
  if (item.proposals && !item.hidden) return item.proposals;
  return byName(item) ? [] : page.about.classes.map((_, k) => [k, null]);
}

export function digit(key) {
  const item = current();
  if (!item) return false;
  const place = listed(item).findIndex(([k], n) => digitFor(k, n) === key);
  if (place < 0) return false;
  choose("label", page.about.classes[listed(item)[place][0]]);
  return true;
}

function share(p) {
  const part = make("i");
  part.style.width = `${100 * p}%`;
  return make("span", { class: "share", "aria-hidden": "true" }, part);
}

const cap = (action) => make("kbd", { "aria-hidden": "true" }, named(keyOf(action)));

function option(item, k, p, place) {
  const digit = digitFor(k, place), name = page.about.classes[k];
  const isGiven = k === item.given && !item.hidden, isProposed = k === item.proposed && !item.hidden;
  const keys = [digit && make("kbd", { "aria-hidden": "true" }, digit), isProposed && cap("accept"), isGiven && cap("keep")];
  const chosen = item.decided?.kind === "label" && item.decided.label === name;
  const by = (item.said ?? []).filter((one) => one.label === name).map((one) => one.who);
  const tag = by.length ? foreign(by.join(", ")) : isGiven ? "as given" : isProposed && "proposed";
  return make("button", {
    class: `option${isGiven ? " given" : ""}${isProposed ? " proposed" : ""}${chosen ? " chosen" : ""}`,
    "aria-pressed": chosen ? "true" : "false", onclick: () => choose("label", name),
  }, make("span", { class: "keys" }, keys), make("span", { class: "class" }, foreign(name)),
    tag && make("span", { class: "tag" }, tag),
    p !== null && share(p), p !== null && make("span", { class: "p" }, percent(p)));
}

let blindBox = null; // kept from one sample to the next, without the focus: letters are keys again
function choices(item) {
  const place = at("choices");
  at("type").hidden = byName(item);
  if (byName(item)) {
    blindBox ??= chooser("Search a class by its name", (name) => { at("stage").focus({ preventScroll: true }); choose("label", name); }, { open: true, id: "blind-name" });
    if (blindBox.parentNode !== place) fill(place, blindBox);
    return;
  }
  const within = place.contains(document.activeElement);
  fill(place, ...listed(item).map(([k, p], n) => option(item, k, p, n)));
  if (within) place.querySelector("button")?.focus({ preventScroll: true });
}

export function show() {
  const item = current();
  if (!item) return;
  item.hidden = Boolean(item.blind && !item.revealed);
  item.since ??= performance.now();
  at("single").classList.remove("empty");
  looks.begin();
  const [shown, ready] = large(item, page.about);
  fill(at("stage"), shown);
  if (page.about.kind === "image") looks.look();
  fill(at("id"), foreign(item.id));
  at("id").title = item.id;
  at("faults").textContent = at("faults").title = (item.hidden ? [] : item.faults ?? []).join(" · ");
  choices(item);
  fill(at("near"));
  actions(item);
  standing();
  if (!item.hidden) like(item);
  ready.then(() => requestAnimationFrame(() => requestAnimationFrame(() => {
    if (page.about.kind === "image") looks.look();
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
  fill(at("choices")); fill(at("near")); at("faults").textContent = ""; at("standing").textContent = ""; at("id").textContent = "";
  put("actions", button("undo", "Undo", () => undo())); put("moves", button("back", "Back", back));
  fill(at("stage"), make("div", { class: "done" }, ...words));
}

export function button(action, words, onclick, extra = {}) {
  return make("button", { onclick, "data-action": action, ...extra }, cap(action), ...[words].flat());
}

// Buttons made anew for the next sample; whoever pressed one by Enter has it under the finger still.
function put(id, ...buttons) {
  const focused = at(id).contains(document.activeElement) ? document.activeElement.dataset.action : null;
  fill(at(id), ...buttons);
  if (focused) (at(id).querySelector(`[data-action="${focused}"]`) ?? at(id).querySelector("button"))?.focus({ preventScroll: true });
}

export const accept = () => { const item = current(); if (item && !item.hidden) choose("label", page.about.classes[item.proposed]); };
export const keep = () => { const item = current(); if (item && !item.hidden) choose("label", page.about.classes[item.given]); };

function actions(item) {
  const doubted = item.proposed !== item.given;
  put("actions",
    !item.hidden && doubted && button("accept", ["Accept ", foreign(page.about.classes[item.proposed])], accept, { class: "by-thumb proposed" }),
    !item.hidden && button("keep", ["Keep ", foreign(page.about.classes[item.given])], keep, { class: `by-thumb given${doubted ? "" : " alone"}` }),
    button("unsure", "Unsure", () => choose("unsure")), button("drop", "Drop", () => choose("drop"), { title: "Take the sample out of the data set" }),
    button("skip", "Skip", () => choose("skip")), button("undo", "Undo", () => undo()));
  put("moves",
    button("back", "Back", back), button("next", "Next", forth),
    button("note", item.note ? "Note ✎" : "Note", () => showNote(item)),
    button("enlarge", "Enlarge", () => enlarge(item)),
    page.mode === "fix" && !item.hidden && button("alike", "All like this one", () => alike(item)),
    page.about.kind === "image" && [button("brighter", "Brighter", looks.brighter), button("turn", "Turn", looks.turn)],
    item.blind && !item.revealed && button("reveal", "Reveal what the audit says", () => reveal(item)));
}

const WHAT = { unsure: "unsure", drop: "to be dropped", skip: "skipped" };
const answered = ({ kind, label }) => make("b", {}, kind === "label" ? foreign(label) : WHAT[kind]);

export function standing() {
  const item = current(), place = at("standing");
  if (!item || at("single").classList.contains("empty")) return;
  if (item.said?.length) {
    const lines = item.said.map((one) => make("li", {}, foreign(one.who), ": ", answered(one), one.note && [" – ", foreign(one.note)]));
    return fill(place, make("ul", { class: "said", "aria-label": "Who said what" }, lines));
  }
  if (!item.decided) { place.textContent = item.note ? `Note: ${item.note}` : ""; return; }
  const { who, pending } = item.decided;
  fill(place, "Decided: ", answered(item.decided), who ? " by " : "", who ? foreign(who) : "", pending ? " (saving …)" : "", item.note ? ` · ${item.note}` : "");
}

// Of a row, the columns that are unusual for its class tell most.
export const telling = (item) => (item.columns ?? []).filter((column) => column.odd).map((column) => column.name);

// A small sample, which leads to itself.
const linked = (item) => (sample) => make("a", { href: addressOf(sample.row), class: "sample", "aria-label": `sample ${sample.id}` }, small(sample, page.about, telling(item)));

function neighbours(item, group) {
  const { classes } = page.about;
  if (group.class === null) {
    return make("section", {}, make("h2", {}, "near duplicates"), make("div", { class: "strip" }, group.samples.map((sample) =>
      make("div", {}, linked(item)(sample), make("span", { class: "tag" }, foreign(classes[sample.given]))))));
  }
  return make("section", {}, make("h2", {}, "most alike in ", make("b", { class: group.class === item.given ? "given" : "proposed" }, foreign(classes[group.class])),
    page.mode === "fix" && make("button", { class: "plain", "aria-label": `All like these, given as ${classes[group.class]}`, onclick: () => alike(item, group.class) }, "All like these")),
    make("div", { class: "strip" }, group.samples.map(linked(item))));
}

async function like(item) {
  await new Promise((resume) => setTimeout(resume, 60)); // whoever is faster does not look at these
  if (current() !== item) return;
  const found = await get("near", { row: item.row, who: page.who, mode: page.mode, by: page.filter.by, revealed: item.revealed ? 1 : null }).catch(() => []);
  if (current() !== item) return;
  fill(at("near"), ...found.map((group) => neighbours(item, group)));
}

export async function reveal(item) {
  Object.assign(item, await get("item", { row: item.row, who: page.who, by: page.filter.by, revealed: 1 }), { revealed: true, decided: item.decided, blind: true });
  if (current() === item) show();
}

// Alone on the screen: a picture by its pixels, all of a text, all columns.
export function enlarge(item) {
  const isPicture = page.about.kind === "image";
  open(item.id, make("div", { class: "zoom", role: "region", tabindex: 0, "aria-label": "The sample, enlarged" }, isPicture ? picture(item, 2048) : large(item, page.about)[0]));
  at("dialog").classList.add("full");
}
