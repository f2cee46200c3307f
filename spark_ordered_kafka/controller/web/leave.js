/** Topics leave management: deleted with all that they hold, or released to Kafka. */

import { checkedOrReview } from "./actions.js";
import { checked, get, request, segment } from "./api.js";
import { open } from "./dialog.js";
import { h } from "./dom.js";
import { bytes, count } from "./format.js";
import { facts } from "./parts.js";

/**
 * The field that keeps a slip of the mouse from doing it.
 * @param {string} topic
 * @returns {import("./dialog.js").Field}
 */
const typed = (topic) => ({
  name: "confirmed",
  label: "Name of the topic, to confirm",
  hint: `Type ${topic}`,
  check: (text) => text === topic ? null : `has the value '${text}': ${topic} is needed`,
});

/** What would be gone, or released. @param {string} path */
async function contents(path) {
  const view = await get(path, { details: true });
  /** @param {(row: any) => number | null} value */
  const sum = (value) => view.partitions.some((/** @type {any} */ row) => value(row) === null) ? null
    : view.partitions.reduce((/** @type {number} */ total, /** @type {any} */ row) => total + (value(row) ?? 0), 0);
  return facts([
    ["Partitions of Kafka", count(view.partitions.length)],
    ["Offsets", count(sum((row) => row.log_end === null ? null : row.log_end - row.log_start))],
    ["Size", bytes(sum((row) => row.size))],
    ["Writers", view.transactional_ids === null ? "–" : count(view.transactional_ids.known)],
  ]);
}

/** It is still the topic of that id, with that layout. @param {string} path */
async function identity(path) {
  const view = await get(path);
  return [view.topic_id, view.layout_epoch];
}

/** @param {string} topic */
export function deleteTopic(topic) {
  const path = `v1/topics/${segment(topic)}`;
  open({
    title: `Delete ${topic}`,
    intro: "The topic is deleted from Kafka with all records, and its writers are fenced. Nothing brings it back.",
    fields: [typed(topic)],
    basis: () => identity(path),
    preview: async () => {
      checked(await request("DELETE", path, { query: { validate_only: true } }));
      return h("div", { class: "plan" }, await contents(path), h("p", {}, "All of it would be gone."));
    },
    confirm: "Delete the topic",
    danger: true,
    act: async (_, { query, key }) => checkedOrReview(await request("DELETE", path, { query, key })),
    done: () => `${topic} is deleted.`,
    leave: () => "#/topics",
  });
}

/** @param {string} topic */
export function releaseTopic(topic) {
  const path = `v1/topics/${segment(topic)}`;
  /** @param {Record<string, string>} values @param {boolean} validateOnly */
  const body = (values, validateOnly) => ({ force: values.force === "yes", validate_only: validateOnly });
  open({
    title: `Release ${topic}`,
    intro: "The topic leaves management: Kafka keeps it with records and configuration, its layouts are forgotten, and its ordered "
      + "writers are fenced.",
    fields: [
      { name: "force", label: "Groups that have not read all of earlier layouts", value: "no",
        choices: [["no", "refuse the release if there are any"], ["yes", "release nevertheless (they lose the order of keys)"]] },
      typed(topic),
    ],
    basis: () => identity(path),
    preview: async (values) => {
      checked(await request("POST", `${path}/release`, { body: body(values, true) }));
      const found = await contents(path);
      return h("div", { class: "plan" }, found, h("p", {}, values.force === "yes" ? "It was not looked at what groups have read."
        : `No group has to read anything written before the last partition change. Kafka keeps all records.`));
    },
    confirm: "Release the topic",
    danger: true,
    act: async (values, { query, key }) => checkedOrReview(await request("POST", `${path}/release`, { body: body(values, false), query, key })),
    done: () => `${topic} is released: Kafka has it as any other topic.`,
    leave: () => "#/topics",
  });
}
