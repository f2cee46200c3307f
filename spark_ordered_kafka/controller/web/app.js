/** The page: navigation, what is known of the connection, login, and the view of the address. */

import { audit } from "./audit.js";
import { brokers } from "./brokers.js";
import { controllers } from "./controllers.js";
import { byId, h, replace } from "./dom.js";
import { follow, retry } from "./events.js";
import { group, groups } from "./groups.js";
import { healing } from "./healing.js";
import { loginForm } from "./login.js";
import { overview } from "./overview.js";
import { leaderLink } from "./parts.js";
import { reassignment, reassignments } from "./reassignments.js";
import { reviews } from "./reviews.js";
import { login, setLogin } from "./session.js";
import { state } from "./store.js";
import { topic } from "./topic.js";
import { topics } from "./topics.js";

/**
 * A view fills an element, and returns what ends it.
 * @typedef {(root: HTMLElement, name: string) => () => void} View
 */

/** @type {[string, string, View, View | null][]} address, title, view, view of one of them */
const VIEWS = [
  ["", "Overview", overview, null],
  ["topics", "Topics", topics, topic],
  ["reassignments", "Reassignments", reassignments, reassignment],
  ["brokers", "Brokers", brokers, null],
  ["groups", "Groups", groups, group],
  ["controllers", "Controllers", controllers, null],
  ["healing", "Healing", healing, null],
  ["reviews", "Reviews", reviews, null],
  ["audit", "Audit log", audit, null],
];

const ANONYMOUS = "User:ANONYMOUS";
let end = () => {};
/** @type {string | null} The address that is shown. */
let shown = null;

function show() {
  // Before it is known who asks, requests of a view would be refused.
  if (!state.verified && state.connection === "connecting") return;
  const asked = window.location.hash.replace(/^#\/?/, "");
  const needsLogin = state.connection === "login";
  const address = needsLogin ? "login" : asked;
  if (address === shown && !needsLogin) return;
  const moved = shown !== null && shown !== "login";
  shown = address;
  end();
  const main = byId("main");
  replace(main);
  if (needsLogin) {
    end = loginForm(main, () => { shown = null; void follow(); });
    document.title = "Log in – ordered-kafka";
    return;
  }
  const [first, ...rest] = asked.split("/");
  const found = VIEWS.find(([name]) => name === first) ?? VIEWS[0];
  let name = "";
  try {
    name = decodeURIComponent(rest.join("/"));
  } catch {
    // Not an address that this page makes: the list is shown.
  }
  const view = name !== "" && found[3] !== null ? found[3] : found[2];
  end = view(main, name);
  document.title = `${name === "" ? found[1] : name} – ordered-kafka`;
  for (const link of byId("views").querySelectorAll("a")) {
    if (link.dataset.view === found[0]) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (moved) {
    window.scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
}

function showConnection() {
  const texts = {
    connecting: "connecting", online: "live", offline: "offline", refused: "not permitted", login: "not logged in",
  };
  const place = byId("connection");
  place.className = state.connection === "login" ? "connection" : `connection ${state.connection}`;
  place.textContent = texts[state.connection];
  document.body.classList.toggle("stale", state.connection === "offline");
  byId("views").hidden = state.connection === "login";
  const banner = byId("banner");
  if (state.connection === "offline") {
    replace(banner, h("p", { class: "banner bad" },
      `Offline: ${state.unavailable ?? "the controller does not answer."} What is shown may be old. Trying again. `,
      h("button", { type: "button", onclick: retry, "data-key": "retry" }, "Try now")));
  } else if (state.connection === "refused") {
    replace(banner, h("p", { class: "banner bad" },
      `Not permitted: ${state.unavailable}, nor on the cluster: one of them is needed. `,
      h("button", { type: "button", onclick: retry, "data-key": "retry" }, "Try again")));
  } else if (state.unavailable !== null && state.connection === "online") {
    replace(banner, h("p", { class: "banner bad" }, `The controller cannot read its state: ${state.unavailable}`));
  } else if (state.connection === "online" && state.controller !== null && !state.leads) {
    const { leader } = state.controller;
    replace(banner, h("p", { class: "banner" }, leader === null
      ? "No controller leads at the moment: nothing can be changed."
      : ["This controller follows. Changes are made on the page of the leader: ", leaderLink(leader)]));
  } else replace(banner);
  if (state.connection === "login" || shown === "login") show();
}

function showCaller() {
  const { caller } = state;
  replace(byId("caller"), caller === null || caller.principal === ANONYMOUS && caller.authentication_required ? null : [
    h("span", { title: caller.principal }, caller.principal === ANONYMOUS ? "anonymous" : caller.principal.replace(/^User:/, "")),
    login() === null ? null : h("button", {
      type: "button",
      class: "plain",
      onclick: () => { setLogin(null); window.location.reload(); },
    }, "Log out"),
  ]);
  if (caller !== null && caller.authentication_required && caller.principal === ANONYMOUS) {
    state.setConnection("login");
  } else show();
}

replace(byId("views"), VIEWS.map(([name, title]) => h("a", { href: `#/${name}`, "data-view": name }, title, name === "reviews"
  ? h("span", { class: "pending", id: "pending" }) : null)));
byId("skip").addEventListener("click", (event) => { event.preventDefault(); byId("main").focus(); });
state.listen(["connection", "controller"], showConnection);
state.listen(["caller"], showCaller);
state.listen(["reviews"], () => {
  const pending = (state.reviews ?? []).filter((one) => one.status === "pending").length;
  byId("pending").textContent = pending === 0 ? "" : String(pending);
});
window.addEventListener("hashchange", show);
void follow();
