// A row of a table: unusual columns first, and decimals under one another.

import { foreign, make } from "./sample.js";

export const value = (x) => (x === null || x === undefined ? "missing" : typeof x === "number" ? plain(x) : String(x));
const plain = (x) => Number(x.toPrecision(6)).toLocaleString("en", { maximumFractionDigits: 6 });

// The figure before the point and from it on; both in spans, so that points stand in one line.
function split(x) {
  const text = value(x);
  if (typeof x !== "number") return [text, ""];
  const point = text.indexOf(".");
  return point < 0 ? [text, ""] : [text.slice(0, point), text.slice(point)];
}

function cells(columns, key) {
  const parts = columns.map((column) => split(column[key]));
  const wide = Math.max(0, ...parts.map(([, end]) => end.length));
  return parts.map(([begin, end]) => {
    const after = make("span", { class: "decimals" }, end);
    after.style.width = `${wide}ch`;
    return make("td", { class: end || /^-?[\d,]*$/.test(begin) ? "" : "words" }, foreign(begin), after);
  });
}

export function table(columns, classes, item) {
  const usual = columns.some((column) => "given" in column);
  const keys = ["value", ...(usual ? ["given"] : []), ...(usual && item.other !== item.given ? ["proposed"] : [])];
  const words = { value: ["this row"], given: ["usual in ", foreign(classes[item.given])], proposed: ["usual in ", foreign(classes[item.other])] };
  const filled = keys.map((key) => cells(columns, key));
  const rows = columns.map((column, k) => make("tr", { class: column.odd ? "odd" : "" },
    make("th", { scope: "row" }, foreign(column.name), column.odd && make("span", { class: "tag" }, "unusual")), filled.map((cell) => cell[k])));
  return make("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": "Columns of the row" }, make("table", { class: "row" },
    make("thead", {}, make("tr", {}, make("td"), keys.map((key) => make("th", { scope: "col" }, ...words[key])))), make("tbody", {}, rows)));
}
