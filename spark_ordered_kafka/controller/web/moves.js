/** Moves of replicas: plans of the controller and moves by hand, with what brokers have before and after. */

import { blocked, checkedOrReview, positive } from "./actions.js";
import { ApiError, checked, get, request, segment } from "./api.js";
import { open } from "./dialog.js";
import { h } from "./dom.js";
import { bytes, counted } from "./format.js";
import { MB, megabytes } from "./limits.js";
import { button } from "./parts.js";
import { brokers as brokersPicture } from "./picture.js";
import { Table } from "./table.js";

/** Goals of plans: value, text, and the fields that they need. @type {[string, string, string[]][]} */
const GOALS = [
  ["drain", "Drain brokers: move everything off them", ["brokers"]],
  ["spread", "Spread: move a fair share onto brokers", ["brokers"]],
  ["balance", "Balance replicas, leaders and bytes", ["brokers?"]],
  ["racks", "Repair partitions whose replicas share a rack", []],
  ["replication_factor", "Set the replication factor", ["replication_factor"]],
  ["empty_log_dirs", "Empty log directories of a broker", ["brokers", "log_dirs"]],
  ["balance_log_dirs", "Balance the log directories of brokers", ["brokers"]],
];

/** @param {string} text @returns {string[]} */
const listed = (text) => text.split(",").map((one) => one.trim()).filter((one) => one !== "");
/** @param {string} text */
const brokerIds = (text) => listed(text).every((one) => /^[0-9]{1,10}$/.test(one))
  ? null : `has the value '${text}': broker ids with commas between them are needed`;
/** @param {string} text */
const paths = (text) => listed(text).every((one) => one.startsWith("/"))
  ? null : `has the value '${text}': absolute paths with commas between them are needed`;

/** @type {import("./dialog.js").Field[]} */
const HOW = [
  { name: "throttle", label: "Limit, in MB/s for each broker (optional)", optional: true, api: ["throttle"], check: megabytes,
    hint: "Without one, brokers copy as fast as they can." },
  { name: "additional", label: "While other reassignments are in progress", value: "no", api: ["additional"],
    choices: [["no", "refuse"], ["yes", "begin nevertheless"]] },
];

/** @param {Record<string, string>} values */
const how = (values) => ({
  throttle: values.throttle === "" ? undefined : Math.round(Number(values.throttle) * MB),
  replica_alter_log_dirs_throttle: values.throttle === "" ? undefined : Math.round(Number(values.throttle) * MB),
  additional: values.additional === "yes",
});

/**
 * Plans a reassignment.
 * @param {{ goal?: string, brokers?: string, log_dirs?: string, topics?: string }} [preset]
 */
