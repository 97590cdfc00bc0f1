'use strict';
// Renewing what a page shows.

/** @param {Node | null} node */
const keyOf = node => node instanceof Element ? node.getAttribute('data-key') : null;

/**
 * Makes the children of `target` like `wanted`, and leaves those in place that are alike already: focus, selections and
 * scrolled tables stay. Elements with a `data-key` are told by it, so that others may come and go before them. Those with
 * `data-kept` belong to somebody else and are only moved. Listeners are those of the first element of its kind: they have
 * to look at the page, not at what they were made for.
 * @param {Element} target
 * @param {(Node | string)[]} wanted
 */
function renew(target, wanted) {
  const keys = new Set(wanted.map(node => typeof node === 'string' ? null : keyOf(node)));
  let there = target.firstChild;
  for (const node of wanted) {
    const fresh = typeof node === 'string' ? document.createTextNode(node) : node;
    // What has this key is there already, if nothing but what goes or has no key stands before it.
    let found = keyOf(fresh) ? there : null;
    while (found && !(keyOf(found) && keys.has(keyOf(found)))) found = found.nextSibling;
    if (found && keyOf(found) === keyOf(fresh)) {
      removeBetween(there, found);
      there = found;
    }
    if (there === fresh || (there && renewOne(there, fresh))) {
      there = there.nextSibling;
    } else if (there && !(keyOf(there) && keys.has(keyOf(there)))) {
      const next = there.nextSibling;
      there.replaceWith(fresh);
      there = next;
    } else {
      target.insertBefore(fresh, there);  // what is there is wanted later
    }
  }
  removeBetween(there, null);
}

/**
 * Removes an element's children from the first one up to, but without, the second.
 * @param {ChildNode | null} from
 * @param {ChildNode | null} until
 */
function removeBetween(from, until) {
  while (from && from !== until) {
    const gone = from;
    from = from.nextSibling;
    gone.remove();
  }
}

/**
 * @param {Node} there
 * @param {Node} fresh
 * @returns {boolean} whether `there` could be made like `fresh`
 */
function renewOne(there, fresh) {
  if (there instanceof Text && fresh instanceof Text) {
    if (there.data !== fresh.data) there.data = fresh.data;
    return true;
  }
  if (!(there instanceof Element) || !(fresh instanceof Element) || there.tagName !== fresh.tagName) return false;
  if (keyOf(there) !== keyOf(fresh)) return false;
  if (there.hasAttribute('data-kept') || fresh.hasAttribute('data-kept')) return false;
  for (const name of there.getAttributeNames()) if (!fresh.hasAttribute(name)) there.removeAttribute(name);
  for (const {name, value} of fresh.attributes) {
    if (there.getAttribute(name) !== value) there.setAttribute(name, value);
  }
  // Once somebody has moved it, a slider no longer follows its attribute.
  if (there instanceof HTMLInputElement && fresh instanceof HTMLInputElement && there.value !== fresh.value) {
    there.value = fresh.value;
  }
  renew(there, [...fresh.childNodes]);
  return true;
}
