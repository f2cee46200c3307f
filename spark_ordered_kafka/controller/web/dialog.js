/**
 * The dialog of every change: fields, a preview that the controller has checked, and only then a button that does it.
 *
 * @typedef {object} Field
 * @property {string} name
 * @property {string} label
 * @property {string} [hint]
 * @property {string} [value]
 * @property {"text" | "number" | "lines"} [type]
 * @property {[string, string][]} [choices] value and text
 * @property {Promise<string[]>} [suggestions] what may be chosen, besides any other text
 * @property {boolean} [wide] as wide as the dialog
 * @property {boolean} [optional]
 * @property {string[]} [api] how the messages of errors of the API name it
 * @property {string[]} [codes] errors of the API that are about it
 * @property {(text: string) => string | null} [check] what is wrong with it, as the API would say
 * @property {(values: Record<string, string>) => boolean} [when] whether it is shown
 *
 * @typedef {object} Action
 * @property {string} title
 * @property {import("./dom.js").Child} [intro]
 * @property {Field[]} [fields]
 * @property {() => Promise<unknown>} [basis] the state that the form was filled in for, as it is now: after a change of it nothing is done
 * @property {unknown} [filled] what the form is filled in with, in the form of `basis`: what a view shows may be old. Without it, the state
 *   as the form opens
 * @property {string} [previewLabel]
 * @property {(values: Record<string, string>) => Promise<Node>} preview checks with the controller, and shows the outcome
 * @property {string} confirm text of the button; empty: there is nothing to do
 * @property {boolean} [danger]
 * @property {boolean} [reviewed] false: it is done without a review even where changes need one
 * @property {(values: Record<string, string>, sent: { query: Record<string, string>, key: string }) => Promise<any>} act
 * @property {(answer: any) => string} done what to say afterwards
 * @property {() => string} [leave] the view to open afterwards, where the present one shows what is gone then
 */

import { ApiError, newKey } from "./api.js";
import { h, replace, toast } from "./dom.js";
import { badge, leaderLink } from "./parts.js";
import { state } from "./store.js";

const MAX_REASON = 1000;
let dialogs = 0;

/** @param {Action} action */
export function open(action) {
  dialogs += 1;
  const own = `dialog-${dialogs}`;
  const reason = {
    name: "reason",
    label: state.caller?.reason_required ? "Reason" : "Reason (optional)",
    hint: "One line for the audit log.",
    optional: !state.caller?.reason_required,
    api: ["reason"],
    check: (/** @type {string} */ text) => text.length > MAX_REASON ? `at most ${MAX_REASON} characters` : null,
  };
  const fields = [...(action.fields ?? [])].map((field, index) => new Input(field, `${own}-${index}`));
  const why = new Input(reason, `${own}-reason`);
  const preview = h("div", { class: "preview", "aria-live": "polite" });
  const general = h("p", { class: "error", role: "alert" });
  const check = /** @type {HTMLButtonElement} */ (h("button", { type: "submit" }, action.previewLabel ?? "Preview"));
  const confirm = /** @type {HTMLButtonElement} */ (h("button", { type: "button", class: action.danger ? "primary danger" : "primary", hidden: action.confirm === "" }, action.confirm));
  const cancel = h("button", { type: "button", onclick: () => dialog.close() }, "Close");
  const form = h("form", { novalidate: true }, fields.map((field) => field.element),
    h("div", { class: "buttons", hidden: fields.length === 0 }, check));
  const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { "aria-labelledby": `${own}-title` },
    h("h2", { id: `${own}-title` }, action.title),
    action.intro === undefined ? null : h("p", {}, action.intro),
    form, general, preview,
    h("div", { class: "confirm", hidden: true }, why.element,
      state.caller?.review_required && action.reviewed !== false ? h("p", { class: "note" }, badge("review", "warn"), " A second principal must approve this before it is done.") : null),
    h("div", { class: "buttons end" }, cancel, confirm)));
  const confirming = /** @type {HTMLElement} */ (dialog.querySelector(".confirm"));
  /** @type {string | null} What was previewed: another input needs another preview. */
  let previewed = null;
  let key = newKey();
  let attempt = 0;
  let sent = false;
  /** What the form was filled in for. @type {Promise<string> | null} */
  let basis = action.filled === undefined ? null : Promise.resolve(JSON.stringify(action.filled));
  const readBasis = async () => JSON.stringify(await action.basis?.());
  const checkBasis = async () => {
    basis ??= readBasis();
    // Of a reading that failed nothing is kept.
    basis.catch(() => { basis = null; });
    const [then, now] = await Promise.all([basis, readBasis()]);
    if (then !== now) {
      throw new ApiError(409, "STALE", "Not sent: what this is about has changed since the form was opened. Close it, look at the present "
        + "state, and open it again.");
    }
  };

  const values = () => Object.fromEntries(fields.map((field) => [field.field.name, field.value]));
  const showFields = () => fields.forEach((field) => field.show(values()));
  const allow = () => {
    const ready = previewed === JSON.stringify(values());
    confirm.disabled = !ready;
    confirming.hidden = !ready || action.confirm === "";
    if (!ready && previewed !== null) {
      previewed = null;
      replace(preview);
    }
  };
  /** @param {unknown} error @param {Input[]} among */
  const fail = (error, among) => {
    if (!(error instanceof ApiError)) throw error;
    const named = among.filter((field) => !field.element.hidden && field.isNamedBy(error));
    for (const field of named) field.complain(error.message);
    const leader = error.error === "NOT_CONTROLLER" ? state.controller?.leader ?? null : null;
    replace(general, named.length === 0 ? error.message : null, leader === null ? null : [" ", leaderLink(leader)]);
    named[0]?.control.focus();
  };
  const clear = () => {
    general.textContent = "";
    [...fields, why].forEach((field) => field.complain(null));
  };

  const look = async () => {
    clear();
    const shown = fields.filter((field) => !field.element.hidden);
    const wrong = shown.filter((field) => field.complain(field.mistake()));
    if (wrong.length > 0) {
      wrong[0].control.focus();
      return;
    }
    const given = values();
    attempt += 1;
    const mine = attempt;
    replace(preview, h("p", { class: "muted" }, "The controller checks this"));
    check.disabled = true;
    try {
      await checkBasis();
      const node = await action.preview(given);
      if (mine !== attempt) return;
      replace(preview, node);
      previewed = JSON.stringify(given);
      key = newKey();
      sent = false;
      allow();
      if (fields.length > 0) confirm.focus();
    } catch (error) {
      replace(preview);
      fail(error, fields);
    } finally {
      check.disabled = false;
    }
  };

  form.addEventListener("submit", (event) => { event.preventDefault(); void look(); });
  form.addEventListener("input", () => { attempt += 1; showFields(); allow(); });
  confirm.addEventListener("click", async () => {
    clear();
    if (why.complain(why.mistake())) {
      why.control.focus();
      return;
    }
    confirm.disabled = true;
    try {
      /** @type {Record<string, string>} */
      const query = why.value === "" ? {} : { reason: why.value };
      // What is sent again has the same key, and may have made the difference itself.
      if (!sent) await checkBasis();
      sent = true;
      const answer = await action.act(values(), { query, key });
      dialog.close();
      const waits = answer?.review_id !== undefined;
      if (!waits && action.leave !== undefined) window.location.hash = action.leave();
      toast(waits ? `Review ${answer.review_id} waits for a second principal.` : action.done(answer));
    } catch (error) {
      fail(error, [...fields, why]);
      confirm.disabled = false;
    }
  });
  const opener = document.activeElement;
  dialog.addEventListener("close", () => {
    dialog.remove();
    const same = opener instanceof HTMLElement && opener.isConnected ? opener : drawnAnew(opener);
    same?.focus();
  });
  document.body.append(dialog);
  showFields();
  allow();
  if (action.basis !== undefined && basis === null) {
    basis = readBasis();
    // The preview says what is wrong.
    basis.catch(() => { basis = null; });
  }
  dialog.showModal();
  if (fields.length === 0) void look();
}

