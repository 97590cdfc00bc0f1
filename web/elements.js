'use strict';
// Making elements. Texts become text, never markup, wherever they come from.

/** @typedef {Node | string | number | null | undefined | false} Content */

/**
 * An element with attributes, with listeners (names that begin with "on") and with contents.
 * @param {string} name
 * @param {Record<string, string | number | boolean | null | undefined | ((event: Event) => void)>} attributes
 * @param {...(Content | Content[])} contents
 * @returns {HTMLElement}
 */
function make(name, attributes = {}, ...contents) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, '');
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, String(value));
  }
  for (const one of contents.flat()) {
    if (one !== null && one !== undefined && one !== false) element.append(one instanceof Node ? one : String(one));
  }
  return element;
}
