/** The controllers, and which of them leads. */

import { get } from "./api.js";
import { h, replace } from "./dom.js";
import { badge, heading, panel, polled, problem } from "./parts.js";
import { state } from "./store.js";
import { Table } from "./table.js";

/** @param {HTMLElement} root @returns {() => void} */
export function controllers(root) {
  const failed = h("div", {});
  const note = h("p", { class: "muted" });
  const table = new Table("Controllers", [
    { label: "Controller", width: "minmax(8rem, 2fr)", cell: (row) => row.id },
    { label: "Address", width: "minmax(8rem, 2fr)", cell: (row) => /^https?:\/\//.test(row.url) ? h("a", { href: row.url, "data-key": row.url }, row.url) : row.url },
    { label: "Role", width: "6rem", cell: (row) => badge(row.role, row.role === "leader" ? "good" : "") },
  ], "Not known yet.");
  const show = (/** @type {any} */ list) => {
    table.set(list.controllers);
    note.textContent = list.leader === null ? "No controller leads." : `Controller epoch ${list.epoch}. The leader makes changes; all answer what only reads.`;
  };
  replace(root, heading("Controllers"), failed, panel("Running controllers", note, table.whole));
  if (state.controllers !== null) show(state.controllers);
  // The answer says which right is missing; events leave out what may not be seen.
  const polling = polled(30, async (signal) => {
    try {
      show(await get("v1/controllers", {}, signal));
      replace(failed);
    } catch (error) {
      if (!signal.aborted) replace(failed, problem(error));
      table.explain("Not known.");
    }
  });
  const ends = [state.listen(["controllers"], () => { if (state.controllers !== null) show(state.controllers); }), polling.close];
  return () => ends.forEach((one) => one());
}
