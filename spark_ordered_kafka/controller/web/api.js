/** Requests to the HTTP API of the controller that serves this page (docs/http-api.md). */

import { login, setLogin } from "./session.js";
import { state } from "./store.js";

/** An answer that is an error, with the API's own name and message for it. */
export class ApiError extends Error {
  /**
   * @param {number} status of HTTP; 0: no answer
   * @param {string} error such as INVALID_PARTITIONS
   * @param {string} message
   */
  constructor(status, error, message) {
    super(message);
    this.status = status;
    this.error = error;
  }
}

/**
 * @typedef {object} Options
 * @property {Record<string, string | number | boolean | string[] | undefined>} [query]
 * @property {unknown} [body]
 * @property {string} [key] an idempotency key: the same request with the same key is done once
 * @property {AbortSignal} [signal]
 */

/** Whether connections need a client certificate even with a login. */
let needsCertificate = false;

/**
 * @param {string} method
 * @param {string} path relative, such as `v1/topics`
 * @param {Options} [options]
 * @returns {Promise<Response>} whatever its status is, but no redirect
 */
export async function send(method, path, options = {}) {
  /** @type {Record<string, string>} */
  const headers = {};
  const own = login();
  if (own !== null) headers.Authorization = own.authorization;
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  if (options.key !== undefined) headers["Idempotency-Key"] = options.key;
  /** @param {RequestCredentials} credentials */
  const ask = (credentials) => fetch(path + search(options.query), {
    method,
    headers,
    body: options.body === undefined ? undefined : JSON.stringify(options.body),
    signal: options.signal,
    credentials,
    // To the leader: another origin, which is not given the login.
    redirect: "manual",
    cache: "no-store",
  });
  let answer;
  try {
    // With `omit` the browser shows no client certificate, but with anything else it asks for a password itself after a 401.
    answer = await ask(own === null || needsCertificate ? "same-origin" : "omit");
  } catch (error) {
    if (options.signal?.aborted) throw error;
    // Where a certificate is required besides a login, no connection comes about without it. Reads are sent again.
    needsCertificate = method === "GET" && own !== null && !needsCertificate && state.caller?.methods.includes("certificate") === true;
    answer = needsCertificate ? await ask("same-origin").catch(() => null) : null;
    if (answer === null) {
      needsCertificate = false;
      throw new ApiError(0, "UNREACHABLE", "The controller does not answer. Nothing is known about what was sent.");
    }
  }
  if (answer.type === "opaqueredirect") {
    throw new ApiError(307, "NOT_CONTROLLER", "Nothing was done: another controller leads. Open its page.");
  }
  return answer;
}

/**
 * The JSON of an answer.
 * @param {string} method
 * @param {string} path
 * @param {Options} [options]
 * @returns {Promise<any>}
 */
export async function request(method, path, options = {}) {
  const answer = await send(method, path, options);
  if (!answer.ok) throw await refusal(answer);
  return answer.json();
}

/**
 * @param {string} path
 * @param {Options["query"]} [query]
 * @param {AbortSignal} [signal]
 */
export function get(path, query, signal) {
  return request("GET", path, { query, signal });
}

/**
 * The error in an answer.
 * @param {Response} answer
 */
export async function refusal(answer) {
  const result = await answer.json().catch(() => null);
  const message = result?.error_message ?? `The controller answered ${answer.status}.`;
  if (answer.status === 401) {
    setLogin(null);
    state.loginNeeded(message);
  }
  return new ApiError(answer.status, result?.error ?? "UNKNOWN", message);
}

/**
 * Raises the errors in an answer that has a result per topic, partition or replica.
 * @param {any} answer
 * @returns {any} the answer
 */
export function checked(answer) {
  const rows = answer.topics ?? answer.partitions ?? answer.replicas ?? [answer];
  const failed = rows.filter((/** @type {any} */ row) => row.error_code);
  if (failed.length === 0) return answer;
  const texts = failed.slice(0, 5).map((/** @type {any} */ row) => {
    const where = row.partition === undefined ? "" : `${row.topic}-${row.partition}: `;
    return `${where}${row.error_message ?? row.error}`;
  });
  if (failed.length > 5) texts.push(`and ${failed.length - 5} more`);
  throw new ApiError(400, failed[0].error, texts.join("; "));
}

/** A key by which controllers recognise a request that is sent again. */
export function newKey() {
  // crypto.randomUUID needs TLS, except on this machine.
  return [...crypto.getRandomValues(new Uint8Array(16))].map((one) => one.toString(16).padStart(2, "0")).join("");
}

/**
 * A name as a part of a path. A name of dots would be taken for a step in the path.
 * @param {string} name
 */
export function segment(name) {
  return encodeURIComponent(name).replaceAll(".", "%2E");
}

/** @param {Options["query"]} query */
function search(query) {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== "") pairs.append(name, String(value));
  }
  const text = pairs.toString();
  return text === "" ? "" : `?${text}`;
}
