/** The login: with a token, or with a user and password of Kafka. */

import { h, replace } from "./dom.js";
import { basic, bearer, setLogin } from "./session.js";
import { state } from "./store.js";

/**
 * @param {HTMLElement} root
 * @param {() => void} tryAgain
 * @returns {() => void}
 */
export function loginForm(root, tryAgain) {
  const methods = state.caller?.methods ?? ["basic", "bearer"];
  const error = h("p", { class: "error", role: "alert" }, state.loginError ?? "");
  /** @param {string} label @param {string} name @param {string} type @param {string} complete */
  const field = (label, name, type, complete) => h("div", { class: "field" }, h("label", { for: name }, label),
    h("input", { id: name, name, type, autocomplete: complete, spellcheck: "false" }));
  /** @param {HTMLElement} form @param {string} name */
  const valueOf = (form, name) => /** @type {HTMLInputElement} */ (form.querySelector(`[name=${name}]`)).value;
  /** @param {import("./session.js").Login | string} found */
  const enter = (found) => {
    if (typeof found === "string") {
      replace(error, found);
      return;
    }
    setLogin(found);
    state.loginError = null;
    // Only one request has the new login until it is known to be right: wrong ones are counted.
    state.verified = false;
    state.setConnection("connecting");
    replace(root, h("p", { class: "muted", role: "status" }, "Logging in"));
    tryAgain();
  };
  const password = h("form", { class: "login", novalidate: true, onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    const [user, secret] = [valueOf(password, "username"), valueOf(password, "password")];
    enter(user === "" || secret === "" ? "User and password are needed." : basic(user, secret));
  } }, field("User of Kafka", "username", "text", "username"), field("Password", "password", "password", "current-password"),
  h("button", { class: "primary" }, "Log in"));
  const token = h("form", { class: "login", novalidate: true, onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    const given = valueOf(token, "token").trim();
    enter(/^[!-~]+$/.test(given) ? bearer(given) : "A token is needed, without blanks.");
  } }, field("Token", "token", "password", "off"), h("button", { class: methods.includes("basic") ? "" : "primary" }, "Log in with a token"));
  replace(root, h("section", { class: "panel login-panel", "aria-label": "Log in" }, h("h1", {}, "Log in"), error,
    methods.includes("basic") ? password : null,
    methods.includes("bearer") ? token : null,
    methods.includes("certificate") ? h("p", { class: "muted" }, "Or let the browser show a client certificate, and load the page again.") : null,
    h("p", { class: "muted" }, "The login is kept in this tab, until it is closed.")));
  root.querySelector("input")?.focus();
  return () => {};
}
