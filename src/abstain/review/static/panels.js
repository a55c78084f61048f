// What opens over the page: the log, the team, results, export, notes, instructions, keys.

import { get, post } from "./server.js";
import { count, foreign, make, percent, small } from "./sample.js";
import { at, complain, page } from "./state.js";
import { note, undoEntries } from "./deciding.js";
import { close, field, open } from "./dialog.js";
import { downloads } from "./ends.js";
import { watch } from "./figures.js";
import { recall, remember } from "./kept.js";
import { ACTIONS, change, isOwn, keyOf, named, plainKey, restoreKeys } from "./keys.js";
import { addressOf } from "./links.js";
import { markdown } from "./markdown.js";
import { renew, setFilter, setPerson } from "./page.js";

const answered = (answer) => (answer === null ? make("i", {}, "nothing") : answer.kind === "label" ? foreign(answer.label) : make("i", {}, answer.kind));

function changeOf(entry) {
  if (entry.mode === "note") return make("i", {}, "note");
  const whose = entry.mode !== "undo" ? "" : entry.whose === entry.who ? "undid: " : ["undid ", foreign(`${entry.whose}’s`), ": "];
  // Before the first decision, what held is the label as given.
  const before = entry.before === null && entry.given !== undefined ? [make("span", { class: "note" }, "given "), foreign(entry.given)] : answered(entry.before);
  return [whose, before, " → ", entry.after === null ? make("i", {}, "open") : answered(entry.after)];
}

function logLine(entry, renewed) {
  const isPicture = page.about.kind === "image" && entry.row !== null;
  const sample = entry.row === null ? foreign(entry.id) : make("a", { href: addressOf(entry.row), class: "id" }, foreign(entry.id));
  return make("li", { class: entry.holds ? "" : "undone" },
    isPicture ? small({ row: entry.row, id: entry.id, version: entry.version }, page.about) : "",
    make("div", {}, make("p", {}, make("span", { class: "what" }, changeOf(entry)), entry.note ? ` “${entry.note}”` : ""),
      make("p", { class: "when" }, sample, " · ", foreign(entry.who), ` · ${entry.at.replace("T", " ").slice(0, 16)} UTC`, entry.seconds === null ? "" : ` · ${entry.seconds} s`)),
    entry.holds ? make("button", { onclick: async () => { await undoEntries([entry.seq]).catch(complain); renewed(); } }, "Undo") : make("i", { class: "note" }, "undone"));
}

export async function showLog() {
  const list = make("ol", { class: "log" });
  const more = make("button", {}, "Older ones");
  let oldest = null;
  const load = async () => {
    const { entries } = await get("log", { before: oldest, unseen_by: page.filter.by === "second" ? page.who : null });
    oldest = entries.at(-1)?.seq ?? oldest;
    more.hidden = entries.length < 50;
    list.append(...entries.map((entry) => logLine(entry, showLog)));
  };
  more.onclick = () => load().catch(complain);
  await load().catch(complain);
  const empty = list.children.length ? "" : make("p", { class: "note" }, "No decision yet.");
  open("Log", make("p", { class: "note" }, "Every decision, the newest first. Anything can be undone, whoever made it and whenever; the log says who undid it."), list.children.length ? list : "", empty, more);
}

const points = (x) => (x === null || x === undefined ? "–" : `${(100 * x).toFixed(1)}%`);
const heads = (...words) => make("thead", {}, make("tr", {}, words.map((x) => (x ? make("th", { scope: "col" }, x) : make("td")))));

function team(status) {
  const by = Object.entries(status.decided_by ?? {}).sort((a, b) => b[1] - a[1]);
  return [make("h3", {}, "Team"),
    by.length ? make("table", { class: "plain" }, heads("who", "labels decided"), make("tbody", {}, by.map(([who, number]) => make("tr", {}, make("th", { scope: "row" }, foreign(who)), make("td", {}, count(number)))))) : make("p", { class: "note" }, "Nobody has decided a label yet."),
    status.agreements.length ? make("table", { class: "plain" }, heads("two people", "both judged", "agree", "Cohen’s κ"),
      make("tbody", {}, status.agreements.map((x) => make("tr", {}, make("td", {}, foreign(x.people.join(", "))), make("td", {}, count(x.both)), make("td", {}, percent(x.alike / x.both)), make("td", {}, x.kappa === null ? "–" : x.kappa.toFixed(2))))))
      : make("p", { class: "note" }, "Nobody has judged a label that another judged too. Filter by “others, not me” to give a second opinion."),
    status.disputes ? make("p", {}, `${count(status.disputes)} in dispute. `, make("button", { onclick: () => setFilter({ by: "disputes", state: "any" }) }, "Settle them")) : ""];
}

