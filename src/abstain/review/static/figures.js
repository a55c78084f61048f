// What is always in sight: how far it is, and whether going on pays.

import { get } from "./server.js";
import { count, fill, make } from "./sample.js";
import { at, complain, hint, page } from "./state.js";
import { lookAtSkipped, renewSummary } from "./ends.js";

let asking = null;
export async function watch() {
  clearTimeout(asking);
  asking = setTimeout(async () => {
    try { figures(await get("status", { who: page.who })); } catch (error) { complain(error); }
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

// Intervals are estimated from the labels alone, or measured on a random sample.
const kind = (status) => `${status.verified.is_measured ? "measured" : "estimated"}, ${Math.round(100 * status.left_wrong.confidence)}%`;

const answeredBy = (status) => (status.decided_by[page.who] ?? 0) + (status.unsure_by[page.who] ?? 0);

function ofFix(status) {
  at("uncounted").textContent = "";
  const mine = answeredBy(status), all = status.decided + status.unsure;
  bar([["mine", mine], ["team", Math.max(0, all - mine)]], all + status.flagged);
  at("left").textContent = count(status.flagged);
  at("left-words").textContent = "flagged left";
  at("unseen").textContent = range(status.left_wrong, whole);
  at("unseen-words").textContent = `still hidden (${kind(status)})`;
}

function ofVerify(status) {
  const { counted, enough, missing, is_measured: isMeasured } = status.verified;
  bar([["mine", counted]], Math.max(enough, counted));
  at("left").textContent = count(missing);
  at("left-words").textContent = "answers missing";
  at("unseen").textContent = isMeasured ? range(status.noise_rate, percents) : `${count(counted)} of ${count(enough)}`;
  at("unseen-words").textContent = isMeasured
    ? `wrong, measured on ${count(counted)} answers${status.halved_by ? `; ${count(status.halved_by)} more halve the interval` : ""}`
    : "answers count until the rate is measured";
  fill(at("uncounted"), uncounted(status.verified, status.sample_held), " ", lookAtSkipped());
}

// Which answers do not count, and why: without this, 36 presses end at "0 of 30".
function uncounted({ unsure, dropped, skipped, waiting, gaps }, held) {
  const without = [[unsure, "unsure"], [dropped, "dropped"], [skipped, "skipped"]].filter(([number]) => number).map(([number, word]) => `${count(number)} ${word}`);
  const words = [];
  if (waiting) words.push(`${answers(waiting)} ${waiting === 1 ? "waits" : "wait"} until ${gaps === 1 ? "a sample" : `${count(gaps)} samples`} before ${waiting === 1 ? "it" : "them"} ${gaps === 1 ? "has" : "have"} an answer.`);
  if (waiting && held) words.push(`${held === gaps ? "" : `${count(held)} of these: `}before other people, and free again once they leave, or after ten minutes.`);
  if (without.length) words.push(`${without.join(" and ")}: no class was given, so the interval takes ${unsure + dropped + skipped === 1 ? "it" : "them"} as wrong and as right.`);
  return words.join(" ");
}
const answers = (n) => `${count(n)} answer${n === 1 ? "" : "s"}`;

function advice(status) {
  const training = status.training ?? {};
  if (training.running) return `Training on the corrected labels: ${training.step}.`;
  if (page.mode === "verify" || status.pays) return "";
  const more = status.verified.is_measured ? "" : " Verify a random sample.";
  const few = Math.round(status.next_wrong);
  return few ? `About ${few} of the next 50 labels are wrong: going on no longer pays.${more}` : `No wrong label is expected any more.${more}`;
}

export function figures(status) {
  page.status = status;
  if (status.trouble && !page.unsaved.size) complain(status.trouble);
  at("mine").textContent = count(answeredBy(status));
  at("decided").textContent = count(status.decided + status.unsure);
  at("last").textContent = status.last ? `${status.last_wrong} of ${status.last}` : "–";
  if (page.mode === "verify") ofVerify(status); else ofFix(status);
  hint(advice(status));
  renewSummary();
}
