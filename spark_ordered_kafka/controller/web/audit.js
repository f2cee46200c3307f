/** The newest lines of the audit log of this controller. */

import { get } from "./api.js";
import { h, replace } from "./dom.js";
import { time } from "./format.js";
import { badge, button, filterField, heading, passes, polled, problem } from "./parts.js";
import { state } from "./store.js";
import { Table } from "./table.js";

const KINDS = { requested: "", answered: "good", ended: "busy" };

/** @param {any} line */
function outcome(line) {
  if (line.status !== undefined) return badge(String(line.status), line.status >= 400 ? "bad" : "good");
  return line.outcome === undefined ? "–" : badge(line.outcome, line.outcome === "done" ? "good" : "warn");
}

/** @param {HTMLElement} root @returns {() => void} */
export function audit(root) {
  const failed = h("div", {});
  const note = h("p", { class: "muted" });
  const filter = filterField("Filter lines", "Filter lines");
  /** @type {any[]} */
  let lines = [];
  const table = new Table("Audit log", [
    { label: "Time", width: "10.5rem", cell: (line) => button(time(Date.parse(line.time) / 1000), () => look(line), { kind: "plain", key: `${line.time}${line.event}${line.request_id}` }) },
    { label: "Event", width: "6rem", wide: true, cell: (line) => badge(line.event, KINDS[/** @type {keyof KINDS} */ (line.event)] ?? "") },
    { label: "By", width: "minmax(4rem, 1fr)", cell: (line) => (line.principal ?? "–").replace(/^User:/, "") },
    { label: "Request", width: "minmax(8rem, 2fr)", wide: true, cell: (line) => line.method === undefined ? (line.kind ?? "–") : h("code", {}, `${line.method} ${line.path}`) },
    { label: "Topics", width: "minmax(6rem, 1.5fr)", wide: true, cell: (line) => (line.topics ?? (line.topic === undefined ? [] : [line.topic])).join(", ") || "–" },
    { label: "Outcome", width: "5.5rem", cell: outcome },
  ], "Not known yet.");
  const show = () => {
    table.explain(lines.length === 0 ? "This controller has written no line since it started." : "No line has that.");
    table.set(lines.filter((line) => passes(filter, JSON.stringify(line))));
  };
  filter.addEventListener("input", show);
  replace(root, heading("Audit log", filter), failed, note, table.whole);
  const polling = polled(5, async (signal) => {
    try {
      const answer = await get("v1/audit-log", { limit: 1000 }, signal);
      const before = lines.length === 0 ? "" : JSON.stringify(lines[0]);
      lines = answer.lines;
      note.textContent = `What ${answer.controller} has written since it started, at most 1,000 lines. The whole log is in its file (audit.log.file), or in the log; `
        + `${state.leads ? "earlier leaders have" : "the leader has"} lines of other times.`;
      replace(failed);
      if (before !== (lines.length === 0 ? "" : JSON.stringify(lines[0])) || lines.length === 0) show();
    } catch (error) {
      if (!signal.aborted) replace(failed, problem(error));
      table.explain("Not known.");
    }
  });
  return polling.close;
}

/** @param {any} line */
function look(line) {
  const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { "aria-label": "Line of the audit log" },
    h("h2", {}, `${line.event} ${line.method ?? ""} ${line.path ?? ""}`), h("pre", { tabindex: "0" }, JSON.stringify(line, null, 2)),
    h("div", { class: "buttons end" }, h("button", { type: "button", class: "primary", onclick: () => dialog.close() }, "Close"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
