/** Numbers and times as people read them. */

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];
const NUMBER = new Intl.NumberFormat("en");
// Local time in the order of ISO 8601.
const TIME = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });

/** Shown where a value is not known. */
export const UNKNOWN = "–";

/**
 * @param {number | null | undefined} value in bytes; negative: not known
 * @returns {string}
 */
export function bytes(value) {
  if (value === null || value === undefined || value < 0) return UNKNOWN;
  let unit = 0;
  let left = value;
  while (left >= 1000 && unit < UNITS.length - 1) {
    left /= 1000;
    unit += 1;
  }
  return `${unit === 0 || left >= 100 ? Math.round(left) : left.toFixed(1)} ${UNITS[unit]}`;
}

/**
 * @param {number | null | undefined} value
 * @returns {string}
 */
export function count(value) {
  return value === null || value === undefined ? UNKNOWN : NUMBER.format(value);
}

/**
 * `1 topic`, `2 topics`.
 * @param {number} value
 * @param {string} one
 * @param {string} [many]
 */
export function counted(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/**
 * @param {number | null | undefined} perSecond
 * @returns {string}
 */
export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return UNKNOWN;
  return `${perSecond >= 10 || perSecond === 0 ? count(Math.round(perSecond)) : perSecond.toFixed(1)}/s`;
}

/**
 * @param {number | null | undefined} seconds
 * @returns {string}
 */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return UNKNOWN;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

/**
 * @param {number | null | undefined} seconds since the epoch
 * @returns {string}
 */
export function time(seconds) {
  return seconds === null || seconds === undefined ? UNKNOWN : TIME.format(new Date(seconds * 1000));
}

/**
 * How long ago that was.
 * @param {number} seconds since the epoch
 */
export function ago(seconds) {
  return duration(Math.max(0, Math.round(Date.now() / 1000 - seconds)));
}

/**
 * From 0 to 1; null where the whole is not known.
 * @param {number} numerator
 * @param {number} denominator
 * @returns {number | null}
 */
export function share(numerator, denominator) {
  if (denominator < 0) return null;
  return denominator === 0 ? 1 : Math.min(1, numerator / denominator);
}
