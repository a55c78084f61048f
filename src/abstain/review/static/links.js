// To a sample by its address, #row=17: from the log, from a table, from a colleague.

import { get } from "./server.js";
import { at, complain, page } from "./state.js";
import { close } from "./dialog.js";
import { setMode } from "./page.js";
import { show } from "./single.js";

export const addressOf = (row) => `#row=${row}`;

export async function visit(row) {
  close();
  try {
    const item = await get("item", { row, who: page.who, by: page.filter.by });
    if (page.mode === "verify") await setMode("fix"); // what is seen there would lead the answer
    page.grid = false; page.like = null;
    at("grid").hidden = true; at("single").hidden = false;
    page.place = Math.min(page.place, page.trail.length - 1) + 1;
    page.trail.splice(page.place, 0, item);
    show();
  } catch (error) { complain(error); }
}

export async function follow() {
  const found = /^#row=(\d+)$/.exec(location.hash);
  if (!found) return;
  history.replaceState(null, "", location.pathname); // the same link works again
  await visit(Number(found[1]));
}
