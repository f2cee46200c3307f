/** Topics come under management: created, or adopted with the records that they have. */

import { checkedOrReview, positive } from "./actions.js";
import { ApiError, checked, get, request, segment } from "./api.js";
import { checkLines, parsedLines } from "./configs.js";
import { open } from "./dialog.js";
import { h } from "./dom.js";
import { count, counted } from "./format.js";
import { facts } from "./parts.js";
import { layouts } from "./picture.js";

/** @type {[string, string][]} */
const HASHES = [
  ["murmur3", "murmur3 (the default of new topics)"],
  ["murmur2", "murmur2 (Kafka's producers in Java)"],
  ["crc32", "crc32 (librdkafka's default)"],
];
/** Kafka's names of topics. @param {string} text */
const topicName = (text) => /^[A-Za-z0-9._-]{1,249}$/.test(text) ? null
  : `has the value '${text}': 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-' are needed`;

/** @param {string} topic */
const viewOf = (topic) => `#/topics/${encodeURIComponent(topic)}`;

export function createTopic() {
  /** @param {Record<string, string>} values @param {boolean} validateOnly */
  const body = (values, validateOnly) => ({
    topic: values.topic,
    partitions: Number(values.partitions),
    replication_factor: values.replication_factor === "" ? undefined : Number(values.replication_factor),
    hash: values.hash,
    ordered_delivery: values.ordered_delivery === "yes",
    configs: parsedLines(values.configs),
    validate_only: validateOnly,
  });
  let created = "";
  open({
    title: "Create a topic",
    fields: [
      { name: "topic", label: "Name", check: topicName, codes: ["INVALID_TOPIC_EXCEPTION", "TOPIC_ALREADY_EXISTS"] },
      { name: "partitions", label: "Partitions", type: "number", value: "1", check: positive, api: ["partitions"], codes: ["INVALID_PARTITIONS"],
        hint: "The least that it can ever have: it grows from here, and shrinks back to here." },
      { name: "replication_factor", label: "Replication factor (optional)", type: "number", optional: true, check: positive,
        api: ["replication_factor"], codes: ["INVALID_REPLICATION_FACTOR"], hint: "Without one: 3, or the number of brokers." },
      { name: "hash", label: "Hash of keys", value: "murmur3", choices: HASHES, api: ["hash"] },
      { name: "ordered_delivery", label: "Ordered delivery", value: "yes", api: ["ordered_delivery"],
        choices: [["yes", "every key in order"], ["no", "without order: no partition waits for another"]] },
      { name: "configs", label: "Kafka's configuration (optional)", type: "lines", optional: true, check: checkLines, api: ["configs"], codes: ["INVALID_CONFIG"],
        hint: "One name=value in a line, such as retention.ms=604800000." },
    ],
    preview: async (values) => {
      checked(await request("POST", "v1/topics", { body: body(values, true) }));
      const total = Number(values.partitions);
      return h("div", { class: "plan" },
        h("p", {}, "It would be created with ", h("strong", {}, counted(total, "partition")), `. Each has this part of the keys, by ${values.hash}:`),
        layouts(total, [{ label: "Epoch 0", total }], `The first layout of ${values.topic}`));
    },
    confirm: "Create the topic",
    act: async (values, { query, key }) => {
      created = values.topic;
      return checkedOrReview(await request("POST", "v1/topics", { body: body(values, false), query, key }));
    },
    done: () => `${created} is created.`,
    leave: () => viewOf(created),
  });
}

/** Topics of Kafka that are not under management. */
async function unmanaged() {
  const { topics } = await get("v1/kafka-topics");
  return topics.filter((/** @type {any} */ one) => !one.managed && !one.internal).map((/** @type {any} */ one) => one.topic);
}

export function adoptTopic() {
  /** @param {Record<string, string>} values */
  const path = (values) => `v1/topics/${segment(values.topic)}/adopt`;
  /** @param {Record<string, string>} values @param {boolean} validateOnly */
  const body = (values, validateOnly) => ({ hash: values.hash, force: values.force === "yes", validate_only: validateOnly });
  let adopted = "";
  open({
    title: "Adopt a topic",
    intro: "A topic that Kafka has already is taken under management with all its records. The preview reads some of them, and says "
      + "whether they lie where the hash puts their keys.",
    fields: [
      { name: "topic", label: "Topic of Kafka", wide: true, check: topicName, suggestions: unmanaged(),
        codes: ["INVALID_TOPIC_EXCEPTION", "TOPIC_ALREADY_EXISTS", "UNKNOWN_TOPIC_OR_PARTITION"] },
      { name: "hash", label: "Hash of its producers", value: "murmur2", wide: true, choices: HASHES, api: ["hash"] },
      { name: "force", label: "Records that lie elsewhere", wide: true, value: "no",
        choices: [["no", "refuse the topic"], ["yes", "adopt it nevertheless (readers report them as misrouted)"]] },
    ],
    preview: async (values) => {
      checked(await request("POST", path(values), { body: body(values, true) }));
      const [found] = (await get("v1/kafka-topics", { topic: values.topic })).topics;
      if (found === undefined) throw new ApiError(404, "UNKNOWN_TOPIC_OR_PARTITION", `topic '${values.topic}' is not there any more`);
      const factors = new Set(found.partitions.map((/** @type {any} */ one) => one.replicas.length));
      return h("div", { class: "plan" },
        facts([["Partitions", count(found.partitions.length)], ["Replicas of each", [...factors].sort().join(", ")], ["Hash", values.hash]]),
        h("p", {}, values.force === "yes" ? "Its records were not looked at. " : found.partitions.length === 1
          ? "With one partition every hash fits. " : `All records with a key that were looked at lie where ${values.hash} puts them. `,
        `${counted(found.partitions.length, "partition")} will be the least that it can have.`));
    },
    confirm: "Adopt the topic",
    act: async (values, { query, key }) => {
      adopted = values.topic;
      return checkedOrReview(await request("POST", path(values), { body: body(values, false), query, key }));
    },
    done: () => `${adopted} is under management.`,
    leave: () => viewOf(adopted),
  });
}
