// A sample as a person looks at it. Everything from the data is set as text, never as markup.

import { pictureOf } from "./server.js";
import { table, value } from "./table.js";

export function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...present(children));
  return made;
}

const present = (children) => children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false && child !== "");
export const fill = (place, ...children) => place.replaceChildren(...present(children));

export const foreign = (text) => make("bdi", {}, String(text));
export const percent = (p) => (p > 0 && p < 0.01 ? "<1%" : p > 0.99 && p < 1 ? ">99%" : `${Math.round(100 * p)}%`);
export const count = (n) => n.toLocaleString("en");

const pictures = new Map(); // by address: what is loaded ahead is there when it is shown
const KEPT = 60;

export function picture(item, side) {
  const key = pictureOf(item, side);
  if (pictures.get(key)?.classList.contains("broken")) pictures.delete(key); // the server may be back
  if (!pictures.has(key)) {
    const image = make("img", { src: key, alt: "", decoding: "async" });
    image.ready = image.decode().catch(() => image.classList.add("broken"));
    image.ready.then(() => image.classList.toggle("pixels", image.naturalWidth > 0 && image.naturalWidth <= 64));
    pictures.set(key, image);
    for (const old of pictures.keys()) {
      if (pictures.size <= KEPT) break;
      pictures.delete(old);
    }
  }
  return pictures.get(key);
}

export function preload(item, kind) { if (kind === "image") picture(item, 640); }

function marked(text, marks) {
  const parts = [];
  let end = 0;
  const points = [...text]; // the server counts characters, not halves of them
  for (const [from, to, of] of marks) {
    parts.push(points.slice(end, from).join(""), make("mark", { class: of, title: `speaks for the class as ${of}` }, points.slice(from, to).join("")));
    end = to;
  }
  return [...parts, points.slice(end).join("")];
}

// What is shown large; `ready` resolves once it is to be seen.
export function large(item, about) {
  if (about.kind === "image") {
    const image = picture(item, 640);
    image.alt = `sample ${item.id}`;
    const shown = make("figure", { class: "picture" }, image, make("figcaption", { class: "none" }));
    image.ready.then(() => { if (image.classList.contains("broken")) why(item, shown.querySelector("figcaption")); });
    return [shown, image.ready];
  }
  const prose = (of) => make("blockquote", { class: "text", dir: "auto", tabindex: 0 }, of.text ? marked(of.text, of.marks || []) : "missing");
  const shown = about.kind === "text"
    ? prose(item)
    : make("div", { class: "mixed" }, item.texts.map((of) => make("section", {}, make("h2", {}, foreign(of.name)), prose(of))),
      item.columns.length > 0 && table(item.columns, about.classes, item));
  return [shown, Promise.resolve()];
}

async function why(item, place) {
  const response = await fetch(pictureOf(item, 640)).catch(() => null);
  place.className = "absent";
  const reason = response === null ? "the server does not answer" : response.ok ? "" : (await response.json()).error;
  place.textContent = reason && `No picture: ${reason}`;
}

export function small(sample, about, first = []) {
  if (about.kind === "image") {
    const image = make("img", { src: pictureOf(sample, 160), alt: `sample ${sample.id}`, loading: "lazy" });
    image.addEventListener("load", () => image.classList.toggle("pixels", image.naturalWidth <= 64));
    return image;
  }
  if (about.kind === "text") return make("p", { class: "brief", dir: "auto" }, sample.text.slice(0, 200));
  const texts = sample.texts.map((of) => ({ name: of.name, value: of.text.slice(0, 120) || null }));
  const rest = sample.columns.filter((column) => !first.includes(column.name));
  const named = first.map((name) => sample.columns.find((column) => column.name === name)).filter(Boolean);
  return make("dl", { class: "brief" }, [...texts, ...named, ...rest].slice(0, 5).map((column) =>
    make("div", {}, make("dt", {}, foreign(column.name)), make("dd", {}, foreign(value(column.value))))));
}
