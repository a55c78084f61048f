// Where nothing is left: what was done, what is unsure, and what to take away.

import { count, foreign, make } from "./sample.js";
import { at, page } from "./state.js";
import { blank } from "./single.js";
import { setFilter, setMode } from "./page.js";
import { restart } from "./trail.js";

const TAKE = {
  corrected: ["Corrected labels", "all rows, with the corrected label and who decided it"],
  cleaned: ["Cleaned set", "to train on: corrected, without dropped samples"],
  log: ["Log", "every decision, with a link back to its sample"],
};

export function downloads() {
  return make("ul", { class: "downloads" }, page.about.exports.map((what) => make("li", {},
    make("a", { class: "button", href: `/api/export?what=${what}`, download: "" }, TAKE[what][0]), make("span", { class: "note" }, TAKE[what][1]))));
}

export const isFiltered = () => Object.entries(page.filter).some(([name, value]) => chips[name] && chips[name](value) !== null);

// What a filter asks for, in words; null where it asks for nothing.
const none = (x) => x === undefined || x === null || x === "";
export const chips = {
  fault: (x) => (none(x) ? null : page.about.faults.find(({ name }) => name === x)?.words ?? x),
  given: (x) => (none(x) ? null : ["given ", foreign(page.about.classes[x])]),
  proposed: (x) => (none(x) ? null : ["proposed ", foreign(page.about.classes[x])]),
  least: (x) => (none(x) || x <= 0 ? null : `P(wrong) from ${Math.round(100 * x)}%`),
  most: (x) => (none(x) || x >= 1 ? null : `P(wrong) to ${Math.round(100 * x)}%`),
  state: (x) => (none(x) || x === "open" || (x === "any" && page.filter.by) ? null : { decided: "decided", unsure: "unsure", drop: "to be dropped", skip: "skipped", any: "decided or not" }[x]),
  by: (x) => (none(x) ? null : x === "second" ? "others, not me" : x === "disputes" ? "in dispute" : ["by ", foreign(x.replace(/^person:/, ""))]),
};

const line = (words, number) => number !== null && make("div", {}, make("dt", {}, words), make("dd", {}, number));

function summary() {
  const status = page.status;
  if (!status) return "";
  const mine = status.decided_by[page.who] ?? 0, whole = (x) => count(Math.round(x));
  return make("dl", { class: "summary" },
    line("labels decided", count(status.decided)),
    status.decided > mine && line("by you", count(mine)),
    line("corrected", count(status.found_wrong)), line("kept as given", count(status.reviewed - status.found_wrong)), line("to be dropped", count(status.to_drop)),
    line("unsure", count(status.unsure)), line("skipped", count(status.skipped)),
    line(`wrong labels still hidden, ${status.verified.is_measured ? "measured" : "estimated"}`, `${whole(status.left_wrong.value)} (${whole(status.left_wrong.low)} to ${whole(status.left_wrong.high)})`));
}

// Figures come a moment after the last decision.
let shown = null; // what the end page was made for
const counts = () => JSON.stringify([page.status?.sample_skipped, page.status?.skipped, page.status?.unsure]);
export function renewSummary() {
  const old = at("stage").querySelector(".summary");
  if (old && shown.counts !== counts()) nothing(shown.held); else old?.replaceWith(summary());
}

const verifying = () => page.mode === "verify" && page.filter.state !== "skip";
const skippedInSample = () => (verifying() ? page.status?.sample_skipped ?? 0 : 0);
export const lookAtSkipped = () => skippedInSample() > 0 && make("button", { onclick: () => setFilter({ state: "skip" }) }, `Look at ${count(skippedInSample())} skipped`);

function why(held, passed) {
  if (held) return `Other people have the last ${count(held)} before them. What they leave comes back after ten minutes.`;
  const left = skippedInSample();
  if (left) return `${count(left)} of what was drawn at random ${left === 1 ? "was" : "were"} skipped; all else is answered. Until then the interval takes ${left === 1 ? "it" : "them"} as wrong and as right.`;
  if (verifying()) return "All that was drawn at random is answered.";
  if (page.mode === "verify") return "No other skipped sample is left.";
  if (passed) return `You went past ${count(passed)} without deciding.`;
  return isFiltered() ? "No label that fits the filter is open." : "Every label is decided, unsure or skipped.";
}

export function nothing(held) {
  shown = { held, counts: counts() };
  const status = page.status ?? {}, fix = page.mode === "fix";
  const passed = fix ? new Set(page.trail.filter((item) => !item.decided).map((item) => item.row)).size : 0;
  const look = (state, number, words) => fix && number > 0 && (page.filter.state ?? "open") !== state && make("button", { onclick: () => setFilter({ state }) }, `Look at ${count(number)} ${words}`);
  blank(make("h2", {}, held || passed || isFiltered() ? "Nothing left here." : fix ? "The end of Fix." : "The end of Verify."), make("p", {}, why(held, passed)),
    make("p", { class: "bar" },
      (held || passed > 0) && make("button", { class: "main", onclick: () => restart() }, held ? "Look again" : "Go back to them"),
      isFiltered() && make("button", { onclick: () => setFilter({}) }, "Remove the filter"),
      lookAtSkipped(),
      look("unsure", status.unsure, "unsure"), look("skip", status.skipped, "skipped"),
      fix && !status.verified?.is_measured && make("button", { onclick: () => setMode("verify") }, "Verify a random sample")),
    summary(), make("h3", {}, "Export"), downloads());
  at("stage").focus({ preventScroll: true });
}
