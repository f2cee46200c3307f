/** Small parts that views share. */

import { ApiError } from "./api.js";
import { h } from "./dom.js";

/**
 * A word with a colour: `good`, `warn`, `bad`, `busy` or none.
 * @param {string} text
 * @param {string} [kind]
 * @param {string} [title]
 */
export function badge(text, kind = "", title = "") {
  return h("span", { class: `badge ${kind}`, title: title || null }, text);
}

/**
 * A bar from 0 to 1; null: not known.
 * @param {number | null} value
 * @param {string} label
 */
export function progress(value, label) {
  const bar = h("div", { class: "progress", role: "progressbar", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100 },
    h("div", { class: value === null ? "fill unknown" : "fill", style: { width: `${value === null ? 100 : Math.round(value * 100)}%` } }));
  if (value !== null) bar.setAttribute("aria-valuenow", String(Math.round(value * 100)));
  return bar;
}

/**
 * How much of a whole is used.
 * @param {number} used
 * @param {number} total
 * @param {string} label
 */
export function meter(used, total, label) {
  const part = total > 0 ? Math.min(1, used / total) : used > 0 ? 1 : 0;
  const kind = part >= 0.9 ? "fill bad" : part >= 0.75 ? "fill warn" : "fill";
  return h("div", { class: "progress small", role: "meter", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(part * 100) },
    h("div", { class: kind, style: { width: `${part * 100}%` } }));
}

/**
 * @param {string} text
 * @param {() => void} action
 * @param {{ kind?: string, key?: string, disabled?: string | null }} [more] `disabled`: why it cannot be used now
 */
export function button(text, action, more = {}) {
  const why = more.disabled ?? null;
  return h("button", {
    type: "button",
    class: more.kind ?? "",
    "data-key": more.key ?? text,
    // Not `disabled`: it would leave the order of the keyboard, and hide why.
    "aria-disabled": why !== null ? "true" : null,
    title: why,
    onclick: () => { if (why === null) action(); },
  }, text);
}

/**
 * A heading with what can be done beside it.
 * @param {string} title
 * @param {...(import("./dom.js").Child | import("./dom.js").Child[])} more
 */
export function heading(title, ...more) {
  return h("div", { class: "heading" }, h("h1", {}, title), h("div", { class: "actions" }, ...more));
}

/**
 * @param {string} title
 * @param {...(import("./dom.js").Child | import("./dom.js").Child[])} content
 */
export function panel(title, ...content) {
  return h("section", { class: "panel", "aria-label": title }, h("h2", {}, title), ...content);
}

/**
 * Names and values.
 * @param {[string, import("./dom.js").Child | import("./dom.js").Child[]][]} pairs
 */
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/**
 * Values now and then.
 * @param {string} caption
 * @param {[string, string, string][]} rows name, now, then
 */
export function beforeAfter(caption, rows) {
  return h("table", { class: "before-after-table" }, h("caption", {}, caption),
    h("thead", {}, h("tr", {}, ["", "Now", "Then"].map((label) => label === "" ? h("td", {}) : h("th", { scope: "col" }, label)))),
    h("tbody", {}, rows.map(([name, now, then]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "muted" }, now), h("td", {}, h("strong", {}, then))))));
}

/**
 * What a view shows in the place of what it could not read.
 * @param {unknown} error
 */
export function problem(error) {
  if (error instanceof ApiError && error.status === 403) {
    return h("p", { class: "note" }, h("strong", {}, "Not permitted. "), error.message, ".");
  }
  const text = error instanceof Error ? error.message : String(error);
  return h("p", { class: "note bad", role: "alert" }, text);
}

/**
 * A link to the same view of the leader's page.
 * @param {string} leader its URL
 */
export function leaderLink(leader) {
  // Only what is a page: the address comes from a configuration.
  return /^https?:\/\//.test(leader) ? h("a", { href: `${leader.replace(/\/$/, "")}/${window.location.hash}` }, leader) : leader;
}

/**
 * Calls `load` now, when a dialog has closed, and `seconds` after it has ended; slow requests are sent less often.
 * @param {number} seconds
 * @param {(signal: AbortSignal) => Promise<void>} load
 * @returns {{ close: () => void, again: () => void }}
 */
export function polled(seconds, load) {
  const controller = new AbortController();
  let timer = 0;
  let loading = false;
  let wanted = false;
  const run = async () => {
    window.clearTimeout(timer);
    if (loading) {
      wanted = true;
      return;
    }
    loading = true;
    const began = Date.now();
    try {
      if (!document.hidden) await load(controller.signal);
    } finally {
      loading = false;
      if (!controller.signal.aborted) {
        const pause = wanted ? 0 : Math.max(seconds * 1000, 10 * (Date.now() - began));
        wanted = false;
        timer = window.setTimeout(run, pause);
      }
    }
  };
  void run();
  // The next form is to be filled in with what the last one has done, or was refused for.
  document.addEventListener("close", () => { void run(); }, { capture: true, signal: controller.signal });
  return {
    close: () => { controller.abort(); window.clearTimeout(timer); },
    again: () => { void run(); },
  };
}

/**
 * A field by which a list is filtered.
 * @param {string} label for screen readers
 * @param {string} placeholder
 */
export function filterField(label, placeholder) {
  return /** @type {HTMLInputElement} */ (h("input", { type: "search", "aria-label": label, placeholder }));
}

/** Whether a text has what is typed into a filter. @param {HTMLInputElement} filter @param {string} text */
export const passes = (filter, text) => text.toLowerCase().includes(filter.value.trim().toLowerCase());
