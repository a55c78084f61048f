// What I just decided, newest first, each with its undo.

import { count, fill, foreign, make, picture } from "./sample.js";
import { at, page } from "./state.js";
import { undo } from "./deciding.js";
import { visit } from "./links.js";

const WIDE = 176; // pixels that one takes at least

const WORDS = { unsure: "unsure", drop: "drop", skip: "skipped" };
function one(item, kind, label) {
  if (kind !== "label") return WORDS[kind];
  const given = item.hidden ? null : page.about.classes[item.given];
  return given === null ? label : given === label ? `kept ${label}` : `${given} → ${label}`;
}

// A decision in a few words, of however many labels it is.
export function inWords(answers) {
  const all = answers.map(({ item, kind, label }) => one(item, kind, label));
  if (all.length === 1) return all[0];
  const kept = answers.every(({ item, kind, label }) => kind === "label" && label === page.about.classes[item.given]);
  return `${count(all.length)} labels: ${all.every((x) => x === all[0]) ? all[0] : kept ? "kept" : "relabelled"}`;
}

function thumb(item) {
  if (page.about.kind !== "image") return "";
  const image = picture(item, 640).cloneNode();
  image.removeAttribute("style");
  return image;
}

export function recent() {
  const room = Math.max(1, Math.floor(at("recent").clientWidth / WIDE));
  const newest = page.done.slice(-room).reverse();
  fill(at("recent"), ...newest.map((group) => make("li", { class: group.entries ? "" : "pending" },
    make("button", { class: "plain", title: `${group.words}: show ${group.items[0].id}`, onclick: () => visit(group.items[0].row) }, thumb(group.items[0]), make("span", {}, foreign(group.words))),
    make("button", { class: "undo", "aria-label": `Undo ${group.words}`, onclick: () => undo(group) }, "↶"))));
  if (!newest.length) fill(at("recent"), make("li", { class: "none" }, "Your last decisions appear here."));
}

export function watchRecent() { new ResizeObserver(recent).observe(at("recent")); }