function results(gain) {
  if (!gain) return "";
  const figure = (row, x) => (row.is_count ? count(x) : points(x));
  return [make("h3", {}, "Before and after"), make("table", { class: "plain" }, heads("", "before", "after"),
    make("tbody", {}, gain.rows.map((row) => make("tr", {}, make("th", { scope: "row" }, row.what), make("td", {}, figure(row, row.before)), make("td", {}, figure(row, row.after)))))),
    make("p", { class: "note" }, gain.trouble ? `The training ended: ${gain.trouble}` : gain.note),
    gain.page && make("p", {}, make("a", { href: "/before-after", target: "_blank", rel: "noopener" }, "The page to show to others: before and after")),
    page.about.trains && make("p", { class: "bar" }, make("button", { class: "main", disabled: gain.running, onclick: async () => { await post("retrain").catch(complain); watch(); showTeam(); } }, gain.running ? `Training: ${gain.step}` : "Train on the corrected labels"))];
}

export async function showTeam() {
  const gain = await get("gain").catch(() => null);
  open("Team and results", ...team(page.status ?? { agreements: [], disputes: 0, people: [] }), ...[results(gain)].flat());
}

export function showExport() {
  const { folder } = page.about;
  open("Export", downloads(), make("p", { class: "note" }, "Each is also written to ", make("code", {}, foreign(`${folder}/exports/`)), ", where its paths are right. In a terminal, with more to choose from:"),
    make("pre", {}, `abstain export ${folder} --to corrected --out corrected.csv`));
}

// Kept when it is left, in whatever way: by a button, a key, a click elsewhere, or with the page.
export function showNote(item) {
  const text = make("textarea", { id: "note", rows: 4, maxlength: 4000 }, item.note ?? "");
  const keep = () => { const now = text.value.trim(); if (now !== (item.note ?? "")) note(item, now); };
  const end = () => { keep(); window.removeEventListener("pagehide", keep); document.removeEventListener("visibilitychange", keep); };
  text.addEventListener("blur", keep);
  window.addEventListener("pagehide", keep);
  document.addEventListener("visibilitychange", keep);
  at("dialog").addEventListener("close", end, { once: true });
  open("Note", field("on this label; kept as soon as you leave it", text), make("p", { class: "bar" }, make("button", { class: "main", onclick: close }, "Keep")));
  text.focus();
}

export function showPerson() {
  const name = make("input", { id: "who", value: page.who, maxlength: 80, autocomplete: "nickname" });
  const keep = () => { if (name.value.trim()) { close(); setPerson(name.value.trim()); } };
  name.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); keep(); } });
  open("Who are you?", field("name, as the log has it", name), make("p", { class: "note" }, "Another name is another person: you go on with other labels, and z undoes what is decided under it."), make("p", { class: "bar" }, make("button", { class: "main", onclick: keep }, "That is me")));
  name.select();
}

export function showInstructions() {
  open("Instructions", make("div", { class: "prose" }, ...markdown(page.about.instructions)));
  remember("instructions", page.about.instructions);
}

// Once for everybody, and again when they change.
export function offerInstructions() {
  at("open-instructions").hidden = !page.about.instructions;
  if (page.about.instructions && recall("instructions") !== page.about.instructions) showInstructions();
}

export function showHelp() {
  const said = make("p", { class: "note", role: "status" }, "Press a key’s button, then the key that you want instead.");
  const lines = Object.entries(ACTIONS).map(([action, [, words]]) => {
    const press = make("button", { class: "key", "aria-label": `${words}: key ${named(keyOf(action))}, change` }, make("kbd", {}, named(keyOf(action))));
    press.addEventListener("click", () => { press.firstChild.textContent = "…"; said.textContent = `Which key for: ${words}? Escape leaves it.`; });
    press.addEventListener("keydown", (event) => {
      if (press.firstChild.textContent !== "…" || ["Shift", "Control", "Alt", "Meta", "Tab"].includes(event.key)) return;
      event.preventDefault(); event.stopPropagation();
      const refused = event.key === "Escape" ? "" : change(action, plainKey(event));
      press.firstChild.textContent = named(keyOf(action));
      press.setAttribute("aria-label", `${words}: key ${named(keyOf(action))}, change`);
      said.textContent = refused ?? `${named(keyOf(action))}: ${words}.`;
      renew();
    });
    return make("div", {}, make("dt", {}, press), make("dd", {}, words));
  });
  const fixed = [["0 … 9", "the class with that digit, also in the grid"], ["space", "grid: select; with Shift a range"], ["arrows", "grid: move; with Shift select"]];
  open("Keys", said, make("dl", { class: "keys" }, lines, fixed.map(([key, words]) => make("div", {}, make("dt", {}, make("kbd", {}, key)), make("dd", {}, words)))),
    make("p", { class: "bar" }, make("button", { onclick: () => { restoreKeys(); renew(); showHelp(); }, disabled: !isOwn() }, "As they were")));
}