export function plan(preset = {}) {
  /** @param {string} field @param {boolean} [maybe] */
  const needed = (field, maybe = true) => (/** @type {Record<string, string>} */ values) =>
    (GOALS.find(([goal]) => goal === values.goal)?.[2] ?? []).some((one) => one === field || (maybe && one === `${field}?`));
  /** @type {any} */
  let found = null;
  /** @param {Record<string, string>} values @param {boolean} validateOnly */
  const body = (values, validateOnly) => ({
    partitions: found.partitions,
    allow_replication_factor_change: values.goal === "replication_factor",
    ...how(values),
    validate_only: validateOnly,
  });
  open({
    title: preset.goal === "drain" ? `Drain broker ${preset.brokers}` : "Move replicas",
    intro: "The controller proposes moves. Nothing is moved before you confirm them.",
    fields: [
      { name: "goal", label: "Goal", value: preset.goal ?? "balance", choices: GOALS.map(([value, text]) => [value, text]), api: ["goal"] },
      { name: "brokers", label: "Brokers", value: preset.brokers ?? "", optional: true, api: ["brokers"], check: brokerIds,
        hint: "Ids with commas between them. To balance replicas, none means all.", when: needed("brokers") },
      { name: "log_dirs", label: "Log directories", value: preset.log_dirs ?? "", api: ["log_dirs"], check: paths, when: needed("log_dirs") },
      { name: "replication_factor", label: "Replication factor", type: "number", value: "3", api: ["replication_factor"],
        check: positive, when: needed("replication_factor") },
      { name: "topics", label: "Topics (optional)", value: preset.topics ?? "", optional: true, api: ["topics"],
        hint: "Names with commas between them; none means all." },
      ...HOW,
    ],
    preview: async (values) => {
      const ids = listed(values.brokers).map(Number);
      if (needed("brokers", false)(values) && ids.length === 0) throw new ApiError(400, "INVALID_REQUEST", "brokers is missing: name one at least");
      found = await request("POST", "v1/reassignments/plan", { body: {
        goal: values.goal,
        brokers: needed("brokers")(values) && ids.length > 0 ? ids : undefined,
        topics: listed(values.topics).length > 0 ? listed(values.topics) : undefined,
        replication_factor: needed("replication_factor")(values) ? Number(values.replication_factor) : undefined,
        log_dirs: needed("log_dirs")(values) ? listed(values.log_dirs) : undefined,
      } });
      if (found.partitions.length === 0) throw new ApiError(200, "NONE", "There is nothing to move: the goal is reached already.");
      const answer = checked(await request("POST", "v1/reassignments", { body: body(values, true) }));
      return planned(found, [...found.warnings, ...answer.warnings]);
    },
    confirm: "Move the replicas",
    act: async (values, { query, key }) =>
      checkedOrReview(await request("POST", "v1/reassignments", { body: body(values, false), query, key })),
    done: (answer) => `Reassignment ${answer.request_id} has begun.`,
  });
}

/**
 * Moves the replicas of one partition as they are written down.
 * @param {string} topic
 * @param {{ partition: number, replicas: number[] }} row
 */
export function movePartition(topic, row) {
  /** @param {Record<string, string>} values @param {boolean} validateOnly */
  const body = (values, validateOnly) => ({
    partitions: [{
      topic, partition: row.partition, replicas: listed(values.replicas).map(Number),
      log_dirs: values.log_dirs === "" ? undefined : listed(values.log_dirs),
    }],
    ...how(values),
    validate_only: validateOnly,
  });
  open({
    title: `Replicas of ${topic}-${row.partition}`,
    fields: [
      { name: "replicas", label: "Brokers", value: row.replicas.join(","), api: ["replicas"], check: brokerIds,
        hint: "As many as now; the first is the preferred leader." },
      { name: "log_dirs", label: "Log directories (optional)", optional: true, api: ["log_dirs"],
        hint: "One for each broker, in the same order: an absolute path, or any.",
        check: (text) => listed(text).every((one) => one === "any" || one.startsWith("/"))
          ? null : `has the value '${text}': absolute paths or any are needed` },
      ...HOW,
    ],
    filled: row.replicas,
    basis: async () => (await get(`v1/topics/${segment(topic)}`)).partitions
      .find((/** @type {any} */ one) => one.partition === row.partition)?.replicas,
    preview: async (values) => {
      const answer = checked(await request("POST", "v1/reassignments", { body: body(values, true) }));
      return h("div", { class: "plan" }, h("p", { class: "before-after" },
        h("span", {}, `now ${row.replicas.join(", ")}`), h("span", { "aria-hidden": "true" }, "→"),
        h("strong", {}, `then ${listed(values.replicas).join(", ")}`)),
      values.log_dirs === "" ? null : h("p", {}, `Log directories: ${listed(values.log_dirs).join(", ")}`), warned(answer.warnings));
    },
    confirm: "Move the replicas",
    act: async (values, { query, key }) =>
      checkedOrReview(await request("POST", "v1/reassignments", { body: body(values, false), query, key })),
    done: (answer) => `Reassignment ${answer.request_id} has begun.`,
  });
}

