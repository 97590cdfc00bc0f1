'use strict';
// What the views of the page are made of.

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
