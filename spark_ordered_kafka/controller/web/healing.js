/** What self-healing finds, proposes and has done. */

import { get } from "./api.js";
import { h, replace } from "./dom.js";
import { bytes, count, rate, time } from "./format.js";
import { badge, heading, panel, polled, problem } from "./parts.js";
import { Table } from "./table.js";

const OUTCOMES = { proposed: "warn", held: "", requested: "busy", in_review: "warn", refused: "bad", nothing_to_do: "",
  withdrawn: "", done: "good", failed: "bad", cancelled: "" };

/** @param {string} word */
const words = (word) => word.replaceAll("_", " ");

/** @param {any} one */
const action = (one) => `${words(one.action)}${one.brokers.length === 0 ? "" : ` ${one.brokers.join(", ")}`}`;

/** @param {any} row */
function brokerState(row) {
  if (!row.alive) return badge("away", "bad");
  if (row.log_dirs === null) return badge("no answer", "warn");
  return row.log_dirs.every((/** @type {any} */ one) => one.online) ? badge("ok", "good") : badge("dir offline", "bad");
}

/** @param {HTMLElement} root @returns {() => void} */
export function healing(root) {
  const failed = h("div", {});
  const note = h("p", { class: "muted" });
  const findings = h("div", {});
  const proposals = h("div", {});
  const brokers = new Table("Brokers as self-healing sees them", [
    { label: "Broker", width: "5rem", cell: (row) => h("strong", {}, row.broker) },
    { label: "State", width: "7rem", cell: brokerState },
    { label: "Replicas", width: "6rem", end: true, wide: true, cell: (row) => count(row.hosted) },
    { label: "Leaders", width: "5rem", end: true, cell: (row) => count(row.leaders) },
    { label: "Preferred", width: "6rem", end: true, wide: true, cell: (row) => count(row.preferred) },
    { label: "Written", width: "6rem", end: true, cell: (row) => row.write_rate === null ? rate(null) : `${bytes(row.write_rate)}/s` },
    { label: "Used", width: "6rem", end: true, cell: (row) => bytes(row.log_dirs?.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.used_bytes, 0)) },
  ], "Not known yet.");
  const history = new Table("Decisions of self-healing", [
    { label: "Time", width: "10.5rem", wide: true, cell: (row) => time(row.at) },
    { label: "Action", width: "minmax(7rem, 1fr)", cell: action },
    { label: "Outcome", width: "8rem", cell: (row) => badge(row.held_by === null ? words(row.outcome) : `held: ${words(row.held_by)}`,
      OUTCOMES[/** @type {keyof OUTCOMES} */ (row.outcome)] ?? "") },
    { label: "Reassignment", width: "7rem", wide: true, cell: (row) => row.request_id === null ? "–"
      : h("a", { href: `#/reassignments/${row.request_id}` }, `#${row.request_id}`) },
    { label: "Reason", width: "minmax(8rem, 3fr)", cell: (row) => h("span", { title: row.reason }, row.reason) },
  ], "Not known yet.");
  const show = (/** @type {any} */ view) => {
    note.textContent = view.mode === "off" ? "Self-healing is off (healing.mode)."
      : `Mode ${view.mode}; ${count(view.requests_in_last_day)} of ${count(view.requests_per_day)} requests in the last 24 hours. `
        + (view.at === null ? "The leader has the figures." : `Seen ${time(view.at)}.`);
    replace(findings, view.findings.length === 0 ? h("p", { class: "empty" }, view.mode === "off" ? "Not looked for." : "None.")
      : view.findings.map((/** @type {any} */ one) => h("p", { class: "item" }, badge(words(one.kind), "bad"), ` ${one.reason || one.subject} `,
        h("span", { class: "muted" }, `since ${time(one.since)}`))));
    replace(proposals, view.proposals.length === 0 ? h("p", { class: "empty" }, "None.")
      : view.proposals.map((/** @type {any} */ one) => h("p", { class: "item" }, badge(action(one), "warn"),
        one.held_by === null ? null : [" ", badge(`held: ${words(one.held_by)}`)], ` ${one.reason}`)));
    brokers.explain(view.mode === "off" ? "Not looked at." : "The leader has the figures.");
    brokers.set(view.brokers);
    history.explain("None.");
    history.set(view.history);
  };
  replace(root, heading("Self-healing"), failed, note, panel("Findings", findings), panel("Proposals", proposals),
    panel("Brokers", brokers.whole), panel("Decisions", history.whole));
  const polling = polled(10, async (signal) => {
    try {
      show(await get("v1/healing", {}, signal));
      replace(failed);
    } catch (error) {
      if (!signal.aborted) replace(failed, problem(error));
      brokers.explain("Not known.");
      history.explain("Not known.");
    }
  });
  return polling.close;
}
