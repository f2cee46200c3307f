/** Kafka's configuration of a topic, and its ordered delivery: shown, and altered. */

import { checkedOrReview } from "./actions.js";
import { ApiError, checked, get, request, segment } from "./api.js";
import { open } from "./dialog.js";
import { h } from "./dom.js";
import { beforeAfter } from "./parts.js";

/** What the page writes for a config that is not set for the topic itself. */
const UNSET = "not set";
const LINE = /^([^=\s]+)\s*=\s*(.*)$/;

/** @param {Record<string, string>} configs */
export const configLines = (configs) => Object.entries(configs).sort().map(([name, value]) => `${name}=${value}`).join("\n");

/**
 * Name and value of each line.
 * @param {string} text
 * @returns {Record<string, string>}
 */
export function parsedLines(text) {
  return Object.fromEntries(lines(text).flatMap((line) => {
    const found = LINE.exec(line);
    return found === null ? [] : [[found[1], found[2]]];
  }));
}

/** @param {string} text */
const lines = (text) => text.split("\n").map((line) => line.trim()).filter((line) => line !== "");

/** @param {string} text @returns {string | null} what is wrong with it */
export function checkLines(text) {
  const names = new Set();
  for (const line of lines(text)) {
    const found = LINE.exec(line);
    if (found === null) return `has the line '${line}': name=value is needed`;
    if (names.has(found[1])) return `has ${found[1]} twice`;
    names.add(found[1]);
  }
  return null;
}

/** What is set for the topic. @param {Record<string, string> | null} configs */
export function configTable(configs) {
  if (configs === null) return h("p", { class: "empty" }, "Only for callers who may DESCRIBE_CONFIGS the topic.");
  const rows = Object.entries(configs).sort();
  if (rows.length === 0) return h("p", { class: "empty" }, "Nothing is set for the topic itself: the brokers' defaults hold.");
  return h("table", { class: "before-after-table" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Name"), h("th", { scope: "col" }, "Value"))),
    h("tbody", {}, rows.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, h("code", {}, name)), h("td", {}, h("code", {}, value))))));
}

/** What a form is filled in with, in one order. @param {any} view TopicView with details */
const altering = (view) => [view.topic_id, view.configs === null ? null : configLines(view.configs), view.ordered_delivery];

/** @param {any} view TopicView with details */
export function alterTopic(view) {
  const path = `v1/topics/${segment(view.topic)}`;
  const known = view.configs ?? {};
  /** What is to be altered; null: back to the default. @param {Record<string, string>} values @returns {Record<string, string | null>} */
  const altered = (values) => {
    if (view.configs === null) return {};
    const wanted = parsedLines(values.configs);
    const changed = Object.entries(wanted).filter(([name, value]) => known[name] !== value);
    return Object.fromEntries([...changed, ...Object.keys(known).filter((name) => !(name in wanted)).map((name) => [name, null])]);
  };
  /** @param {Record<string, string>} values */
  const switches = (values) => values.ordered_delivery !== String(view.ordered_delivery);
  /** @param {Record<string, string>} values @param {boolean} validateOnly */
  const body = (values, validateOnly) => ({
    ordered_delivery: switches(values) ? values.ordered_delivery === "true" : undefined,
    configs: altered(values),
    force: switches(values) && values.force === "yes",
    validate_only: validateOnly,
  });
  open({
    title: `Configuration of ${view.topic}`,
    fields: [
      ...(view.configs === null ? [] : [/** @type {import("./dialog.js").Field} */ ({
        name: "configs", label: "Kafka's configuration", type: "lines", optional: true, value: configLines(known), check: checkLines,
        hint: "One name=value in a line, such as retention.ms=604800000. A line taken away goes back to the default.",
        api: ["configs"], codes: ["INVALID_CONFIG"],
      })]),
      { name: "ordered_delivery", label: "Ordered delivery", value: String(view.ordered_delivery), api: ["ordered_delivery"],
        choices: [["true", "every key in order"], ["false", "without order: no partition waits for another"]] },
      { name: "force", label: "Producers of other packages", value: "no", api: ["force"], codes: ["ACTIVE_FOREIGN_PRODUCERS"], when: switches,
        choices: [["no", "refuse the change if there are any"], ["yes", "change nevertheless (their records lose order)"]] },
    ],
    filled: altering(view),
    basis: async () => altering(await get(path, { details: true })),
    preview: async (values) => {
      const changes = Object.entries(altered(values));
      if (changes.length === 0 && !switches(values)) throw new ApiError(200, "NONE", "Nothing differs from what is set now.");
      checked(await request("PATCH", path, { body: body(values, true) }));
      return h("div", { class: "plan" }, beforeAfter("What changes", [
        ...changes.sort().map(([name, value]) => /** @type {[string, string, string]} */ ([name, known[name] ?? UNSET, value ?? UNSET])),
        ...(switches(values) ? [/** @type {[string, string, string]} */ (["ordered delivery", view.ordered_delivery ? "yes" : "no", view.ordered_delivery ? "no" : "yes"])] : []),
      ]), switches(values) ? h("p", { class: "muted" }, "Ordered delivery is switched by a change of the layout, which writers and readers follow.") : null);
    },
    confirm: "Alter the topic",
    act: async (values, { query, key }) => checkedOrReview(await request("PATCH", path, { body: body(values, false), query, key })),
    done: () => `${view.topic} is altered.`,
  });
}
