// What opens over the page: filters, the log, people, what was gained, notes, keys.

import { get, post } from "./server.js";
import { count, fill, foreign, make, percent } from "./sample.js";
import { at, complain, page } from "./state.js";
import { note, undoEntries } from "./deciding.js";
import { watch } from "./figures.js";
import { setFilter, setPerson } from "./page.js";

export const close = () => { if (at("dialog").open) at("dialog").close(); };

function open(title, ...body) {
  at("dialog-title").textContent = title;
  fill(at("dialog-body"), ...body);
  if (!at("dialog").open) at("dialog").showModal();
}

const field = (words, input) => make("label", { class: "field" }, make("span", {}, words), input);
const select = (id, options, value) => {
  const made = make("select", { id }, options.map(([key, words]) => make("option", { value: key }, words)));
  made.value = value ?? "";
  return made;
};

export function showFilter() {
  if (page.mode === "verify") {
    return open("Filter", make("p", {}, "A random sample is taken as it comes: there is nothing to choose."));
  }
  const { classes } = page.about, status = page.status ?? { pairs: [], people: [] };
  const named = classes.map((name, k) => [String(k), name]);
  const given = select("filter-given", [["", "any class"], ...named], page.filter.given);
  const proposed = select("filter-proposed", [["", "any class"], ...named], page.filter.proposed);
  const state = select("filter-state", [["open", "open"], ["decided", "decided"], ["unsure", "unsure"], ["drop", "to be dropped"], ["skip", "skipped"], ["any", "any"]], page.filter.state ?? "open");
  const by = select("filter-by", [["", "anybody or nobody"], ["second", "others, not me: a second opinion"], ["disputes", "several who disagree"], ...status.people.map((name) => [`person:${name}`, name])], page.filter.by);
  const least = make("input", { id: "filter-least", type: "number", min: 0, max: 100, step: "any", value: 100 * (page.filter.least ?? 0) });
  const most = make("input", { id: "filter-most", type: "number", min: 0, max: 100, step: "any", value: 100 * (page.filter.most ?? 1) });
  const pairs = make("div", { class: "pairs" }, status.pairs.slice(0, 12).map(([i, j, n]) => make("button", { type: "button", onclick: () => setFilter({ given: String(i), proposed: String(j) }) },
    make("b", { class: "given" }, foreign(classes[i])), " → ", make("b", { class: "proposed" }, foreign(classes[j])), ` ${count(n)}`)));
  const apply = () => {
    const filter = { given: given.value, proposed: proposed.value, state: state.value, by: by.value, least: Number(least.value) / 100, most: Number(most.value) / 100 };
    // Whoever looks at what others judged looks at labels that are decided.
    if (filter.by && filter.state === "open") filter.state = "any";
    setFilter(filter);
  };
  open("Filter", make("div", { class: "fields" }, field("given as", given), field("proposed as", proposed), field("P(wrong), %, from", least), field("to", most), field("state", state), field("judged by", by)),
    make("p", { class: "bar" }, make("button", { class: "main", onclick: apply }, "Show these"), make("button", { onclick: () => setFilter({}) }, "All open labels, worst first")),
    status.pairs.length ? make("h3", {}, "Most frequent pairs among flagged labels") : "", pairs);
}

const shown = (answer) => (answer === null ? make("i", {}, "nothing") : answer.kind === "label" ? foreign(answer.label) : make("i", {}, answer.kind));

