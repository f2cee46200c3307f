/** The login of this tab: in its session storage alone, so it ends with the tab and no other page sees it. */

const KEY = "ordered-kafka.login";

/** @typedef {{ authorization: string, name: string }} Login the header, and what to call it */

/** @returns {Login | null} */
export function login() {
  const stored = window.sessionStorage.getItem(KEY);
  return stored === null ? null : JSON.parse(stored);
}

/** @param {Login | null} value null: log out */
export function setLogin(value) {
  if (value === null) window.sessionStorage.removeItem(KEY);
  else window.sessionStorage.setItem(KEY, JSON.stringify(value));
}

/**
 * @param {string} user
 * @param {string} password
 * @returns {Login}
 */
export function basic(user, password) {
  // RFC 7617: as UTF-8, which btoa does not take.
  const text = String.fromCharCode(...new TextEncoder().encode(`${user}:${password}`));
  return { authorization: `Basic ${window.btoa(text)}`, name: user };
}

/**
 * @param {string} token
 * @returns {Login}
 */
export function bearer(token) {
  return { authorization: `Bearer ${token}`, name: "token" };
}
