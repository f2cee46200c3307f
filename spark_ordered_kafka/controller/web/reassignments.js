/** Reassignments: those that the controller carries out, with cancel and rollback, and those of other tools. */

import { blocked } from "./actions.js";
import { get } from "./api.js";
import { h, replace } from "./dom.js";
import { bytes, count, counted, duration, share, time } from "./format.js";
import { changeThrottle } from "./limits.js";
import { cancel, plan, rollBack } from "./moves.js";
import { badge, button, facts, heading, panel, polled, problem, progress } from "./parts.js";
import { state } from "./store.js";
import { Table } from "./table.js";

const KINDS = { running: "busy", cancelling: "warn", done: "good", failed: "bad", cancelled: "warn" };

/** @param {any} one */
const stateBadge = (one) => badge(one.state, KINDS[/** @type {keyof KINDS} */ (one.state)] ?? "");

/** @param {any} one ReassignmentSummary that is in progress */
export function reassignmentProgress(one) {
  const done = share(one.numerator, one.denominator);
  return h("div", { class: "item" },
    h("p", {}, h("a", { href: `#/reassignments/${one.request_id}` }, `Reassignment ${one.request_id}`), " ", stateBadge(one),
      ` ${bytes(one.numerator)} of ${bytes(one.denominator)}, ${bytes(one.rate)}/s, ${one.eta_seconds === null ? "" : `${duration(one.eta_seconds)} left, `}`
      + `${count(one.done)} of ${counted(one.waiting + one.moving + one.done + one.failed + one.cancelled, "partition")}`),
    progress(done, `Reassignment ${one.request_id}`),
    h("p", { class: "buttons" }, throttleButton(one), cancelButton(one)));
}

/** @param {any} one */
function cancelButton(one) {
  return one.complete ? null : button("Cancel", () => cancel(one), { key: `cancel-${one.request_id}`,
    disabled: one.state === "cancelling" ? "It is being cancelled." : blocked() });
}

/** @param {any} one */
function throttleButton(one) {
  return one.complete ? null : button("Change limit", () => changeThrottle(one), { key: `limit-${one.request_id}`,
    disabled: one.state === "cancelling" ? "It is being cancelled." : blocked() });
}

/** @param {any} one */
function rollbackButton(one) {
  return one.complete && one.done > 0 ? button("Roll back", () => rollBack(one), { kind: "small", key: `rollback-${one.request_id}`, disabled: blocked() }) : null;
}

/** @param {HTMLElement} root @returns {() => void} */
export function reassignments(root) {
  const running = h("div", {});
  const actions = h("div", { class: "actions" });
  const ended = new Table("Reassignments that have ended", [
    { label: "Id", width: "3rem", cell: (one) => h("a", { href: `#/reassignments/${one.request_id}`, "data-key": `id-${one.request_id}` }, one.request_id) },
    { label: "State", width: "6.5rem", cell: stateBadge },
    { label: "Begun", width: "10.5rem", wide: true, cell: (one) => time(one.created_at) },
    { label: "By", width: "minmax(6rem, 1fr)", wide: true, cell: (one) => one.principal.replace(/^User:/, "") },
    { label: "Partitions", width: "minmax(7rem, 1fr)", wide: true, cell: (one) => [`${count(one.done)} moved`,
      one.failed > 0 ? `, ${count(one.failed)} failed` : "", one.cancelled > 0 ? `, ${count(one.cancelled)} cancelled` : ""] },
    { label: "", width: "7rem", end: true, cell: rollbackButton },
  ], "None in the last day.");
  const others = new Table("Other reassignments", [
    { label: "Partition", width: "minmax(8rem, 2fr)", cell: (one) => `${one.topic}-${one.partition}` },
    { label: "Replicas", cell: (one) => one.replicas.join(", ") },
    { label: "Added", cell: (one) => one.adding_replicas.join(", ") },
    { label: "Removed", cell: (one) => one.removing_replicas.join(", ") },
  ], "None.");
  const show = () => {
    replace(actions, button("Move replicas", () => plan(), { kind: "primary", disabled: blocked() }));
    if (state.reassignments === null) return;
    const active = state.reassignments.filter((one) => !one.complete);
    replace(running, active.length === 0 ? h("p", { class: "empty" }, "None.") : active.map(reassignmentProgress));
    ended.set(state.reassignments.filter((one) => one.complete));
  };
  const failed = h("div", {});
  replace(root, heading("Reassignments", actions), failed, panel("In progress", running), panel("Ended", ended.whole),
    panel("In progress in Kafka by other tools", others.whole));
  show();
  const polling = polled(20, async (signal) => {
    try {
      const answer = await get("v1/reassignments", {}, signal);
      others.set(answer.ongoing.filter((/** @type {any} */ one) => one.request_id === null));
      replace(failed);
    } catch (error) {
      if (!signal.aborted) replace(failed, problem(error));
    }
  });
  const ends = [state.listen(["reassignments", "controller", "connection"], show), polling.close];
  return () => ends.forEach((one) => one());
}

