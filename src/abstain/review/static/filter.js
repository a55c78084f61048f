// Which labels to look at: the dialog, the queue of each kind of fault, and a chip for each condition.

import { count, fill, foreign, make } from "./sample.js";
import { at, page } from "./state.js";
import { field, open } from "./dialog.js";
import { chips } from "./ends.js";
import { setFilter } from "./page.js";

const select = (id, options, value) => {
  const made = make("select", { id }, options.map(([key, words]) => make("option", { value: key }, words)));
  made.value = value ?? "";
  return made;
};
const percentage = (id, value) => make("input", { id, type: "number", min: 0, max: 100, step: "any", value: 100 * value });

export function showFilter() {
  if (page.mode === "verify") {
    return open("Filter", make("p", {}, "A random sample is taken as it comes: there is nothing to choose."));
  }
  const { classes } = page.about, status = page.status ?? { pairs: [], people: [] };
  const classesOr = [["", "any class"], ...classes.map((name, k) => [String(k), name])];
  const given = select("filter-given", classesOr, page.filter.given);
  const proposed = select("filter-proposed", classesOr, page.filter.proposed);
  const state = select("filter-state", [["open", "open"], ["decided", "decided"], ["unsure", "unsure"], ["drop", "to be dropped"], ["skip", "skipped"], ["any", "any"]], page.filter.state ?? "open");
  const by = select("filter-by", [["", "anybody or nobody"], ["second", "others, not me: a second opinion"], ["disputes", "several who disagree"], ...status.people.map((name) => [`person:${name}`, name])], page.filter.by);
  const least = percentage("filter-least", page.filter.least ?? 0), most = percentage("filter-most", page.filter.most ?? 1);
  const apply = (event) => {
    event.preventDefault();
    const filter = { fault: page.filter.fault, given: given.value, proposed: proposed.value, state: state.value, by: by.value, least: Number(least.value) / 100, most: Number(most.value) / 100 };
    // Whoever looks at what others judged looks at labels that are decided.
    if (filter.by && filter.state === "open") filter.state = "any";
    setFilter(filter);
  };
  const pairs = status.pairs.slice(0, 12).map(([i, j, n]) => make("button", { type: "button", onclick: () => setFilter({ given: String(i), proposed: String(j) }) },
    make("b", { class: "given" }, foreign(classes[i])), " → ", make("b", { class: "proposed" }, foreign(classes[j])), ` ${count(n)}`));
  const form = make("form", { onsubmit: apply }, make("div", { class: "fields" }, field("given as", given), field("proposed as", proposed), field("P(wrong), %, from", least), field("to", most), field("state", state), field("judged by", by)),
    make("p", { class: "bar" }, make("button", { class: "main", type: "submit" }, "Show these"), make("button", { type: "button", onclick: () => setFilter({}) }, "All open labels, worst first")));
  // A select opens by Enter in some browsers, and does nothing in others.
  form.addEventListener("keydown", (event) => { if (event.key === "Enter" && event.target.matches("select, input")) { event.preventDefault(); form.requestSubmit(); } });
  open("Filter", form, pairs.length ? [make("h3", {}, "Most frequent pairs among flagged labels"), make("div", { class: "pairs" }, pairs)] : "");
}

// Each condition can be taken away by itself.
export function showChips() {
  const active = Object.entries(page.filter).map(([name, value]) => [name, chips[name]?.(value) ?? null]).filter(([, words]) => words !== null);
  fill(at("chips"), ...active.map(([name, words]) => make("button", { class: "chip", title: "Remove this condition", onclick: () => setFilter(without(name)) }, make("span", {}, words), make("span", { "aria-hidden": "true" }, "×"), make("span", { class: "unseen" }, " remove"))));
  at("queue").value = page.filter.fault ?? "";
  at("queue").disabled = page.mode === "verify";
}

function without(name) {
  const { [name]: _, ...rest } = page.filter;
  if (name === "by") delete rest.state;
  return rest;
}

// Other faults of the audit, in the same queue.
export function beginQueue() {
  const { faults } = page.about;
  at("queue-field").hidden = !faults.length;
  fill(at("queue"), make("option", { value: "" }, "wrong labels, worst first"), faults.map((fault) => make("option", { value: fault.name }, `${fault.words} (${count(fault.count)})`)));
  at("queue").addEventListener("change", () => { at("queue").blur(); setFilter({ fault: at("queue").value || undefined }); });
}
