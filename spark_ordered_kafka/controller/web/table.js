/**
 * Tables. One with many rows has in the document only those that are seen, so that 10,000 partitions cost as much as 50.
 *
 * @template T
 * @typedef {object} Column
 * @property {string} label
 * @property {(row: T) => import("./dom.js").Child | import("./dom.js").Child[]} cell
 * @property {string} [width] as in grid-template-columns
 * @property {boolean} [end] aligned to the end, for numbers
 * @property {boolean} [wide] left out where not all columns fit, the widest one first
 */

import { h, replace } from "./dom.js";

const ROW_HEIGHT = 34;
/** Rows from which on a table has a scroll bar of its own. */
const MANY = 150;
const MARGIN = 10;
/** Between columns, in rem, as in parts.css. */
const GAP = 1.25;

let tables = 0;

/**
 * The least width of a column, in rem.
 * @param {Column<any>} column
 */
const least = (column) => Number(/([0-9.]+)rem/.exec(column.width ?? "")?.[1] ?? 5);

/** @param {Column<any>[]} columns */
const needed = (columns) => columns.reduce((sum, column) => sum + least(column) + GAP, -GAP);

/**
 * The columns that fit, or all that are never left out.
 * @param {Column<any>[]} columns
 * @param {number} room in rem
 */
function fitting(columns, room) {
  const leaving = columns.filter((column) => column.wide).sort((one, other) => least(one) - least(other));
  let left = columns;
  while (needed(left) > room && leaving.length > 0) {
    const widest = leaving.pop();
    left = left.filter((column) => column !== widest);
  }
  return left;
}

/** @template T */
export class Table {
  /**
   * @param {string} label for screen readers
   * @param {Column<T>[]} columns
   * @param {string} empty what is shown without rows
   */
  constructor(label, columns, empty) {
    this.label = label;
    this.columns = columns;
    this.empty = empty;
    /** @type {T[]} */
    this.rows = [];
    this.shown = "";
    tables += 1;
    this.head = h("div", { role: "row", class: "row head", "aria-rowindex": 1 });
    this.body = h("div", { role: "rowgroup", class: "body" });
    this.element = h("div", { class: "table", role: "table", "aria-label": label },
      h("div", { role: "rowgroup", class: "head-group" }, this.head), this.body);
    this.note = h("p", { class: "empty", id: `empty-${tables}` }, empty);
    this.whole = h("div", { class: "table-frame" }, this.element, this.note);
    this.element.addEventListener("scroll", () => this.draw(), { passive: true });
    // In a frame of its own: what is drawn may change the size again.
    new ResizeObserver(() => requestAnimationFrame(() => this.draw())).observe(this.whole);
    this.set([]);
  }

  /** Whether it scrolls by itself. */
  get many() {
    return this.rows.length > MANY;
  }

  /** @param {T[]} rows */
  set(rows) {
    this.rows = rows;
    this.shown = "";
    this.element.classList.toggle("many", this.many);
    this.element.setAttribute("aria-rowcount", String(rows.length + 1));
    if (this.many) this.element.setAttribute("tabindex", "0");
    else this.element.removeAttribute("tabindex");
    this.element.hidden = rows.length === 0;
    this.note.hidden = rows.length !== 0;
    this.draw();
  }

  /** Say something else while there are no rows. @param {string} text */
  explain(text) {
    this.note.textContent = text;
  }

  /**
   * Scrolls to a row.
   * @param {number} index
   */
  reveal(index) {
    if (this.many) {
      this.element.scrollTop = Math.max(0, index * ROW_HEIGHT - this.element.clientHeight / 2);
      this.draw();
    } else this.body.children[index]?.scrollIntoView({ block: "center" });
  }

  draw() {
    // Before it is in the document it has no width.
    const room = (this.element.clientWidth || Infinity) / parseFloat(getComputedStyle(document.documentElement).fontSize);
    const columns = fitting(this.columns, room);
    const isNarrow = needed(columns) > room;
    let [from, to] = [0, this.rows.length];
    if (this.many) {
      const height = this.element.clientHeight || 600;
      from = Math.max(0, Math.floor(this.element.scrollTop / ROW_HEIGHT) - MARGIN);
      to = Math.min(this.rows.length, Math.ceil((this.element.scrollTop + height) / ROW_HEIGHT) + MARGIN);
    }
    const shown = `${from}-${to}-${columns.length}-${isNarrow}`;
    if (shown === this.shown) return;
    this.shown = shown;
    // In proportion to the least widths, where these do not fit.
    const template = columns.map((column) => isNarrow ? `minmax(0, ${least(column)}fr)` : column.width ?? "1fr").join(" ");
    this.element.style.setProperty("--columns", template);
    replace(this.head, columns.map((column) =>
      h("div", { role: "columnheader", class: column.end ? "cell end" : "cell" }, column.label)));
    const drawn = this.rows.slice(from, to).map((row, index) =>
      h("div", { role: "row", class: "row", "aria-rowindex": from + index + 2 }, columns.map((column) =>
        h("div", { role: "cell", class: column.end ? "cell end" : "cell", "data-label": column.label }, column.cell(row)))));
    this.body.style.setProperty("padding-top", `${from * ROW_HEIGHT}px`);
    this.body.style.setProperty("padding-bottom", `${(this.rows.length - to) * ROW_HEIGHT}px`);
    replace(this.body, drawn);
  }
}