/** @param {HTMLElement} root @param {string} name @returns {() => void} */
export function reassignment(root, name) {
  const head = h("div", {});
  const failed = h("div", {});
  const actions = h("div", { class: "actions" });
  const table = new Table(`Replicas of reassignment ${name}`, [
    { label: "Partition", width: "minmax(8rem, 2fr)", cell: (row) => h("a", { href: `#/topics/${encodeURIComponent(row.topic)}` }, `${row.topic}-${row.partition}`) },
    { label: "Broker", width: "4.5rem", end: true, cell: (row) => row.broker },
    { label: "Log directory", wide: true, cell: (row) => row.log_dir ?? "any" },
    { label: "Progress", width: "minmax(8rem, 1.5fr)", cell: (row) => row.error === "NONE" ? badge("done", "good")
      : row.error === "REASSIGNMENT_IN_PROGRESS" ? progress(share(row.numerator, row.denominator), `${row.topic}-${row.partition} to ${row.broker}`)
        : badge(row.error, "bad", row.error_message ?? "") },
    { label: "Bytes", width: "minmax(7rem, 1fr)", end: true, wide: true, cell: (row) => `${bytes(row.numerator)} of ${bytes(row.denominator)}` },
  ], "Not known yet.");
  /** @param {any} view */
  const show = (view) => {
    replace(actions, throttleButton(view), cancelButton(view), rollbackButton(view));
    replace(head, facts([
      ["State", stateBadge(view)],
      ["Progress", view.denominator < 0 ? "–" : `${bytes(view.numerator)} of ${bytes(view.denominator)}`],
      ["Speed", `${bytes(view.rate)}/s`],
      ["Left", duration(view.eta_seconds)],
      ["Limit", limitsOf(view)],
      ["Partitions", `${count(view.done)} done, ${count(view.moving)} moving, ${count(view.waiting)} waiting, ${count(view.failed)} failed`],
      ["By", view.principal.replace(/^User:/, "")],
      ["Begun", time(view.created_at)],
      ["Ended", time(view.ended_at)],
    ]), view.complete ? null : progress(share(view.numerator, view.denominator), "All replicas"),
    view.warnings.length === 0 ? null : h("ul", { class: "note warn" }, view.warnings.map((/** @type {string} */ text) => h("li", {}, text))));
    table.explain("It has no replicas to copy.");
    table.set(view.replicas);
  };
  const polling = polled(3, async (signal) => {
    try {
      show(await get(`v1/reassignments/${encodeURIComponent(name)}`, {}, signal));
      replace(failed);
    } catch (error) {
      if (!signal.aborted) replace(failed, problem(error));
    }
  });
  replace(root, h("p", { class: "crumbs" }, h("a", { href: "#/reassignments" }, "Reassignments")), heading(`Reassignment ${name}`, actions),
    failed, head, panel("Replicas", table.whole));
  const ends = [state.listen(["reassignments"], polling.again), polling.close];
  return () => ends.forEach((one) => one());
}

/** @param {any} view ReassignmentView */
function limitsOf(view) {
  const [brokers, dirs] = [view.throttle, view.replica_alter_log_dirs_throttle];
  if (brokers === null && dirs === null) return "none";
  /** @param {number | null} one */
  const shown = (one) => one === null ? "none" : `${bytes(one)}/s`;
  return brokers === dirs ? shown(brokers) : `${shown(brokers)}, between log directories ${shown(dirs)}`;
}
