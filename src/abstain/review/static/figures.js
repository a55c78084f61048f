// What is always in sight: how far it is, and whether going on pays.

import { get } from "./server.js";
import { count } from "./sample.js";
import { at, complain, hint, page } from "./state.js";

let asking = null;
export async function watch() {
  clearTimeout(asking);
  asking = setTimeout(async () => {
    try { figures(await get("status")); } catch (error) { complain(error); }
    if (page.status && (!page.status.up_to_date || page.status.training?.running)) watch();
  }, page.status ? 250 : 0);
}

export function figures(status) {
  page.status = status;
  if (status.trouble) complain(status.trouble);
  const range = (x, show) => `${show(x.value)} (${show(x.low)} to ${show(x.high)})`;
  at("decided").textContent = count(status.decided);
  at("left").textContent = count(status.flagged_left);
  at("last").textContent = status.last ? `${status.last_wrong} of ${status.last}` : "–";
  const whole = (x) => count(Math.round(x));
  if (page.mode === "verify") {
    at("unseen").textContent = status.is_measured ? range(status.rate, (x) => `${(100 * x).toFixed(1)}%`) : `${status.checked} of ${status.enough}`;
    at("unseen-words").textContent = status.is_measured
      ? `of all labels are wrong, measured on ${count(status.checked)}${status.halved_by ? `; ${count(status.halved_by)} more answers halve the interval` : ""}`
      : "answers until the rate is measured";
  } else {
    at("unseen").textContent = range(status.left_wrong, whole);
    at("unseen-words").textContent = `wrong, not yet seen (${status.is_measured ? "measured, 95%" : "estimated, 90%"})`;
  }
  const training = status.training ?? {};
  hint(training.running ? `Training on the corrected labels: ${training.step}.`
    : page.mode === "fix" && !status.pays
      ? `Of the next 50 labels about ${Math.round(status.next_wrong)} are wrong: going on worst first no longer pays.${status.is_measured ? "" : " Verify a random sample to know what is left."}` : "");
}