/**
 * The element in the place of one that its view has drawn anew meanwhile.
 * @param {Element | null} gone
 * @returns {HTMLElement | null}
 */
function drawnAnew(gone) {
  const key = gone?.getAttribute("data-key") ?? null;
  return key === null ? null : document.querySelector(`main [data-key="${CSS.escape(key)}"]`);
}

/** A field with its label, its hint and the place of its error. */
class Input {
  /** @param {Field} field @param {string} id */
  constructor(field, id) {
    this.field = field;
    const common = { id, name: field.name, "aria-describedby": `${id}-hint ${id}-error`, autocomplete: "off" };
    this.control = control(field, common);
    this.error = h("p", { class: "error", id: `${id}-error` });
    this.element = h("div", { class: field.type === "lines" || field.wide ? "field whole" : "field" }, h("label", { for: id }, field.label), this.control,
      h("p", { class: "hint", id: `${id}-hint` }, field.hint ?? ""), this.error);
    if (field.suggestions !== undefined) void this.suggest(field.suggestions, `${id}-list`);
  }

  /** @param {Promise<string[]>} texts @param {string} id */
  async suggest(texts, id) {
    // Any text may be entered, so without suggestions nothing is lost.
    const known = await texts.catch(() => []);
    this.element.append(h("datalist", { id }, known.map((text) => h("option", { value: text }))));
    this.control.setAttribute("list", id);
  }

  get value() {
    return this.control.value.trim();
  }

  /** @param {Record<string, string>} values */
  show(values) {
    this.element.hidden = this.field.when !== undefined && !this.field.when(values);
  }

  /** What is wrong with the value; null: nothing. */
  mistake() {
    if (this.value === "") return this.field.optional ? null : `${this.field.label} is missing`;
    return this.field.check?.(this.value) ?? null;
  }

  /**
   * Shows an error beside the field, or none; whether there is one.
   * @param {string | null} text
   */
  complain(text) {
    this.error.textContent = text ?? "";
    if (text === null) this.control.removeAttribute("aria-invalid");
    else this.control.setAttribute("aria-invalid", "true");
    return text !== null;
  }

  /** @param {ApiError} error */
  isNamedBy(error) {
    return (this.field.codes ?? []).includes(error.error)
      || (this.field.api ?? []).some((name) => new RegExp(`(^|[^a-z_])${name}([^a-z_]|$)`).test(error.message));
  }
}

/**
 * @param {Field} field
 * @param {Record<string, any>} common properties
 */
function control(field, common) {
  const plain = { ...common, spellcheck: "false" };
  const made = field.choices !== undefined
    ? h("select", common, field.choices.map(([value, text]) => h("option", { value, selected: value === field.value }, text)))
    : field.type === "lines" ? h("textarea", { ...plain, rows: 5 }, field.value ?? "")
      : h("input", { ...plain, type: "text", inputmode: field.type === "number" ? "numeric" : null, value: field.value ?? "" });
  return /** @type {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} */ (made);
}
