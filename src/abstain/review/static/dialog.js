// The one dialog of the page.

import { fill, make } from "./sample.js";
import { at } from "./state.js";

export const close = () => { if (at("dialog").open) at("dialog").close(); };

export function open(title, ...body) {
  at("dialog-title").textContent = title;
  fill(at("dialog-body"), ...body);
  if (!at("dialog").open) at("dialog").showModal();
}

export const field = (words, input) => make("label", { class: "field" }, make("span", {}, words), input);
