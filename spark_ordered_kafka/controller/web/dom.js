/**
 * Elements without HTML strings: data becomes text nodes and attributes, so a name with markup in it is shown as it is.
 * @typedef {Node | string | number | null | undefined | false} Child
 */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element. Properties whose names begin with `on` are listeners, `style` sets single properties (which the content
 * security policy allows), a value of true is an attribute without a value, and null or false leaves it out.
 * @param {string} tag
 * @param {Record<string, any>} [properties]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  fill(element, properties, children);
  return element;
}

/**
 * An element of SVG; as {@link h}.
 * @param {string} tag
 * @param {Record<string, any>} [properties]
 * @param {...(Child | Child[])} children
 * @returns {SVGElement}
 */
export function svg(tag, properties = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  fill(element, properties, children);
  return element;
}

/**
 * @param {Element} element
 * @param {Record<string, any>} properties
 * @param {(Child | Child[])[]} children
 */
function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") {
      for (const [property, one] of Object.entries(value)) {
        /** @type {HTMLElement} */ (element).style.setProperty(property, String(one));
      }
    } else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
}

/**
 * Adds children; strings become text.
 * @param {Element} element
 * @param {(Child | Child[])[]} children
 */
export function append(element, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** @type {Node | null} What a pointer has been pressed on and not let go: its click is lost if it is replaced meanwhile. */
let pressed = null;
/** @type {Map<Element, (Child | Child[])[]>} What is to be shown once the pointer is let go. */
const later = new Map();

document.addEventListener("pointerdown", (event) => { pressed = /** @type {Node} */ (event.target); }, true);
for (const end of ["pointerup", "pointercancel", "blur"]) window.addEventListener(end, letGo);

function letGo() {
  pressed = null;
  // The click comes before that, and may show something else.
  window.setTimeout(() => {
    const waiting = [...later];
    later.clear();
    for (const [element, children] of waiting) if (element.isConnected) replace(element, ...children);
  });
}

/**
 * Replaces the content of an element. The focus stays on the element with the same `data-key`, if there still is one.
 * While a pointer is pressed on a part of it, that waits.
 * @param {Element} element
 * @param {...(Child | Child[])} children
 */
export function replace(element, ...children) {
  if (pressed !== null && pressed !== element && element.contains(pressed)) {
    later.set(element, children);
    return;
  }
  later.delete(element);
  const focused = document.activeElement;
  const key = focused instanceof HTMLElement && element.contains(focused) ? focused.dataset.key : undefined;
  element.replaceChildren();
  append(element, children);
  if (key !== undefined) {
    const again = [...element.querySelectorAll("[data-key]")].find(
      (one) => one instanceof HTMLElement && one.dataset.key === key,
    );
    if (again instanceof HTMLElement) again.focus({ preventScroll: true });
  }
}

/**
 * The element with this id, which index.html has.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`no element ${id}`);
  return found;
}

/**
 * Shows a message for a few seconds; screen readers read it out.
 * @param {string} text
 */
export function toast(text) {
  const place = byId("toast");
  place.textContent = text;
  place.classList.add("shown");
  window.setTimeout(() => {
    if (place.textContent === text) {
      place.classList.remove("shown");
      place.textContent = "";
    }
  }, 6000);
}
