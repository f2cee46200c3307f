/**
 * Linear hashing, as the controller does it: which partition a partition came from, and which part of all keys it has.
 * Pure. With the initial count N, partition p splits into p and p + m when there are more than p + m partitions, for
 * m = N, 2N, 4N, and so on while p < m.
 *
 * @typedef {{ partition: number, start: number, width: number }} Part a partition's part of all keys, of 0 to 1
 * @typedef {{ from: number, to: number }} Split `to` got keys of `from`, or gives them back
 */

/**
 * The partition whose split makes `partition`; null for one of the initial ones.
 * @param {number} partition
 * @param {number} initial the initial partition count
 * @returns {number | null}
 */
export function parentOf(partition, initial) {
  if (partition < initial) return null;
  let modulus = initial;
  while (modulus * 2 <= partition) modulus *= 2;
  return partition - modulus;
}

/**
 * The parts of all keys under a partition count, so ordered that a partition lies beside the one it was split from.
 * @param {number} initial
 * @param {number} total at least `initial`
 * @returns {Part[]}
 */
export function parts(initial, total) {
  /** @type {Part[]} */
  const found = [];
  /** @param {number} partition @param {number} modulus @param {number} start @param {number} width */
  const divide = (partition, modulus, start, width) => {
    if (partition + modulus < total) {
      divide(partition, modulus * 2, start, width / 2);
      divide(partition + modulus, modulus * 2, start + width / 2, width / 2);
    } else found.push({ partition, start, width });
  };
  for (let partition = 0; partition < initial; partition += 1) {
    divide(partition, initial, partition / initial, 1 / initial);
  }
  return found;
}

/**
 * The splits of a growth, or the merges of a shrink, in the order in which linear hashing makes them.
 * @param {number} initial
 * @param {number} before
 * @param {number} after
 * @returns {Split[]}
 */
export function splits(initial, before, after) {
  const [low, high] = [Math.min(before, after), Math.max(before, after)];
  /** @type {Split[]} */
  const found = [];
  for (let partition = low; partition < high; partition += 1) {
    const from = parentOf(partition, initial);
    if (from !== null) found.push({ from, to: partition });
  }
  return found;
}

/**
 * Rows of the tree of splits, each partition below the one it came from.
 * @template {{ partition: number }} T
 * @param {T[]} partitions by number
 * @param {number} initial
 * @returns {{ row: T, depth: number, parent: number | null }[]}
 */
export function flattened(partitions, initial) {
  /** @type {Map<number | null, T[]>} */
  const children = new Map();
  for (const row of partitions) {
    const parent = parentOf(row.partition, initial);
    const siblings = children.get(parent);
    if (siblings === undefined) children.set(parent, [row]);
    else siblings.push(row);
  }
  /** @type {{ row: T, depth: number, parent: number | null }[]} */
  const found = [];
  /** @param {number | null} parent @param {number} depth */
  const visit = (parent, depth) => {
    for (const row of children.get(parent) ?? []) {
      found.push({ row, depth, parent });
      visit(row.partition, depth + 1);
    }
  };
  visit(null, 0);
  return found;
}
