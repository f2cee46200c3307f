/** Changes of partition counts: each with a preview that the controller has checked. */

import { checked, request, segment } from "./api.js";
import { open } from "./dialog.js";
import { h } from "./dom.js";
import { counted } from "./format.js";
import { change } from "./picture.js";
import { state } from "./store.js";

/** Why nothing can be changed from this page now; null: it can. */
export function blocked() {
  if (state.connection === "refused") return "You have no right to see what changes.";
  if (state.connection !== "online") return "The controller does not answer.";
  return state.leads ? null : "This controller follows: changes are made on the leader's page.";
}

/**
 * @param {string} text
 * @returns {string | null} what is wrong with it
 */
export function positive(text) {
  return /^[1-9][0-9]{0,8}$/.test(text) ? null : `has the value '${text}': a whole number from 1 is needed`;
}

/** @param {any} topic a TopicSummary or TopicView */
export function changeCount(topic) {
  /** @param {Record<string, string>} values @param {boolean} validateOnly */
  const body = (values, validateOnly) => ({
    topics: [{ topic: topic.topic, partition_count: Number(values.partition_count), layout_epoch: topic.layout_epoch }],
    force: values.force === "yes",
    validate_only: validateOnly,
  });
  open({
    title: `Partitions of ${topic.topic}`,
    intro: `It has ${counted(topic.undeleted_partition_count, "partition")} now, and was created with ${topic.initial_partition_count}, which is the least.`,
    fields: [
      {
        name: "partition_count",
        label: "New partition count",
        type: "number",
        value: String(topic.undeleted_partition_count),
        api: ["partition_count"],
        codes: ["INVALID_PARTITIONS"],
        check: positive,
      },
      {
        name: "force",
        label: "Producers of other packages",
        choices: [["no", "refuse the change if there are any"], ["yes", "change nevertheless (their records lose order)"]],
        value: "no",
        api: ["force"],
      },
    ],
    preview: async (values) => {
      checked(await request("POST", "v1/partition-counts", { body: body(values, true) }));
      return change(topic.initial_partition_count, topic.undeleted_partition_count, Number(values.partition_count));
    },
    confirm: "Change the partition count",
    act: async (values, { query, key }) =>
      checkedOrReview(await request("POST", "v1/partition-counts", { body: body(values, false), query, key })),
    done: () => `The change of ${topic.topic} has begun.`,
  });
}

/** @param {any} topic with a change in progress */
export function cancelChange(topic) {
  open({
    title: `Cancel the change of ${topic.topic}`,
    preview: async () => h("p", {}, `It goes back to ${counted(topic.change.source, "partition")}: writers continue under the old layout. `
      + "A change that is being committed cannot be cancelled any more."),
    confirm: "Cancel the change",
    danger: true,
    reviewed: false,
    act: async (_, { query }) => request("DELETE", `v1/topics/${segment(topic.topic)}/change`, { query }),
    done: () => `The change of ${topic.topic} is being cancelled.`,
  });
}

/** @param {any} answer a review (202), or results of which any may be an error */
export function checkedOrReview(answer) {
  return answer.review_id === undefined ? checked(answer) : answer;
}
