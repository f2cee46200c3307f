/** The first view: what is in progress, what waits for a decision, what is not as it should be. */

import { cancelChange } from "./actions.js";
import { get } from "./api.js";
import { changeProgress } from "./changes.js";
import { h, replace } from "./dom.js";
import { count, counted } from "./format.js";
import { badge, heading, panel, polled } from "./parts.js";
import { reassignmentProgress } from "./reassignments.js";
import { state } from "./store.js";

/** @param {HTMLElement} root @returns {() => void} */
export function overview(root) {
  const figures = h("div", { class: "tiles" });
  const changes = h("div", {});
  const moving = h("div", {});
  const waiting = h("div", {});
  replace(root, heading("Overview"), figures, panel("Partition changes in progress", changes),
    panel("Reassignments in progress", moving), panel("Reviews that wait", waiting));
  /** @type {any[] | null} */
  let brokerRows = null;
  /** @type {unknown} */
  let brokerError = null;

  const showFigures = () => {
    const topics = state.topics === null ? null : [...state.topics.values()];
    const partitions = topics?.reduce((sum, one) => sum + one.undeleted_partition_count, 0);
    const alive = brokerRows?.filter((one) => one.alive).length;
    const full = brokerRows?.filter((one) => one.alive && one.capacity === 0).length ?? 0;
    replace(figures,
      tile("Topics", "#/topics", count(topics?.length), topics === null ? "" : counted(partitions ?? 0, "partition")),
      tile("Brokers", "#/brokers", brokerRows === null ? "–" : `${alive}/${brokerRows.length}`,
        brokerError !== null ? "not permitted or not known" : brokerRows === null ? "" : alive === brokerRows.length
          ? full > 0 ? `${full} at the limit` : "all alive" : "some are down", brokerRows !== null && alive !== brokerRows.length),
      tile("Controllers", "#/controllers", count(state.controllers?.controllers.length),
        state.controller?.leader ? `epoch ${state.controller.epoch}` : "no leader", state.controller !== null && state.controller.leader === null),
      tile("In progress", "#/reassignments", count((topics ?? []).filter((one) => one.change !== null).length
        + (state.reassignments ?? []).filter((one) => !one.complete).length), "changes and reassignments"));
  };
  const showChanges = () => {
    const running = [...(state.topics?.values() ?? [])].filter((one) => one.change !== null);
    replace(changes, running.length === 0 ? h("p", { class: "empty" }, state.topics === null ? "Not known yet." : "None.")
      : running.slice(0, 20).map((one) => h("div", { class: "item" },
        h("a", { href: `#/topics/${encodeURIComponent(one.topic)}` }, one.topic), changeProgress(one, () => cancelChange(one)))),
    running.length > 20 ? h("p", {}, `and ${count(running.length - 20)} more`) : null);
    showFigures();
  };
  const showMoving = () => {
    const running = (state.reassignments ?? []).filter((one) => !one.complete);
    replace(moving, running.length === 0
      ? h("p", { class: "empty" }, state.reassignments === null && state.topics !== null ? "Only for callers who may DESCRIBE the cluster." : "None.")
      : running.map((one) => reassignmentProgress(one)));
    showFigures();
  };
  const showWaiting = () => {
    const pending = (state.reviews ?? []).filter((one) => one.status === "pending");
    replace(waiting, pending.length === 0 ? h("p", { class: "empty" }, "None.") : pending.map((one) => h("p", {},
      badge(`#${one.review_id}`, "warn"), " ", h("a", { href: "#/reviews" }, `${one.method} ${one.path}`), ` of ${one.requested_by}`)));
  };
  showChanges();
  showMoving();
  showWaiting();
  const polling = polled(30, async (signal) => {
    try {
      brokerRows = (await get("v1/brokers", {}, signal)).brokers;
      brokerError = null;
    } catch (error) {
      brokerError = error;
    }
    showFigures();
  });
  const ends = [
    state.listen(["topics"], showChanges),
    state.listen(["reassignments"], showMoving),
    state.listen(["reviews"], showWaiting),
    state.listen(["controller", "controllers"], showFigures),
    polling.close,
  ];
  return () => ends.forEach((one) => one());
}

/** @param {string} name @param {string} href @param {string} value @param {string} more @param {boolean} [bad] */
function tile(name, href, value, more, bad = false) {
  return h("a", { class: bad ? "tile bad" : "tile", href, "data-key": name }, h("span", { class: "tile-name" }, name),
    h("span", { class: "tile-value" }, value), h("span", { class: "tile-more" }, more));
}
