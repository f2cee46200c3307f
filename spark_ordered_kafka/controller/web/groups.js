/** Consumer groups: how far they have read, and what holds them back. */

import { get, segment } from "./api.js";
import { h, replace } from "./dom.js";
import { count, counted } from "./format.js";
import { badge, facts, filterField, heading, panel, passes, polled, problem } from "./parts.js";
import { Table } from "./table.js";

/** Groups whose lag is read without a click: each takes requests to brokers. */
const MEASURED = 40;
const AT_A_TIME = 3;
/** Topics of a group whose partitions are shown at once. */
const SHOWN = 20;

/** @param {string} group */
const positionsPath = (group) => `v1/groups/${segment(group)}/positions`;

/**
 * Sums over all topics of a group.
 * @param {any} positions
 */
function sums(positions) {
  const rows = positions.topics.flatMap((/** @type {any} */ one) => one.partitions);
  const known = rows.filter((/** @type {any} */ row) => row.lag !== null);
  return {
    topics: positions.topics.map((/** @type {any} */ one) => one.topic),
    lag: known.reduce((/** @type {number} */ sum, /** @type {any} */ row) => sum + row.lag, 0),
    blocked: rows.filter((/** @type {any} */ row) => row.waits_for.length > 0).length,
  };
}

/**
 * Of many topics those that hold most back, then those with the greatest lag: first what is held back, then what is behind, each
 * in the order in which they came, so that few move when they are drawn again.
 * @param {any[]} topics
 */
function foremost(topics) {
  if (topics.length <= SHOWN) return topics;
  const weighed = topics.map((one, index) => ({ one, index, ...sums({ topics: [one] }) }));
  weighed.sort((a, b) => b.blocked - a.blocked || b.lag - a.lag);
  const rank = (/** @type {any} */ row) => row.blocked > 0 ? 0 : row.lag > 0 ? 1 : 2;
  return weighed.slice(0, SHOWN).sort((a, b) => rank(a) - rank(b) || a.index - b.index).map(({ one }) => one);
}

/** @param {string} text @returns {HTMLElement} */
const stateBadge = (text) => badge(text || "unknown", text === "Stable" ? "good" : text === "Empty" ? "" : "warn");

/** @param {HTMLElement} root @returns {() => void} */
export function groups(root) {
  const failed = h("div", {});
  const total = h("span", { class: "muted", role: "status" });
  const filter = filterField("Filter groups by name", "Filter by name");
  /** @type {any[]} */
  let rows = [];
  /** @type {Map<string, any>} */
  const measured = new Map();
  const table = new Table("Consumer groups", [
    { label: "Group", width: "minmax(9rem, 3fr)", cell: (row) => h("a", { href: `#/groups/${encodeURIComponent(row.group)}`, "data-key": `group-${row.group}` }, row.group) },
    { label: "State", width: "minmax(5rem, 1fr)", cell: (row) => stateBadge(row.state) },
    { label: "Topics", width: "minmax(6rem, 2fr)", wide: true, cell: (row) => measured.get(row.group)?.topics.join(", ") ?? "–" },
    { label: "Lag", width: "5.5rem", end: true, cell: (row) => count(measured.get(row.group)?.lag) },
    { label: "Held back", width: "7rem", end: true, cell: (row) => {
      const blocked = measured.get(row.group)?.blocked;
      return blocked === undefined ? "–" : blocked === 0 ? "0" : badge(counted(blocked, "partition"), "warn");
    } },
  ], "Not known yet.");
  const shown = () => rows.filter((row) => passes(filter, row.group));
  const show = () => {
    table.explain(rows.length === 0 ? "No consumer group that you may describe." : `No group has “${filter.value.trim()}” in its name.`);
    table.set(shown());
    total.textContent = counted(table.rows.length, "group");
  };
  filter.addEventListener("input", show);
  replace(root, heading("Groups", total, filter), failed, table.whole,
    h("p", { class: "muted" }, `Lag counts offsets that are not read yet, in topics under management; it is shown for the first ${MEASURED} groups of the list. `
      + "Open a group to see what its partitions wait for."));
  const polling = polled(15, async (signal) => {
    try {
      rows = (await get("v1/groups", {}, signal)).groups;
      replace(failed);
      show();
      const waiting = shown().slice(0, MEASURED);
      const measure = async () => {
        for (let row = waiting.shift(); row !== undefined && !signal.aborted; row = waiting.shift()) {
          // Of a group that has gone meanwhile, or that is of another kind, nothing is known.
          const positions = await get(positionsPath(row.group), {}, signal).catch(() => null);
          if (positions !== null) measured.set(row.group, sums(positions));
        }
      };
      await Promise.all(Array.from({ length: AT_A_TIME }, measure));
      if (!signal.aborted) show();
    } catch (error) {
      if (!signal.aborted) replace(failed, problem(error));
      table.explain("Not known.");
    }
  });
  return polling.close;
}

