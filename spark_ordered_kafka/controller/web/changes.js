/** A partition change in progress, and the one that ended last. */

import { blocked } from "./actions.js";
import { h } from "./dom.js";
import { ago, counted, duration, time } from "./format.js";
import { badge, button } from "./parts.js";

/** Steps of a change (docs/architecture.md), in their order. */
const STEPS = ["planned", "creating", "closing", "fencing", "boundaries", "committing"];
const KINDS = { expand: "growth", shrink: "shrink", order: "ordered delivery on", unorder: "ordered delivery off" };

/** @param {string} kind */
const kindOf = (kind) => KINDS[/** @type {keyof KINDS} */ (kind)] ?? kind;

/**
 * @param {any} topic a TopicSummary or TopicView with a change
 * @param {() => void} cancel
 */
export function changeProgress(topic, cancel) {
  const { change } = topic;
  const at = STEPS.indexOf(change.step);
  const steps = STEPS.filter((step) => step !== "creating" || change.kind === "expand");
  const fencing = change.total_fences > 0 ? `, ${change.fenced} of ${counted(change.total_fences, "writer")} fenced` : "";
  return h("div", { class: "change" },
    h("p", {}, badge(kindOf(change.kind), "busy"), ` ${change.source} → ${change.target}, for ${ago(change.started_at)}${fencing} `,
      change.cancel_requested ? badge("being cancelled", "warn") : null),
    h("ol", { class: "steps", "aria-label": `Steps of the change of ${topic.topic}` }, steps.map((step) => h("li", {
      class: STEPS.indexOf(step) < at ? "done" : step === change.step ? "now" : "",
      "aria-current": step === change.step ? "step" : null,
    }, step)), at < 0 ? h("li", { class: "now", "aria-current": "step" }, change.step) : null),
    button("Cancel", cancel, {
      key: `cancel-${topic.topic}`,
      disabled: change.step === "committing" ? "It is being committed." : change.cancel_requested ? "It is being cancelled." : blocked(),
    }));
}

/** @param {any} last FinishedChangeView, or null */
export function lastChange(last) {
  if (last === null || last === undefined) return h("p", { class: "empty" }, "None yet.");
  const kind = last.outcome === "done" ? "good" : last.outcome === "cancelled" ? "warn" : "bad";
  return h("div", {},
    h("p", {}, badge(last.outcome, kind), ` ${kindOf(last.kind)} ${last.source} → ${last.target}, ${time(last.finished_at)}; `
      + `it took ${duration(last.finished_at - last.started_at)}, writers paused ${duration(last.writer_pause_seconds)}, `
      + `${counted(last.fenced, "writer")} fenced.`),
    last.error ? h("p", { class: "note bad" }, `${last.error.error}: ${last.error.error_message ?? ""}`) : null);
}
