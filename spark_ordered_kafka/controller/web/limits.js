/** Limits: how many replicas a broker may host (KIP-578), and how fast a reassignment in progress may copy. */

import { checkedOrReview } from "./actions.js";
import { checked, get, request } from "./api.js";
import { open } from "./dialog.js";
import { h } from "./dom.js";
import { bytes, count } from "./format.js";
import { beforeAfter } from "./parts.js";

/** The value of max_partitions that stands for no limit. */
export const UNLIMITED = 2 ** 31 - 1;
export const MB = 1_000_000;

/** @param {string} text */
export const megabytes = (text) => /^[0-9]+(\.[0-9]+)?$/.test(text) && Number(text) * MB >= 1
  ? null : `has the value '${text}': a number above 0 is needed`;

/** @param {number} limit */
const shownLimit = (limit) => limit >= UNLIMITED ? "none" : count(limit);

/** @param {any} row BrokerView */
export function limitBroker(row) {
  const path = `v1/brokers/${row.id}/guard-rails`;
  /** @param {Record<string, string>} values @param {boolean} validateOnly */
  const body = (values, validateOnly) => ({
    max_partitions: values.max_partitions === "" ? null : Number(values.max_partitions), validate_only: validateOnly,
  });
  open({
    title: `Limit of broker ${row.id}`,
    intro: "How many replicas it may host. Those that it has beyond its limit stay.",
    fields: [{
      name: "max_partitions", label: "Replicas at most (optional)", type: "number", optional: true, api: ["max_partitions"],
      value: row.max_partitions >= UNLIMITED ? "" : String(row.max_partitions),
      check: (text) => /^[0-9]{1,10}$/.test(text) && Number(text) <= UNLIMITED ? null : `has the value '${text}': a whole number from 0 to ${UNLIMITED} is needed`,
      hint: "0: it takes no more. Empty: the default of all brokers (max.broker.partitions).",
    }],
    filled: row.max_partitions,
    basis: async () => (await get("v1/brokers")).brokers.find((/** @type {any} */ one) => one.id === row.id)?.max_partitions,
    preview: async (values) => {
      const then = await request("PUT", path, { body: body(values, true) });
      return h("div", { class: "plan" }, beforeAfter(`Broker ${row.id} hosts ${count(then.hosted)}`, [
        ["Limit", shownLimit(row.max_partitions), shownLimit(then.max_partitions)],
        ["Left", left(row), left(then)],
      ]));
    },
    confirm: "Set the limit",
    act: async (values, { query, key }) => request("PUT", path, { body: body(values, false), query, key }),
    done: () => `The limit of broker ${row.id} is set.`,
  });
}

/** @param {any} row BrokerView */
const left = (row) => row.excess > 0 ? `${count(row.excess)} beyond it` : row.max_partitions >= UNLIMITED ? "–" : count(row.capacity);

/** @param {any} one a ReassignmentSummary */
const limits = (one) => [one.throttle, one.replica_alter_log_dirs_throttle];

/** @param {any} one a ReassignmentSummary that is in progress */
export function changeThrottle(one) {
  const path = `v1/reassignments/${one.request_id}`;
  /** @param {string} text */
  const perSecond = (text) => text === "" ? null : Math.round(Number(text) * MB);
  /** @param {number | null} value */
  const field = (value) => value === null ? "" : String(value / MB);
  /** @param {number | null} value */
  const shown = (value) => value === null ? "none" : `${bytes(value)}/s`;
  /** @param {Record<string, string>} values @param {boolean} validateOnly */
  const body = (values, validateOnly) => ({
    throttle: perSecond(values.throttle), replica_alter_log_dirs_throttle: perSecond(values.log_dirs), validate_only: validateOnly,
  });
  const hint = "In MB/s for each broker. Empty: no limit.";
  open({
    title: `Limits of reassignment ${one.request_id}`,
    intro: "The new limits hold for what is copied from now on.",
    fields: [
      { name: "throttle", label: "Between brokers (optional)", optional: true, value: field(one.throttle), check: megabytes, api: ["throttle"], hint },
      { name: "log_dirs", label: "Between log directories (optional)", optional: true, value: field(one.replica_alter_log_dirs_throttle), check: megabytes,
        api: ["replica_alter_log_dirs_throttle"], hint },
    ],
    filled: limits(one),
    basis: async () => limits(await get(path)),
    preview: async (values) => {
      const then = checked(await request("PATCH", path, { body: body(values, true) }));
      return h("div", { class: "plan" }, beforeAfter("Limits for each broker", [
        ["Between brokers", shown(one.throttle), shown(then.throttle)],
        ["Between log directories", shown(one.replica_alter_log_dirs_throttle), shown(then.replica_alter_log_dirs_throttle)],
      ]));
    },
    confirm: "Set the limits",
    act: async (values, { query, key }) => checkedOrReview(await request("PATCH", path, { body: body(values, false), query, key })),
    done: () => `The limits of reassignment ${one.request_id} are set.`,
  });
}