/** @param {HTMLElement} root @param {string} name @returns {() => void} */
export function group(root, name) {
  const failed = h("div", {});
  const summary = h("div", {});
  const place = h("div", {});
  const total = h("span", { class: "muted", role: "status" });
  const filter = filterField("Filter topics by name", "Filter by topic");
  /** @type {any[]} */
  let topics = [];
  /** @type {Map<string, { table: Table<any>, element: HTMLElement, note: HTMLElement }>} */
  const tables = new Map();
  /** @param {any} topic */
  const tableOf = (topic) => {
    const known = tables.get(topic.topic);
    if (known !== undefined) return known;
    const table = new Table(`Positions in ${topic.topic}`, [
      { label: "Partition", width: "5.5rem", cell: (row) => [row.partition, row.status === "live" ? "" : [" ", badge(row.status, "warn")]].flat() },
      { label: "Position", width: "minmax(4.5rem, 1fr)", end: true, cell: (row) => count(row.position) },
      { label: "Log end", width: "minmax(4.5rem, 1fr)", end: true, wide: true, cell: (row) => count(row.log_end) },
      { label: "Lag", width: "minmax(3.5rem, 1fr)", end: true, cell: (row) => count(row.lag) },
      { label: "Waits for", width: "minmax(8rem, 2fr)", cell: (row) => row.waits_for.length === 0 ? "–" : badge(
        row.waits_for.map((/** @type {any} */ one) => `${one.partition} up to ${count(one.offset)}`).join(", "), "warn",
        "These partitions must be read up to these offsets first, for the order of keys") },
      { label: "Member", width: "minmax(6rem, 2fr)", wide: true, cell: (row) => row.member === null ? "–"
        : h("span", { title: row.member.consumer_id }, `${row.member.client_id} ${row.member.host}`) },
    ], "It has no partitions.");
    const note = h("p", { class: "muted" });
    const made = { table, note, element: panel(topic.topic, note, table.whole) };
    tables.set(topic.topic, made);
    return made;
  };
  const show = () => {
    const named = topics.filter((one) => passes(filter, one.topic));
    const shown = foremost(named);
    const names = new Set(shown.map((one) => one.topic));
    for (const [topic, { element }] of tables) {
      if (!names.has(topic)) {
        element.remove();
        tables.delete(topic);
      }
    }
    shown.forEach((topic, index) => {
      const { table, note, element } = tableOf(topic);
      // What is in its place already stays there, so that nothing under the pointer is taken out and put in again.
      if (place.children[index] !== element) place.insertBefore(element, place.children[index] ?? null);
      table.set(topic.partitions);
      note.textContent = `Layout epoch ${topic.layout_epoch}${topic.ordered_delivery ? "" : "; without ordered delivery no partition waits for another"}`;
    });
    total.textContent = shown.length === named.length ? counted(named.length, "topic")
      : `${shown.length} of ${counted(named.length, "topic")}, those held back or behind most`;
  };
  filter.addEventListener("input", show);
  const polling = polled(5, async (signal) => {
    try {
      const view = await get(positionsPath(name), {}, signal);
      const all = sums(view);
      replace(failed, view.topics.length === 0 ? h("p", { class: "note" }, "It has committed nothing for topics under management that you may describe.") : null);
      replace(summary, facts([["State", stateBadge(view.state)], ["Lag", count(all.lag)],
        ["Held back", all.blocked === 0 ? "0" : badge(counted(all.blocked, "partition"), "warn")]]));
      topics = view.topics;
      show();
    } catch (error) {
      if (!signal.aborted) replace(failed, problem(error));
    }
  });
  replace(root, h("p", { class: "crumbs" }, h("a", { href: "#/groups" }, "Groups")), heading(name, total, filter), failed, summary, place);
  return polling.close;
}
