// What is always in sight: how far it is, and whether going on pays.

import { get } from "./server.js";
import { count, fill, make } from "./sample.js";
import { at, complain, hint, page } from "./state.js";
import { renewSummary } from "./ends.js";

let asking = null;
export async function watch() {
  clearTimeout(asking);
  asking = setTimeout(async () => {
    try { figures(await get("status")); } catch (error) { complain(error); }
    if (page.status && (!page.status.up_to_date || page.status.training?.running)) watch();
  }, page.status ? 250 : 0);
}

const whole = (x) => count(Math.round(x));
const percents = (x) => `${(100 * x).toFixed(1)}%`;
const range = (x, show) => `${show(x.value)} (${show(x.low)} to ${show(x.high)})`;

function bar(parts, total) {
  fill(at("bar"), ...parts.map(([name, number]) => {
    const part = make("i", { class: name });
    part.style.width = `${total ? 100 * number / total : 0}%`;
    return part;
  }));
}

function ofFix(status) {
  const mine = status.decided_by?.[page.who] ?? 0, total = status.decided + status.flagged_left;
  bar([["mine", mine], ["team", status.decided - mine]], total);
  at("mine").textContent = count(mine);
  at("decided").textContent = count(status.decided);
  at("left").textContent = count(status.flagged_left);
  at("left-words").textContent = "flagged left";
  at("last").textContent = status.last ? `${status.last_wrong} of ${status.last}` : "–";
  at("unseen").textContent = range(status.left_wrong, whole);
  at("unseen-words").textContent = `still hidden (${status.is_measured ? "measured, 95%" : "estimated, 90%"})`;
}

// Which answers count, and why others do not: without this, 36 presses end at "0 of 30".
function ofVerify(status) {
  const counted = status.counted ?? status.checked, missing = Math.max(0, status.missing ?? status.enough - counted);
  bar([["mine", counted]], Math.max(status.enough, counted));
  at("mine").textContent = count(status.decided_by?.[page.who] ?? 0);
  at("decided").textContent = count(status.decided);
  at("left").textContent = count(missing);
  at("left-words").textContent = "answers missing";
  at("last").textContent = status.last ? `${status.last_wrong} of ${status.last}` : "–";
  at("unseen").textContent = status.is_measured ? range(status.rate, percents) : `${count(counted)} of ${count(status.enough)} count`;
  at("unseen-words").textContent = status.is_measured
    ? `wrong, measured on ${count(counted)}${status.halved_by ? `; ${count(status.halved_by)} more halve the interval` : ""}`
    : `answers until the rate is measured${gaps(status)}`;
}

function gaps(status) {
  if (status.counted === undefined) return "";
  const kinds = [[status.unsure_drawn, "unsure"], [status.dropped_drawn, "dropped"]].filter(([number]) => number);
  return kinds.length ? `; ${kinds.map(([number, words]) => `${count(number)} ${words}`).join(", ")}` : "";
}

export function figures(status) {
  page.status = status;
  if (status.trouble) complain(status.trouble);
  if (page.mode === "verify") ofVerify(status); else ofFix(status);
  const training = status.training ?? {};
  hint(training.running ? `Training on the corrected labels: ${training.step}.`
    : page.mode === "fix" && !status.pays
      ? `Of the next 50 labels about ${Math.round(status.next_wrong)} are wrong: going on worst first no longer pays.${status.is_measured ? "" : " Verify a random sample to know what is left."}` : "");
  renewSummary();
}
