/** A topic: its layouts, and the tree of its partitions with their logs. */

import { blocked, cancelChange, changeCount } from "./actions.js";
import { get, segment } from "./api.js";
import { changeProgress, lastChange } from "./changes.js";
import { alterTopic, configTable } from "./configs.js";
import { h, replace } from "./dom.js";
import { electLeaders } from "./elections.js";
import { bytes, count, counted, rate, time } from "./format.js";
import { deleteTopic, releaseTopic } from "./leave.js";
import { movePartition, plan } from "./moves.js";
import { badge, button, facts, heading, panel, polled, problem } from "./parts.js";
import { MAX_PARTS, layouts as layoutsPicture } from "./picture.js";
import { state } from "./store.js";
import { Table } from "./table.js";
import { flattened } from "./tree.js";

const SHOWN_LAYOUTS = 6;
const STATUS = { live: "", marked: "warn", deleted: "muted" };

/** @param {HTMLElement} root @param {string} name @returns {() => void} */
export function topic(root, name) {
  const path = `v1/topics/${segment(name)}`;
  const actions = h("div", { class: "actions" });
  const summary = h("div", {});
  const change = h("div", {});
  const history = h("div", {});
  const configs = h("div", {});
  const note = h("p", { class: "muted", role: "status" });
  const find = /** @type {HTMLInputElement} */ (h("input", { type: "search", inputmode: "numeric", "aria-label": "Go to partition", placeholder: "Go to partition" }));
  const failed = h("div", {});
  /** @type {any} The last answer. */
  let view = null;
  /** Whether it has logs and configuration. */
  let detailed = false;
  /** Offsets and sizes of the reading before: partition -> [log end, seconds]. @type {Map<number, [number, number]>} */
  let earlier = new Map();
  /** @type {Map<number, number>} */
  let rates = new Map();

  const table = new Table(`Partitions of ${name}`, [
    { label: "Partition", width: "minmax(7rem, 1.6fr)", cell: ({ row, depth, parent }) => [
      h("span", { class: "tree", style: { "padding-left": `${Math.min(depth, 12) * 1.1}rem` }, "aria-hidden": "true" }, depth > 0 ? "└ " : ""),
      h("span", { class: "number" }, row.partition),
      parent === null ? null : h("span", { class: "muted from" }, ` from ${parent}`)] },
    { label: "Status", width: "minmax(5rem, 0.8fr)", cell: ({ row }) => [
      badge(row.status, STATUS[/** @type {keyof STATUS} */ (row.status)] ?? ""),
      row.waiting_groups?.length > 0 ? h("span", { class: "muted from", title: row.waiting_groups.map((/** @type {any} */ one) => one.group).join(", ") },
        ` ${counted(row.waiting_groups.length, "group")} to read it`) : null] },
    { label: "Size", width: "5.5rem", end: true, cell: ({ row }) => bytes(row.size) },
    { label: "Offsets", width: "minmax(7rem, 1fr)", end: true, wide: true, cell: ({ row }) =>
      row.log_end === null ? "–" : `${count(row.log_start)} – ${count(row.log_end)}` },
    { label: "Rate", width: "5rem", end: true, wide: true, cell: ({ row }) => h("span", { title: "Offsets per second between the last two readings" }, rate(rates.get(row.partition))) },
    { label: "Replicas", width: "minmax(6rem, 1fr)", wide: true, cell: ({ row }) => replicas(row) },
    { label: "", width: "5rem", end: true, wide: true, cell: ({ row }) => button("Move", () => movePartition(name, row),
      { kind: "small", key: `move-${row.partition}`, disabled: blocked() }) },
  ], "Not known yet.");

  const showHead = () => {
    const own = state.topics?.get(name) ?? view;
    const busy = own?.change ? "A change is in progress." : blocked();
    replace(actions, button("Change partition count", () => changeCount(own), { kind: "primary", disabled: own === null ? "Not known yet." : busy }),
      button("Move replicas", () => plan({ topics: name }), { disabled: blocked() }),
      button("Elect leaders", () => electLeaders(name), { disabled: blocked() }),
      button("Configure", () => alterTopic(view), { disabled: detailed ? blocked() : "Not known yet." }),
      button("Release", () => releaseTopic(name), { disabled: own === null ? "Not known yet." : busy }),
      button("Delete", () => deleteTopic(name), { disabled: own === null ? "Not known yet." : busy }));
    if (own?.change) replace(change, changeProgress(own, () => cancelChange(own)));
    else replace(change, h("p", { class: "empty" }, "None in progress."), view === null ? null : h("h3", {}, "The last one"), view === null ? null : lastChange(view.last_change));
  };
  const showTable = () => {
    table.set(flattened(view.partitions, view.initial_partition_count));
    const size = view.partitions.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + (one.size ?? 0), 0);
    const marked = view.partitions.filter((/** @type {any} */ one) => one.status === "marked").length;
    replace(summary, facts([
      ["Partitions", [count(view.undeleted_partition_count), marked > 0 ? ` and ${marked} marked` : ""]],
      ["Created with", count(view.initial_partition_count)],
      ["Layout epoch", count(view.layout_epoch)],
      ["Size", view.partitions.some((/** @type {any} */ one) => one.size !== null) ? bytes(size) : "–"],
      ["Rate", rates.size === 0 ? "–" : rate([...rates.values()].reduce((sum, one) => sum + one, 0))],
      ["Delivery", view.ordered_delivery ? badge("ordered", "good") : badge("not ordered", "warn")],
      ["Hash", view.hash],
      ["Writers", view.transactional_ids === null ? "–" : h("span", { title: "Transactional ids that Kafka knows" }, count(view.transactional_ids.known))],
      ...(view.stray_partitions.length > 0 ? [/** @type {[string, Node]} */ (["Stray", badge(counted(view.stray_partitions.length, "partition"), "warn", view.stray_partitions.join(", "))])] : []),
    ]));
    note.textContent = counted(view.partitions.length, "partition of Kafka", "partitions of Kafka");
  };
  /** @param {any} answer with details */
  const measure = (answer) => {
    const now = Date.now() / 1000;
    rates = new Map();
    const readings = new Map();
    for (const one of answer.partitions) {
      if (one.log_end === null) continue;
      const before = earlier.get(one.partition);
      if (before !== undefined && now > before[1]) rates.set(one.partition, Math.max(0, (one.log_end - before[0]) / (now - before[1])));
      readings.set(one.partition, [one.log_end, now]);
    }
    earlier = readings;
  };
  let epoch = -1;
  const showHistory = async (/** @type {AbortSignal} */ signal) => {
    if (view.layout_epoch === epoch) return;
    const answer = await get(`${path}/layout`, { from_epoch: Math.max(0, view.layout_epoch - SHOWN_LAYOUTS + 1) }, signal);
    epoch = view.layout_epoch;
    const last = answer.layouts.slice(-SHOWN_LAYOUTS);
    replace(history,
      layoutsPicture(answer.initial_partition_count, last.map((/** @type {any} */ one) =>
        ({ label: `Epoch ${one.epoch}`, total: one.undeleted_partition_count })), `The last layouts of ${name}: each row shows which partition has which part of the keys`),
      h("p", { class: "muted" }, last.some((/** @type {any} */ one) => one.undeleted_partition_count > MAX_PARTS) ? ""
        : "Each row is a layout, and each part the keys of a partition, which lie below those of the partition that it came from. ",
      `Epoch ${answer.layouts.at(-1).epoch} holds since ${time(answer.layouts.at(-1).committed_at)}.`));
  };
  const polling = polled(10, async (signal) => {
    try {
      // At once what ZooKeeper and Kafka's metadata have; logs take longer, for brokers are asked.
      if (view === null) {
        view = await get(path, {}, signal);
        showTable();
        showHead();
        await showHistory(signal);
      }
      view = await get(path, { details: true }, signal);
      detailed = true;
      replace(configs, configTable(view.configs));
      measure(view);
      showTable();
      showHead();
      await showHistory(signal);
      replace(failed);
    } catch (error) {
      if (signal.aborted) return;
      replace(failed, problem(error));
      table.explain("Not known.");
    }
  });
  let known = JSON.stringify(state.topics?.get(name) ?? null);
  const onTopics = () => {
    const now = JSON.stringify(state.topics?.get(name) ?? null);
    if (now === known) return;
    known = now;
    showHead();
    polling.again();
  };
  find.addEventListener("input", () => {
    const index = table.rows.findIndex((one) => String(one.row.partition) === find.value.trim());
    if (index >= 0) table.reveal(index);
  });
  replace(root, h("p", { class: "crumbs" }, h("a", { href: "#/topics" }, "Topics")), heading(name, actions), failed, summary,
    panel("Layouts", history), panel("Partition change", change), panel("Partitions", h("div", { class: "bar-line" }, note, find), table.whole), panel("Configuration", configs));
  showHead();
  const ends = [state.listen(["topics"], onTopics), state.listen(["controller", "connection"], showHead), polling.close];
  return () => ends.forEach((one) => one());
}

/** @param {any} row PartitionView */
function replicas(row) {
  const missing = row.replicas.filter((/** @type {number} */ broker) => !row.isr.includes(broker));
  return [
    row.replicas.map((/** @type {number} */ broker, /** @type {number} */ index) => [index > 0 ? ", " : "",
      h(broker === row.leader ? "strong" : "span", { title: broker === row.leader ? "leader" : null }, broker)]).flat(),
    row.leader < 0 ? [" ", badge("no leader", "bad")] : missing.length > 0 ? [" ", badge(`${missing.join(", ")} behind`, "warn")] : null,
  ].flat();
}
