// <energy-diagram>: walks through nested energy distribution diagrams (src/report/energy_section.cpp), from the model
// down to its tensors, by clicking. Boxes are HTML, laid out by the browser; arrows are SVG between them.

const ENERGY_MOST_PARTS = 30;
const ENERGY_TELLING = .0005;

class EnergyWalk {
  /** @param {HTMLElement} host */
  constructor(host) {
    this.host = host;
    this.parts = energyParts(host);
    this.node = this.addressed();
    this.phase = ENERGY_ALL;
    this.all = false;
    let width = 0;
    new ResizeObserver(() => {
      if (host.clientWidth !== width) this.draw();
      width = host.clientWidth;
    }).observe(host);
  }

  // The part that the page's address names, or the model.
  addressed() {
    const {inside} = this.parts;
    let wanted = '';
    try {
      wanted = decodeURI(location.hash.slice(1));
    } catch {
      // An address that somebody has cut off in the middle of a letter names nothing.
    }
    return wanted ? Math.max(0, inside.findIndex((some, i) => some.length && this.parts.path(i) === wanted)) : 0;
  }

  /** @param {number} i */
  joules(i) {
    return this.parts.joules(i, this.phase);
  }

  /** @param {number} i */
  go(i) {
    this.node = i;
    this.all = false;
    this.draw();
    try {
      history.replaceState(null, '', '#' + encodeURI(this.parts.path(i)));
    } catch {
      // A page without an address of its own has nothing to remember.
    }
  }

  draw() {
    const {names, ranks, inside} = this.parts;
    const {node} = this;
    const box = part(this.host, 'div');
    box.textContent = '';
    const tools = energyElement('div', 'tools');
    const used = this.parts.phases(0);
    for (const p of used.length > 1 ? [ENERGY_ALL, ...used] : []) {
      const button = energyElement('button', '', p === ENERGY_ALL ? 'all' : ENERGY_PHASES[p]);
      button.setAttribute('aria-pressed', String(p === this.phase));
      button.addEventListener('click', () => { this.phase = p; this.draw(); });
      tools.append(button);
    }
    const whole = this.joules(node);
    const model = this.joules(0);
    box.append(tools, this.parts.crumbs(node, k => this.go(k)), energyElement('p', 'what note', energyNumber(whole) +
      '\u00a0J' + (node && model > 0 ? `, ${energyShare(whole, model)} of the model` : '')));

    const shown = inside[node].filter(i => this.joules(i) > 0).sort((a, b) => this.joules(b) - this.joules(a));
    // A box that would say 0.0 % tells nothing.
    const telling = shown.filter(i => this.joules(i) >= ENERGY_TELLING * whole).length || shown.length;
    const rest = this.all ? [] : shown.splice(Math.min(telling, ENERGY_MOST_PARTS));
    const most = shown.length ? this.joules(shown[0]) : 1;
    const field = energyElement('div', 'field');
    /** @type {Map<number, HTMLElement>} */
    const boxes = new Map();
    for (const rank of [...new Set(shown.map(i => ranks[i]))].sort((a, b) => a - b)) {
      const row = energyElement('div', 'rank');
      for (const i of shown.filter(k => ranks[k] === rank)) {
        const one = energyElement(inside[i].length ? 'button' : 'div', 'part');
        one.append(energyName(names[i]), energyElement('b', '', energyShare(this.joules(i), whole)));
        one.style.setProperty('--share', (this.joules(i) / most).toFixed(3));
        one.title = this.parts.title(i) + '\n' + energyNumber(this.joules(i)) + ' J';
        if (inside[i].length) one.addEventListener('click', () => this.go(i));
        row.append(one);
        boxes.set(i, one);
      }
      field.append(row);
    }
    box.append(field);
    if (rest.length) {
      const share = energyShare(rest.reduce((sum, i) => sum + this.joules(i), 0), whole);
      const more = energyElement('button', '', `${rest.length} more, ${share}`);
      more.addEventListener('click', () => { this.all = true; this.draw(); });
      box.append(more);
    }
    field.prepend(this.arrows(field, boxes));
  }

  /**
   * @param {HTMLElement} field
   * @param {Map<number, HTMLElement>} boxes
   */
  arrows(field, boxes) {
    const space = 'http://www.w3.org/2000/svg';
    const svg = document.createElementNS(space, 'svg');
    svg.setAttribute('aria-hidden', 'true');
    svg.innerHTML = '<defs><marker id="edd-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" ' +
      'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>';
    const origin = field.getBoundingClientRect();
    const {edges} = this.parts;
    for (let i = 0; i < edges.length; i += 3) {
      const source = boxes.get(edges[i]);
      const target = boxes.get(edges[i] + edges[i + 1]);
      const phases = edges[i + 2];
      const wanted = this.phase === ENERGY_ALL ? phases & 11 : phases >> this.phase & 1;
      if (!source || !target || !wanted) continue;
      const a = source.getBoundingClientRect();
      const b = target.getBoundingClientRect();
      const down = b.top >= a.bottom - 1;
      if (!down && a.top < b.bottom - 1) continue;
      const x1 = a.left + a.width / 2 - origin.left;
      const x2 = b.left + b.width / 2 - origin.left;
      const y1 = (down ? a.bottom : a.top) - origin.top;
      const y2 = (down ? b.top : b.bottom) - origin.top;
      const far = Math.abs(y2 - y1) > 90;
      const side = far ? Math.max(a.width, b.width) / 2 + 18 : 0;
      const bend = (y2 - y1) / 2;
      const path = document.createElementNS(space, 'path');
      path.setAttribute('d', `M${x1} ${y1}C${x1 + side} ${y1 + bend} ${x2 + side} ${y2 - bend} ${x2} ${y2}`);
      path.setAttribute('class', (phases & ENERGY_ORDER ? 'order' : '') + (far ? ' far' : ''));
      path.setAttribute('marker-end', 'url(#edd-head)');
      svg.append(path);
    }
    return svg;
  }
}

customElements.define('energy-diagram', class extends HTMLElement {
  connectedCallback() {
    if (!this.walk) this.walk = new EnergyWalk(this);
  }
});
