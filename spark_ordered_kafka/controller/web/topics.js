/** The topics under management. */

import { changeCount, blocked } from "./actions.js";
import { adoptTopic, createTopic } from "./create.js";
import { h, replace } from "./dom.js";
import { count, counted } from "./format.js";
import { badge, button, filterField, heading, passes } from "./parts.js";
import { state } from "./store.js";
import { Table } from "./table.js";

/** @param {HTMLElement} root @returns {() => void} */
export function topics(root) {
  const filter = filterField("Filter topics by name", "Filter by name");
  const total = h("span", { class: "muted", role: "status" });
  const table = new Table("Topics", [
    { label: "Topic", width: "minmax(7rem, 3fr)", cell: (row) => h("a", { href: `#/topics/${encodeURIComponent(row.topic)}`, "data-key": `topic-${row.topic}` }, row.topic) },
    { label: "Partitions", width: "5rem", end: true, cell: (row) => count(row.undeleted_partition_count) },
    { label: "Created with", width: "7rem", end: true, wide: true, cell: (row) => count(row.initial_partition_count) },
    { label: "Layout epoch", width: "7rem", end: true, wide: true, cell: (row) => count(row.layout_epoch) },
    { label: "Hash", width: "6rem", wide: true, cell: (row) => row.hash },
    { label: "State", width: "minmax(6rem, 1.5fr)", cell: (row) => row.change !== null
      ? badge(`${row.change.step} ${row.change.source} → ${row.change.target}`, "busy")
      : row.ordered_delivery ? badge("ordered", "good") : badge("not ordered", "warn") },
    { label: "", width: "7rem", end: true, wide: true, cell: (row) => button("Change", () => changeCount(row),
      { key: `change-${row.topic}`, kind: "small", disabled: row.change !== null ? "A change is in progress." : blocked() }) },
  ], "Not known yet.");
  const actions = h("div", { class: "actions" });
  const show = () => {
    replace(actions, button("Create topic", createTopic, { kind: "primary", disabled: blocked() }),
      button("Adopt topic", adoptTopic, { disabled: blocked() }));
    if (state.topics === null) return;
    const rows = [...state.topics.values()].filter((one) => passes(filter, one.topic))
      .sort((one, other) => (one.topic < other.topic ? -1 : 1));
    table.explain(state.topics.size === 0
      ? "No topic that you may describe is under management. Create one, or adopt one that Kafka has."
      : `No topic has “${filter.value.trim()}” in its name.`);
    table.set(rows);
    total.textContent = counted(rows.length, "topic");
  };
  filter.addEventListener("input", show);
  replace(root, heading("Topics", total, filter, actions), table.whole);
  show();
  return state.listen(["topics", "controller", "connection"], show);
}