export async function showLog() {
  const list = make("ol", { class: "log" });
  const more = make("button", {}, "Older ones");
  let oldest = null;
  const load = async () => {
    const { entries } = await get("log", { before: oldest, unseen_by: page.filter.by === "second" ? page.who : null });
    oldest = entries.at(-1)?.seq ?? oldest;
    more.hidden = entries.length < 50;
    list.append(...entries.map((entry) => make("li", { class: entry.holds ? "" : "undone" },
      make("span", { class: "when" }, `${entry.at.replace("T", " ").slice(0, 16)} UTC`), " ", foreign(entry.who), " ", make("span", { class: "id" }, foreign(entry.id)), " ",
      entry.mode === "note" ? make("i", {}, "note") : [entry.mode === "undo" ? [entry.whose === entry.who ? "undid: " : ["undid ", foreign(`${entry.whose}’s`), ": "]] : "", shown(entry.before), " → ", shown(entry.after)], entry.note ? ` “${entry.note}”` : "",
      entry.holds ? make("button", { onclick: async () => { await undoEntries([entry.seq]).catch(complain); showLog(); } }, "Undo") : make("i", {}, " undone"))));
  };
  more.onclick = () => load().catch(complain);
  await load().catch(complain);
  open("Log", make("p", { class: "note" }, "Every decision, the newest first. Anything can be undone, whoever made it and whenever; the log says who undid it."), list, more);
}

const points = (x) => (x === null || x === undefined ? "–" : `${(100 * x).toFixed(1)}%`);

export async function showMore() {
  const status = page.status ?? { agreements: [], disputes: 0, people: [] };
  const people = status.agreements.length
    ? make("table", { class: "plain" }, make("thead", {}, make("tr", {}, ["people", "both judged", "agree", "Cohen’s κ"].map((x) => make("th", { scope: "col" }, x)))),
      make("tbody", {}, status.agreements.map((x) => make("tr", {}, make("td", {}, foreign(x.people.join(", "))), make("td", {}, count(x.both)), make("td", {}, percent(x.alike / x.both)), make("td", {}, x.kappa === null ? "–" : x.kappa.toFixed(2))))))
    : make("p", { class: "note" }, "Nobody has judged a label that another judged too. Filter by “others, not me” to give a second opinion.");
  const gain = await get("gain").catch(() => null);
  const body = [make("h3", {}, "People"), people,
    status.disputes ? make("p", {}, `${count(status.disputes)} in dispute. `, make("button", { onclick: () => setFilter({ by: "disputes", state: "any" }) }, "Settle them")) : ""];
  if (gain) {
    body.push(make("h3", {}, "Before and after"), make("table", { class: "plain" },
      make("thead", {}, make("tr", {}, make("td"), make("th", { scope: "col" }, "before"), make("th", { scope: "col" }, "after"))),
      make("tbody", {}, gain.rows.map((row) => make("tr", {}, make("th", { scope: "row" }, row.what), make("td", {}, row.is_count ? count(row.before) : points(row.before)), make("td", {}, row.is_count ? count(row.after) : points(row.after)))))));
    body.push(make("p", { class: "note" }, gain.trouble ? `The training ended: ${gain.trouble}` : gain.note));
    if (gain.page) body.push(make("p", {}, make("a", { href: "/before-after", target: "_blank", rel: "noopener" }, "The page to show to others: before and after")));
    if (page.about.trains) body.push(make("p", { class: "bar" }, make("button", { class: "main", disabled: gain.running, onclick: async () => { await post("retrain").catch(complain); watch(); showMore(); } }, gain.running ? `Training: ${gain.step}` : "Train on the corrected labels")));
  }
  open("People, and what was gained", ...body, make("h3", {}, "Out"), make("pre", {}, `abstain export ${page.about.folder} --to corrected --out corrected.csv`));
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

export function showHelp() {
  const keys = [["a", "accept what is proposed"], ["k", "keep the label as given"], ["0 … 9", "choose the class with that key"], ["/", "type the name of a class, Enter"],
    ["u", "unsure"], ["d", "drop the sample"], ["s", "skip: come back later"], ["z", "undo"], ["← →", "back and forth"], ["n", "note"],
    ["m", "all like this one, in the grid"], ["e", "enlarge the picture"], ["r", "Verify: reveal what the audit says"], ["g", "grid, and back"], ["f", "filter"], ["l", "log"], ["i", "people, gain"],
    ["x, space", "grid: select all, or one"]];
  open("Keys", make("dl", { class: "keys" }, keys.map(([key, what]) => make("div", {}, make("dt", {}, make("kbd", {}, key)), make("dd", {}, what)))));
}
