// All classes in one box, the most frequent first: the same order for every sample, so that it leads nobody.

import { fill, foreign, make } from "./sample.js";
import { page } from "./state.js";

const MOST = 200; // that are listed at once
let boxes = 0;

// An exact name before what begins so, that before what has it within; else by frequency.
export function matching(names, order, text) {
  const asked = text.trim().toLowerCase();
  const worth = (k) => { const name = names[k].toLowerCase(); return name === asked ? 0 : name.startsWith(asked) ? 1 : name.includes(asked) ? 2 : 3; };
  return order.filter((k) => worth(k) < 3).sort((a, b) => worth(a) - worth(b));
}

export function chooser(words, onchoose, { open = false, id = null } = {}) {
  const own = `classes-${++boxes}`;
  let found = [], active = -1;
  const list = make("ul", { id: own, role: "listbox", "aria-label": "Classes", hidden: !open });
  const input = make("input", { id, role: "combobox", "aria-label": words, "aria-autocomplete": "list", "aria-controls": own, "aria-expanded": String(open), autocomplete: "off", spellcheck: "false", placeholder: words });
  const isOpen = (on) => { list.hidden = !(on || open); input.setAttribute("aria-expanded", String(on || open)); };
  const mark = (place) => {
    active = place;
    [...list.children].forEach((one, k) => one.setAttribute("aria-selected", String(k === active)));
    const one = list.children[active];
    one ? input.setAttribute("aria-activedescendant", one.id) : input.removeAttribute("aria-activedescendant");
    if (one) list.scrollTop = Math.max(0, one.offsetTop - list.clientHeight / 2);
  };
  const take = (k) => { input.value = ""; isOpen(false); onchoose(page.about.classes[k]); list.scrollTop = 0; update(); };
  const update = () => {
    found = matching(page.about.classes, page.about.by_frequency, input.value).slice(0, MOST);
    fill(list, ...found.map((k, place) => make("li", { id: `${own}-${place}`, role: "option", "aria-selected": "false", onmousedown: (event) => event.preventDefault(), onclick: () => take(k) }, foreign(page.about.classes[k]))));
    if (!found.length) fill(list, make("li", { role: "option", "aria-disabled": "true", "aria-selected": "false" }, "No class has this in its name."));
    mark(input.value.trim() && found.length ? 0 : -1);
    if (!open) isOpen(input.value.trim() !== "");
  };
  input.addEventListener("input", update);
  input.addEventListener("blur", () => isOpen(false));
  input.addEventListener("keydown", (event) => {
    if (event.key === "/" && !input.value) event.preventDefault(); // the key that leads here, pressed again
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) { isOpen(true); mark(Math.min(found.length - 1, Math.max(0, active + step))); event.preventDefault(); }
    if (event.key === "Enter" && found[active] !== undefined) { take(found[active]); event.preventDefault(); }
    if (event.key === "Escape") { input.value = ""; update(); input.blur(); }
  });
  update();
  return make("div", { class: open ? "chooser open" : "chooser" }, input, list);
}
