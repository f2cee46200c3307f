/** Elections of preferred leaders (KIP-460): the first replica of a partition leads it again. */

import { checkedOrReview } from "./actions.js";
import { ApiError, get, request } from "./api.js";
import { open } from "./dialog.js";
import { h } from "./dom.js";
import { counted } from "./format.js";
import { Table } from "./table.js";

const PATH = "v1/leader-elections";

/** @param {string} [topics] names with commas between them; none: all */
export function electLeaders(topics = "") {
  /** What was previewed is what is elected. @type {any[]} */
  let places = [];
  open({
    title: "Elect preferred leaders",
    intro: "Partitions that another replica leads although the first one is in sync are led by the first one again. Nothing is copied.",
    fields: [{ name: "topics", label: "Topics (optional)", value: topics, optional: true, api: ["topics"],
      hint: "Names with commas between them; none means all." }],
    preview: async (values) => {
      const wanted = values.topics.split(",").map((one) => one.trim()).filter((one) => one !== "");
      const [found, known] = await Promise.all([request("POST", PATH, { body: { validate_only: true } }), get("v1/kafka-topics")]);
      const missing = wanted.filter((name) => !known.topics.some((/** @type {any} */ one) => one.topic === name));
      if (missing.length > 0) throw new ApiError(400, "UNKNOWN_TOPIC_OR_PARTITION", `topics names ${missing.join(", ")}: there is no such topic`);
      /** @param {any} one */
      const isWanted = (one) => wanted.length === 0 || wanted.includes(one.topic);
      const rows = new Map(known.topics.filter(isWanted).flatMap((/** @type {any} */ one) =>
        one.partitions.map((/** @type {any} */ row) => [`${one.topic}-${row.partition}`, row])));
      places = found.partitions.filter(isWanted).map((/** @type {any} */ one) => ({ topic: one.topic, partition: one.partition }));
      const behind = [...rows].filter(([, row]) => row.leader !== row.replicas[0] && !row.isr.includes(row.replicas[0])).map(([name]) => name);
      if (places.length === 0) throw new ApiError(200, "NONE", `There is nothing to elect.${late(behind)}`);
      return preview(places, rows, late(behind));
    },
    confirm: "Elect the leaders",
    act: async (_, { query, key }) => checkedOrReview(await request("POST", PATH, { body: { partitions: places }, query, key })),
    done: (answer) => `Preferred leaders of ${counted(answer.partitions.length, "partition")} are elected.`,
  });
}

/** @param {string[]} behind partitions whose first replica cannot lead yet */
function late(behind) {
  return behind.length === 0 ? "" : ` Of ${counted(behind.length, "partition")} the first replica is not in sync: they stay as they are.`;
}

/**
 * @param {{ topic: string, partition: number }[]} places
 * @param {Map<string, any>} rows by topic and partition, of those that the caller may describe
 * @param {string} note
 */
function preview(places, rows, note) {
  const table = new Table("Partitions that get another leader", [
    { label: "Partition", width: "minmax(8rem, 2fr)", cell: (row) => row.name },
    { label: "Leader now", cell: (row) => row.now?.leader ?? "–" },
    { label: "Then", cell: (row) => row.now === undefined ? "–" : h("strong", {}, row.now.replicas[0]) },
  ], "");
  table.set(places.map((one) => `${one.topic}-${one.partition}`).map((name) => ({ name, now: rows.get(name) })));
  return h("div", { class: "plan" }, h("p", {}, `${counted(places.length, "partition")} get another leader.${note}`), table.whole);
}
