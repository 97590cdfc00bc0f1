'use strict';
// Renewing what the page shows, and what its views are made of.

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

/** @param {string} title */
const heading = title => make('h2', {'data-key': title}, title);

/**
 * A table that scrolls by itself. A heading is a text, or one with its unit: "Power, W". Columns of texts have '<' before
 * theirs.
 * @param {string} caption for those who do not see the page
 * @param {string[]} headings
 * @param {(Content | Content[])[][]} rows the first cell is the row's heading
 * @param {string} none what is said where there are no rows
 */
function table(caption, headings, rows, none) {
  if (rows.length === 0) return make('p', {class: 'note'}, none);
  const left = (/** @type {number} */ at) => at === 0 || headings[at].startsWith('<') ? 'left' : null;
  const row = (/** @type {(Content | Content[])[]} */ cells) => make('tr', {}, cells.map((cell, at) => make(
    at === 0 ? 'th' : 'td', {scope: at === 0 ? 'row' : null, class: left(at)}, ...(Array.isArray(cell) ? cell : [cell]))));
  return make('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption},
    make('table', {},
      make('thead', {}, make('tr', {}, headings.map((words, at) => {
        const [name, unit] = words.replace(/^</, '').split(', ');
        return make('th', {scope: 'col', class: left(at)}, name, unit ? make('small', {}, unit) : null);
      }))),
      make('tbody', {}, rows.map(row))));
}

/**
 * One figure, large, with its name above and what it means below.
 * @param {string} name
 * @param {Content | Content[]} figure
 * @param {Content | Content[]} more
 * @param {string} state "", "good", "bad"
 */
function tile(name, figure, more = '', state = '') {
  return make('div', {class: 'tile ' + state},
    make('dt', {}, name), make('dd', {}, make('strong', {}, ...[figure].flat())),
    make('dd', {class: 'more'}, ...[more].flat()));
}

/** @param {HTMLElement[]} all */
function tiles(all) {
  return make('dl', {class: 'tiles'}, all);
}
