'use strict';
// <plan-timeline>: the timelines of a report, from the plans in it (src/report/timeline_view.cpp). A click on a picture
// of the frontier shows the plan of the point that is nearest.

class PlanTimeline extends HTMLElement {
  connectedCallback() {
    this.timelines = new Timelines(this.dataset.waiting);
    this.picker = new PlanPicker(this.timelines, () => this.mark());
    this.listening = new AbortController();
    this.show(this.picker);
    document.addEventListener('click', event => this.pickNear(event), {signal: this.listening.signal});
  }

  /** @param {PlanPicker} picker */
  async show(picker) {
    const set = await unpackedSet(part(this, 'script').textContent || '');
    part(this, '.shown').replaceChildren(picker.element, picker.timelines.element);
    picker.show(set);
  }

  disconnectedCallback() {
    this.timelines?.close();
    this.listening?.abort();
  }

  /** @param {MouseEvent} event */
  pickNear(event) {
    const area = event.target instanceof Element && event.target.closest('svg')?.querySelector('.frontier-area > rect');
    if (!(area instanceof SVGElement)) return;
    const box = area.getBoundingClientRect();
    this.picker?.pickNearest(point => {
      const [x, y] = shareOf(area, point);
      return Math.hypot(box.left + x * box.width - event.clientX, box.top + y * box.height - event.clientY);
    });
  }

  // Marks the plan that is shown in every picture of the frontier.
  mark() {
    for (const old of this.rings || []) old.remove();
    /** @type {SVGElement[]} */
    this.rings = [];
    const {picker} = this;
    if (!picker?.shown || picker.point === null) return;
    for (const area of document.querySelectorAll('.frontier-area > rect')) {
      const [x, y] = shareOf(/** @type {SVGElement} */ (area), picker.shown);
      if (x < 0 || x > 1 || y < 0 || y > 1) continue;
      const ring = document.createElementNS('http://www.w3.org/2000/svg', 'circle');
      const place = (/** @type {string} */ from, /** @type {string} */ size, /** @type {number} */ share) =>
        String(Number(area.getAttribute(from)) + share * Number(area.getAttribute(size)));
      for (const [name, value] of Object.entries({class: 'picked', r: '8', cx: place('x', 'width', x),
        cy: place('y', 'height', y)})) ring.setAttribute(name, value);
      area.parentElement?.append(ring);
      this.rings.push(ring);
    }
  }
}

/**
 * Where a point lies in a picture's area: shares of its width and height.
 * @param {SVGElement} area
 * @param {PlanPoint} point
 * @returns {[number, number]}
 */
function shareOf(area, {time_s: time, energy_j: energy}) {
  const {times, energies} = /** @type {SVGElement} */ (area.parentElement || area).dataset;
  const [first, last] = (times || '').split(' ').map(Number);
  const [least, most] = (energies || '').split(' ').map(Number);
  return [(time - first) / (last - first), (most - energy) / (most - least)];
}

customElements.define('plan-timeline', PlanTimeline);
