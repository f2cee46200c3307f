/**
 * The stream of events (`GET /v1/events`). It is read by fetch, since EventSource cannot send an Authorization header.
 * A stream that ends or falls silent is opened again, after longer and longer pauses while nothing answers.
 */

import { ApiError, get, refusal, send } from "./api.js";
import { state } from "./store.js";

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 10_000;
/** Milliseconds without a byte after which a stream counts as dead; the controller sends one every ten seconds. */
const SILENCE = 25_000;

/** @type {AbortController | null} */
let stream = null;
/** Ends the pause before the next attempt. @type {() => void} */
let wake = () => {};
let running = false;

/** Follow the controller for as long as the page is open; after a login, with the new credentials. */
export async function follow() {
  stream?.abort();
  wake();
  if (running) return;
  running = true;
  let pause = FIRST_PAUSE;
  window.addEventListener("online", () => wake());
  for (;;) {
    const began = Date.now();
    try {
      state.caller = await get("v1/caller");
      state.verified = true;
      state.changed("caller");
      if (state.connection !== "login") await read();
    } catch (error) {
      // After credentials that were not accepted: the form needs to know the methods.
      if (state.connection === "login" && state.caller === null) continue;
      state.unavailable = error instanceof ApiError && error.status !== 0 ? error.message : null;
      const isRefused = error instanceof ApiError && error.status === 403;
      if (state.connection !== "login") state.setConnection(isRefused ? "refused" : "offline");
    }
    if (state.connection === "login") {
      await new Promise((resolve) => { wake = () => resolve(undefined); });
      continue;
    }
    const lasted = Date.now() - began;
    if (lasted > LONGEST_PAUSE) pause = FIRST_PAUSE;
    // A stream that has come to its regular end is opened again at once.
    if (state.connection !== "online" || lasted < FIRST_PAUSE) {
      const wait = pause * (0.5 + Math.random() / 2);
      await new Promise((resolve) => {
        const timer = window.setTimeout(resolve, wait);
        wake = () => { window.clearTimeout(timer); resolve(undefined); };
      });
      pause = Math.min(2 * pause, LONGEST_PAUSE);
    }
  }
}

/** Try again at once. */
export function retry() {
  wake();
}

/** Reads one stream to its end; raises the error that broke it. */
async function read() {
  stream = new AbortController();
  const { signal } = stream;
  const end = stream;
  let watchdog = window.setTimeout(() => end.abort(), SILENCE);
  try {
    const answer = await send("GET", "v1/events", { signal });
    if (!answer.ok || answer.body === null) throw await refusal(answer);
    const parser = new Parser();
    const decoder = new TextDecoder();
    const reader = answer.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      window.clearTimeout(watchdog);
      watchdog = window.setTimeout(() => end.abort(), SILENCE);
      for (const { name, data } of parser.add(decoder.decode(value, { stream: true }))) take(name, data);
      if (state.connection !== "online" && parser.sawEvent) state.setConnection("online");
    }
  } finally {
    window.clearTimeout(watchdog);
    first = true;
  }
}

/** Whether the next `topics` event has all topics. */
let first = true;

/**
 * @param {string} name
 * @param {any} data
 */
function take(name, data) {
  if (name === "unavailable") {
    state.unavailable = data.error_message ?? data.error;
    state.changed("connection");
    return;
  }
  if (state.unavailable !== null) {
    state.unavailable = null;
    state.changed("connection");
  }
  if (name === "controller") state.controller = data;
  else if (name === "controllers") state.controllers = data;
  else if (name === "reassignments") state.reassignments = data.requests;
  else if (name === "reviews") state.reviews = data.reviews;
  else if (name === "topics") {
    const topics = first || state.topics === null ? new Map() : state.topics;
    for (const row of data.topics) topics.set(row.topic, row);
    for (const topic of data.removed) topics.delete(topic);
    state.topics = topics;
    first = false;
  } else return; // of a newer controller
  state.changed(name);
}

/** Divides a stream into events (HTML, section 9.2.6), as far as the controller writes them. */
class Parser {
  #rest = "";
  sawEvent = false;

  /**
   * @param {string} text
   * @returns {{ name: string, data: any }[]} the events that are complete now
   */
  add(text) {
    this.#rest += text;
    const blocks = this.#rest.split("\n\n");
    this.#rest = blocks.pop() ?? "";
    const found = [];
    for (const block of blocks) {
      let name = "message";
      let data = "";
      for (const line of block.split("\n")) {
        if (line.startsWith("event: ")) name = line.slice(7);
        else if (line.startsWith("data: ")) data += line.slice(6);
      }
      if (data !== "") {
        this.sawEvent = true;
        found.push({ name, data: JSON.parse(data) });
      }
    }
    return found;
  }
}
