/** Pictures of layouts and plans: SVG and bars, made of elements. */

import { h, svg } from "./dom.js";
import { bytes, count, counted } from "./format.js";
import { parts, splits } from "./tree.js";

const WIDTH = 1000;
const ROW = 30;
const GAP = 6;
/** More parts than pixels tell nothing. */
export const MAX_PARTS = 600;
const MAX_LABELLED = 48;

/**
 * One row per layout: which partition has which part of all keys. Partitions lie below those that they came from.
 * @param {number} initial
 * @param {{ label: string, total: number, changed?: Set<number> }[]} rows
 * @param {string} description for screen readers
 */
export function layouts(initial, rows, description) {
  if (rows.some((row) => row.total > MAX_PARTS)) {
    return h("p", { class: "note" }, rows.map((row) => `${row.label}: ${counted(row.total, "partition")}`).join(" · "));
  }
  const height = rows.length * (ROW + GAP) - GAP;
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "layouts", role: "img", "aria-label": description, preserveAspectRatio: "none" });
  rows.forEach((row, index) => {
    const top = index * (ROW + GAP);
    for (const part of parts(initial, row.total)) {
      const kind = row.changed?.has(part.partition) ? "part changed" : "part";
      picture.append(svg("rect", {
        x: part.start * WIDTH, y: top, width: Math.max(part.width * WIDTH - 2, 0.6), height: ROW, rx: 2, class: kind,
      }));
    }
  });
  const labels = rows.map((row) => h("div", { class: "part-labels", "aria-hidden": "true" },
    row.total > MAX_LABELLED ? null : parts(initial, row.total).map((part) =>
      h("span", { style: { left: `${part.start * 100}%`, width: `${part.width * 100}%` } }, part.partition))));
  return h("div", { class: "layout-picture" },
    h("div", { class: "layout-names" }, rows.map((row) => h("span", {}, row.label))),
    h("div", { class: "layout-rows" }, picture, labels));
}

/**
 * A partition change before it is made: both layouts, and what is split or merged.
 * @param {number} initial
 * @param {number} before
 * @param {number} after
 */
export function change(initial, before, after) {
  const moves = splits(initial, before, after);
  const grows = after > before;
  const touched = new Set(moves.flatMap((move) => [move.from, move.to]));
  const rows = [
    { label: `Now: ${before}`, total: before, changed: new Set([...touched].filter((one) => one < before)) },
    { label: `Then: ${after}`, total: after, changed: new Set([...touched].filter((one) => one < after)) },
  ];
  const few = moves.slice(0, 12).map((move) => grows
    ? `${move.from} splits into ${move.from} and ${move.to}`
    : `${move.to} merges into ${move.from}`);
  if (moves.length > few.length) few.push(`and ${count(moves.length - few.length)} more`);
  const untouched = new Set(parts(initial, Math.min(before, after)).map((part) => part.partition));
  for (const one of touched) untouched.delete(one);
  return h("div", { class: "plan" },
    layouts(initial, rows, `Layouts with ${before} and ${after} partitions`),
    h("p", {}, few.join("; "), "."),
    h("p", { class: "muted" }, untouched.size === 0 ? "" : `The keys of ${counted(untouched.size, "other partition")} stay where they are. `,
      grows ? "" : "Removed partitions are marked, read to their end, and then deleted; Kafka keeps them empty."));
}

/**
 * A plan of moves: what every broker has before and after.
 * @param {any} plan ReassignmentPlan
 */
export function brokers(plan) {
  /** @param {(load: any) => number} value */
  const most = (value) => Math.max(1, ...plan.brokers.flatMap((/** @type {any} */ one) => [value(one.before), value(one.after)]));
  const [replicas, size] = [most((load) => load.replicas), most((load) => load.bytes)];
  /** @param {any} one @param {"replicas" | "leaders" | "bytes"} name @param {number} top @param {(value: number) => string} shown */
  const pair = (one, name, top, shown) => h("div", { class: "pair" },
    ["before", "after"].map((when) => h("div", { class: "pair-row" },
      h("div", { class: `bar ${when}`, style: { width: `${(one[when][name] / top) * 100}%` } }),
      h("span", {}, `${when === "before" ? "now" : "then"} ${shown(one[when][name])}`))));
  return h("table", { class: "brokers-plan" },
    h("caption", {}, "Brokers now and then"),
    h("thead", {}, h("tr", {}, ["Broker", "Replicas", "Leaders", "Bytes"].map((label) => h("th", { scope: "col" }, label)))),
    h("tbody", {}, plan.brokers.map((/** @type {any} */ one) => h("tr", {},
      h("th", { scope: "row" }, one.broker),
      h("td", {}, pair(one, "replicas", replicas, count)),
      h("td", {}, pair(one, "leaders", replicas, count)),
      h("td", {}, pair(one, "bytes", size, bytes))))));
}
