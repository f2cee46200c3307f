/**
 * What the page knows, kept by the stream of events; views listen to the parts that they show.
 *
 * @typedef {"connection" | "caller" | "controller" | "controllers" | "topics" | "reassignments" | "reviews"} Part
 * @typedef {{ principal: string, authentication_required: boolean, methods: string[], reason_required: boolean,
 *   review_required: boolean }} Caller
 */

class State {
  /** @type {Caller | null} */
  caller = null;
  /** @type {"connecting" | "online" | "offline" | "refused" | "login"} */
  connection = "connecting";
  /** Why the controller knows nothing at the moment. @type {string | null} */
  unavailable = null;
  /** @type {{ role: string | null, leader: string | null, epoch: number | null } | null} */
  controller = null;
  /** @type {any | null} null: not permitted, or not known yet */
  controllers = null;
  /** @type {Map<string, any> | null} */
  topics = null;
  /** @type {any[] | null} */
  reassignments = null;
  /** @type {any[] | null} */
  reviews = null;
  /** Whether it is known that the caller is who it says. */
  verified = false;
  /** Why the last login was not accepted. @type {string | null} */
  loginError = null;

  /** @type {Map<Part, Set<() => void>>} */
  #listeners = new Map();

  /**
   * Calls `listener` after changes of the parts; returns what ends that.
   * @param {Part[]} names
   * @param {() => void} listener
   * @returns {() => void}
   */
  listen(names, listener) {
    for (const name of names) {
      const known = this.#listeners.get(name) ?? new Set();
      this.#listeners.set(name, known.add(listener));
    }
    return () => names.forEach((name) => this.#listeners.get(name)?.delete(listener));
  }

  /** @param {Part} part */
  changed(part) {
    for (const listener of [...(this.#listeners.get(part) ?? [])]) listener();
  }

  /** @param {string} message */
  loginNeeded(message) {
    this.loginError = message;
    this.setConnection("login");
  }

  /** @param {State["connection"]} connection */
  setConnection(connection) {
    this.connection = connection;
    this.changed("connection");
  }

  /** Whether changes can be made from this page: the controller that serves it leads. */
  get leads() {
    return this.controller?.role === "leader";
  }
}

export const state = new State();
