/** Brokers with racks, capacity and log directories. */

import { blocked } from "./actions.js";
import { get } from "./api.js";
import { h, replace } from "./dom.js";
import { electLeaders } from "./elections.js";
import { bytes, count, counted } from "./format.js";
import { UNLIMITED, limitBroker } from "./limits.js";
import { drainButton, plan } from "./moves.js";
import { badge, button, heading, meter, panel, polled, problem } from "./parts.js";
import { state } from "./store.js";
import { Table } from "./table.js";

const CORDONED = "It keeps what it has, and nothing more is placed there (cordoned.log.dirs).";

/** @param {HTMLElement} root @returns {() => void} */
export function brokers(root) {
  const failed = h("div", {});
  const dirsFailed = h("div", {});
  const table = new Table("Brokers", [
    { label: "Broker", width: "5rem", cell: (row) => h("strong", {}, row.id) },
    { label: "Rack", width: "minmax(4rem, 1fr)", cell: (row) => row.rack ?? "–" },
    { label: "State", width: "6rem", cell: (row) => !row.alive ? badge("down", "bad") : row.cordoned ? badge("cordoned", "warn", CORDONED) : badge("alive", "good") },
    { label: "Replicas", width: "6rem", end: true, cell: (row) => count(row.hosted) },
    { label: "Limit", width: "minmax(9rem, 2fr)", wide: true, cell: (row) => row.max_partitions >= UNLIMITED ? "none" : [
      meter(row.hosted, row.max_partitions, `Replicas of broker ${row.id}`),
      ` ${count(row.max_partitions)}, ${row.excess > 0 ? `${count(row.excess)} beyond it` : `${count(row.capacity)} left`}`] },
    { label: "", width: "10rem", end: true, cell: (row) => [
      button("Limit", () => limitBroker(row), { kind: "small", key: `limit-${row.id}`, disabled: blocked() }), drainButton(row.id)] },
  ], "Not known yet.");
  const dirs = new Table("Log directories", [
    { label: "Broker", width: "5rem", cell: (row) => row.broker },
    { label: "Log directory", width: "minmax(8rem, 3fr)", cell: (row) => h("code", { title: row.path }, row.path) },
    { label: "State", width: "6rem", cell: (row) => !row.is_live ? badge(row.error, "bad", row.error_message ?? "") : row.is_cordoned ? badge("cordoned", "warn", CORDONED) : badge("live", "good") },
    { label: "Replicas", width: "6rem", end: true, wide: true, cell: (row) => count(row.partitions.length) },
    { label: "Size", width: "6rem", end: true, cell: (row) => bytes(row.size) },
    { label: "Disk", width: "16rem", wide: true, cell: (row) => row.total_bytes === null ? "–" : [
      meter(row.total_bytes - row.usable_bytes, row.total_bytes, `Disk of broker ${row.broker}`),
      ` ${bytes(row.usable_bytes)} of ${bytes(row.total_bytes)} free`] },
    { label: "", width: "5rem", end: true, wide: true, cell: (row) => button("Empty", () => plan({ goal: "empty_log_dirs", brokers: String(row.broker), log_dirs: row.path }),
      { kind: "small", key: `empty-${row.broker}-${row.path}`, disabled: blocked() }) },
  ], "Not known yet.");
  const alive = () => table.rows.filter((/** @type {any} */ row) => row.alive).map((/** @type {any} */ row) => row.id).join(",");
  const balance = h("div", { class: "actions" });
  const showActions = () => {
    replace(balance, button("Balance brokers", () => plan({ goal: "balance" }), { disabled: blocked() }),
      button("Balance log directories", () => plan({ goal: "balance_log_dirs", brokers: alive() }), { disabled: blocked() }),
      button("Elect leaders", () => electLeaders(), { disabled: blocked() }));
    table.set(table.rows);
    dirs.set(dirs.rows);
  };
  replace(root, heading("Brokers", balance), failed, panel("Brokers", table.whole), panel("Log directories", dirsFailed, dirs.whole));
  const first = polled(10, async (signal) => {
    try {
      table.set((await get("v1/brokers", {}, signal)).brokers);
      replace(failed);
    } catch (error) {
      if (!signal.aborted) replace(failed, problem(error));
      table.explain("Not known.");
    }
  });
  const second = polled(20, async (signal) => {
    try {
      const answer = await get("v1/log-dirs", {}, signal);
      dirs.set(answer.brokers.flatMap((/** @type {any} */ one) => one.log_dirs.map((/** @type {any} */ dir) => ({
        ...dir, broker: one.broker, size: dir.partitions.reduce((/** @type {number} */ sum, /** @type {any} */ row) => sum + row.size, 0),
      }))));
      const silent = answer.brokers.filter((/** @type {any} */ one) => one.error_code !== 0);
      replace(dirsFailed, silent.length === 0 ? null : h("p", { class: "note bad" },
        `${counted(silent.length, "broker")} did not answer: ${silent.map((/** @type {any} */ one) => `${one.broker} (${one.error_message ?? one.error})`).join(", ")}`));
    } catch (error) {
      if (!signal.aborted) replace(dirsFailed, problem(error));
      dirs.explain("Not known.");
    }
  });
  showActions();
  const ends = [state.listen(["controller", "connection"], showActions), first.close, second.close];
  return () => ends.forEach((one) => one());
}
