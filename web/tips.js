'use strict';
// Hover texts of every picture (the <title> of a shape), shown at once instead of after the browser's delay, and
// what the other scripts share: all scripts of a page are one. Listens on the document: pictures may come and go.

const tip = document.createElement('div');
tip.className = 'tip';
tip.setAttribute('role', 'tooltip');
tip.hidden = true;
document.body.append(tip);

/**
 * @param {string} text
 * @param {{clientX: number, clientY: number}} at
 */
function showTip(text, at) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(at.clientX + 14, innerWidth - box.width - 4)) + 'px';
  const below = at.clientY + 18;
  tip.style.top = (below + box.height < innerHeight ? below : Math.max(4, at.clientY - box.height - 12)) + 'px';
}

function hideTip() {
  tip.hidden = true;
}

/**
 * The first element below `root` that fits; it has to be there.
 * @param {ParentNode} root
 * @param {string} selector
 * @returns {HTMLElement}
 */
function part(root, selector) {
  const found = root.querySelector(selector);
  if (!found) throw new Error('no ' + selector);
  return /** @type {HTMLElement} */ (found);
}

document.addEventListener('pointerover', event => {
  const shape = event.target instanceof SVGElement ? event.target : null;
  const title = shape && shape.querySelector(':scope > title');
  if (shape && title) {
    // Out of the way, or the browser would show it as well.
    shape.dataset.tip = title.textContent || '';
    title.remove();
  }
  if (shape && shape.dataset.tip) showTip(shape.dataset.tip, event);
  else hideTip();
});
document.addEventListener('keydown', event => { if (event.key === 'Escape') hideTip(); });
addEventListener('scroll', hideTip, {capture: true, passive: true});