/** @param {any} one a ReassignmentSummary */
export function cancel(one) {
  const path = `v1/reassignments/${one.request_id}`;
  open({
    title: `Cancel reassignment ${one.request_id}`,
    preview: async () => {
      checked(await request("DELETE", path, { query: { validate_only: true } }));
      return h("p", {}, `${counted(one.waiting + one.moving, "partition")} that wait or are being moved stay where they were; `
        + `${counted(one.done, "partition")} moved already stay where they are now.`);
    },
    confirm: "Cancel the reassignment",
    danger: true,
    reviewed: false,
    act: async (_, { query }) => checkedOrReview(await request("DELETE", path, { query })),
    done: () => `Reassignment ${one.request_id} is being cancelled.`,
  });
}

/** @param {any} one a ReassignmentSummary */
export function rollBack(one) {
  /** @param {Record<string, string>} values @param {boolean} validateOnly */
  const body = (values, validateOnly) => ({ rollback: one.request_id, ...how(values), validate_only: validateOnly });
  open({
    title: `Roll reassignment ${one.request_id} back`,
    intro: "Its partitions get the replicas that they had before it.",
    fields: HOW,
    preview: async (values) => {
      const answer = checked(await request("POST", "v1/reassignments", { body: body(values, true) }));
      return h("div", {}, h("p", {}, `${counted(answer.partitions.length, "partition")} would go back.`), warned(answer.warnings));
    },
    confirm: "Roll back",
    danger: true,
    act: async (values, { query, key }) =>
      checkedOrReview(await request("POST", "v1/reassignments", { body: body(values, false), query, key })),
    done: (answer) => `Reassignment ${answer.request_id} has begun.`,
  });
}

/** @param {number} broker */
export function drainButton(broker) {
  return button("Drain", () => plan({ goal: "drain", brokers: String(broker) }), { kind: "small", key: `drain-${broker}`, disabled: blocked() });
}

/**
 * @param {any} found ReassignmentPlan
 * @param {string[]} warnings
 */
function planned(found, warnings) {
  const before = new Map(found.current.partitions.map((/** @type {any} */ one) => [`${one.topic}\n${one.partition}`, one]));
  const rows = found.partitions.map((/** @type {any} */ one) => ({ ...one, now: before.get(`${one.topic}\n${one.partition}`) }));
  const table = new Table("Partitions that change", [
    { label: "Partition", width: "minmax(8rem, 2fr)", cell: (row) => `${row.topic}-${row.partition}` },
    { label: "Now", cell: (row) => row.now?.replicas.join(", ") ?? "–" },
    { label: "Then", cell: (row) => row.replicas.join(", ") },
    ...(rows.some(namesDirs) ? [{ label: "Log directories then", width: "minmax(8rem, 4fr)", cell: directories }] : []),
  ], "");
  table.set(rows);
  return h("div", { class: "plan" },
    h("p", {}, `${counted(rows.length, "partition")}, ${counted(found.replicas_to_move, "replica")} to copy (${bytes(found.bytes_to_move)}), `
      + `${counted(found.leaders_to_move, "partition")} with another preferred leader.`),
    warned(warnings), brokersPicture(found), table.whole);
}

/** @param {any} row */
const namesDirs = (row) => row.log_dirs.some((/** @type {string} */ dir) => dir !== "any");

/** Replicas that are to be in a log directory that is named. @param {any} row */
function directories(row) {
  const text = row.replicas.flatMap((/** @type {number} */ broker, /** @type {number} */ index) =>
    row.log_dirs[index] === "any" ? [] : [`${broker}: ${row.log_dirs[index]}`]).join(", ");
  return h("span", { title: text }, text);
}

/** @param {string[]} warnings */
function warned(warnings) {
  return warnings.length === 0 ? null : h("ul", { class: "note warn" }, [...new Set(warnings)].map((text) => h("li", {}, text)));
}
