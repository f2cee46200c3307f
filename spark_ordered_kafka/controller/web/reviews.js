/** Requests that wait for a second principal, and those decided lately. */

import { blocked } from "./actions.js";
import { get, request } from "./api.js";
import { open } from "./dialog.js";
import { h, replace } from "./dom.js";
import { time } from "./format.js";
import { badge, button, facts, heading, polled, problem } from "./parts.js";
import { state } from "./store.js";
import { Table } from "./table.js";

const KINDS = { pending: "warn", approved: "busy", in_doubt: "bad", done: "good", failed: "bad", discarded: "", expired: "" };

/** @param {any} one */
const stateBadge = (one) => badge(one.status.replace("_", " "), KINDS[/** @type {keyof KINDS} */ (one.status)] ?? "");

/**
 * @param {any} one ReviewSummary
 * @param {"approve" | "discard"} decision
 */
function decide(one, decision) {
  const approves = decision === "approve";
  open({
    title: `${approves ? "Approve" : "Discard"} review ${one.review_id}`,
    preview: async () => {
      const view = await get(`v1/reviews/${one.review_id}`);
      return h("div", {}, described(view), h("p", {}, approves
        ? `It is carried out at once, in the name of ${view.requested_by}.` : "It is never carried out."));
    },
    confirm: approves ? "Approve and carry out" : "Discard",
    danger: !approves,
    reviewed: false,
    act: async (_, { query }) => {
      const view = await request("POST", `v1/reviews/${one.review_id}/${decision}`, { query });
      return { status: view.status, answer_status: view.answer_status };
    },
    done: (answer) => `Review ${one.review_id}: ${answer.status}.`,
  });
}

/** @param {any} view ReviewView */
function described(view) {
  return h("div", {}, facts([["Request", h("code", {}, `${view.method} ${view.path}`)], ["By", view.requested_by],
    ["Reason", view.reason ?? "–"], ["Asked", time(view.requested_at)], ["Expires", time(view.expires_at)],
    ["Decided by", view.decided_by ?? "–"]]),
  h("h3", {}, "What was asked"), h("pre", { tabindex: "0" }, JSON.stringify(view.body, null, 2)),
  view.answer === null ? null : [h("h3", {}, `Answer (${view.answer_status})`), h("pre", { tabindex: "0" }, JSON.stringify(view.answer, null, 2))]);
}

/** @param {any} one */
function look(one) {
  open({
    title: `Review ${one.review_id}`,
    preview: async () => described(await get(`v1/reviews/${one.review_id}`)),
    confirm: "",
    act: async () => ({}),
    done: () => "",
  });
}

/** @param {HTMLElement} root @returns {() => void} */
export function reviews(root) {
  const failed = h("div", {});
  const table = new Table("Reviews", [
    { label: "Id", width: "2.5rem", cell: (row) => button(`#${row.review_id}`, () => look(row), { kind: "plain", key: `review-${row.review_id}` }) },
    { label: "Status", width: "5.5rem", cell: stateBadge },
    { label: "Request", width: "minmax(4rem, 2fr)", cell: (row) => h("code", { title: `${row.method} ${row.path}` }, `${row.method} ${row.path}`) },
    { label: "By", width: "minmax(5rem, 1fr)", wide: true, cell: (row) => row.requested_by.replace(/^User:/, "") },
    { label: "Reason", width: "minmax(6rem, 2fr)", wide: true, cell: (row) => row.reason ?? "–" },
    { label: "Asked", width: "10.5rem", wide: true, cell: (row) => time(row.requested_at) },
    { label: "", width: "10rem", end: true, cell: (row) => row.status !== "pending" && row.status !== "in_doubt" ? null : [
      row.status === "pending" ? button("Approve", () => decide(row, "approve"), { kind: "small", key: `approve-${row.review_id}`,
        disabled: row.requested_by === state.caller?.principal ? "It is your own request: another principal must approve it." : blocked() }) : null,
      button("Discard", () => decide(row, "discard"), { kind: "small", key: `discard-${row.review_id}`, disabled: blocked() })] },
  ], "Not known yet.");
  const show = () => {
    if (state.reviews === null) return;
    table.explain(state.caller?.review_required ? "No request waits, or was decided lately." : "Changes need no review (review.required).");
    table.set(state.reviews);
  };
  replace(root, heading("Reviews"), failed, table.whole);
  show();
  const polling = polled(60, async (signal) => {
    try {
      await get("v1/reviews", {}, signal);
      replace(failed);
    } catch (error) {
      if (!signal.aborted) replace(failed, problem(error));
      table.explain("Not known.");
    }
  });
  const ends = [state.listen(["reviews", "controller", "connection", "caller"], show), polling.close];
  return () => ends.forEach((one) => one());
}
