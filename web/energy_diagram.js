// <energy-diagram>: walks through nested energy distribution diagrams (src/report/energy_diagram.cpp), from the model
// down to its tensors, by clicking. Boxes are HTML, laid out by the browser; arrows are SVG between them.

/**
 * Per part its name, the index of the part that holds it (of the model itself: any), joules by phase and its row.
 * An edge: part that it is drawn in, from, to, bits of the phases, whether it is an order only.
 * @typedef {{names: string[], parents: number[], energy: number[][], ranks: number[], edges: number[][]}} EnergyParts
 */

const ENERGY_PHASES = ['other', 'forward', 'backward', 'optimizer'];
const ENERGY_ALL = -1;
const ENERGY_MOST_PARTS = 30;

/** @param {number} x */
const energyNumber = x =>
  x >= 100 ? Math.round(x).toLocaleString('en').replace(/,/g, '\u202f') : Number(x.toPrecision(3)).toString();

/**
 * @param {string} tag
 * @param {string} css
 * @param {string} [text]
 */
function energyElement(tag, css, text) {
  const element = document.createElement(tag);
  if (css) element.className = css;
  if (text !== undefined) element.textContent = text;
  return element;
}

class EnergyWalk {
  /** @param {HTMLElement} host */
  constructor(host) {
    this.host = host;
    /** @type {EnergyParts} */
    this.parts = JSON.parse(part(host, 'script').textContent || '');
    /** @type {number[][]} */
    this.inside = this.parts.names.map(() => []);
    for (const [i, parent] of this.parts.parents.entries()) if (i) this.inside[parent].push(i);
    const wanted = decodeURI(location.hash.slice(1));
    this.node = Math.max(0, this.inside.findIndex((inside, i) => wanted && inside.length && this.path(i) === wanted));
    this.phase = ENERGY_ALL;
    this.all = false;
    let width = 0;
    new ResizeObserver(() => {
      if (host.clientWidth !== width) this.draw();
      width = host.clientWidth;
    }).observe(host);
  }

  /** @param {number} i */
  joules(i) {
    const energy = this.parts.energy[i];
    return this.phase === ENERGY_ALL ? energy.reduce((a, b) => a + b, 0) : energy[this.phase];
  }

  /**
   * From the model to part i.
   * @param {number} i
   */
  way(i) {
    const way = [i];
    while (way[0]) way.unshift(this.parts.parents[way[0]]);
    return way;
  }

  /** @param {number} i */
  path(i) {
    return this.way(i).slice(1).map(k => this.parts.names[k]).join('/');
  }

  /** @param {number} i */
  go(i) {
    this.node = i;
    this.all = false;
    this.draw();
    try {
      history.replaceState(null, '', '#' + encodeURI(this.path(i)));
    } catch {
      // A page without an address of its own has nothing to remember.
    }
  }

  draw() {
    const {names, energy, ranks} = this.parts;
    const {node, inside} = this;
    const box = part(this.host, 'div');
    box.textContent = '';
    const tools = energyElement('div', 'tools');
    const used = [1, 2, 3, 0].filter(p => energy[0][p] > 0);
    for (const p of used.length > 1 ? [ENERGY_ALL, ...used] : []) {
      const button = energyElement('button', '', p === ENERGY_ALL ? 'all' : ENERGY_PHASES[p]);
      button.setAttribute('aria-pressed', String(p === this.phase));
      button.addEventListener('click', () => { this.phase = p; this.draw(); });
      tools.append(button);
    }
    const crumbs = energyElement('div', 'crumbs');
    for (const [i, k] of this.way(node).entries()) {
      if (i) crumbs.append('/');
      const button = energyElement('button', '', i ? names[k] : 'model');
      button.addEventListener('click', () => this.go(k));
      button.toggleAttribute('disabled', k === node);
      crumbs.append(button);
    }
    const whole = this.joules(node);
    const model = this.joules(0);
    box.append(tools, crumbs, energyElement('p', 'what note', energyNumber(whole) + ' J' +
      (node && model > 0 ? `, ${(100 * whole / model).toFixed(1)} % of the model` : '')));

    const shown = inside[node].filter(i => this.joules(i) > 0).sort((a, b) => this.joules(b) - this.joules(a));
    const rest = this.all ? [] : shown.splice(ENERGY_MOST_PARTS);
    const most = shown.length ? this.joules(shown[0]) : 1;
    const field = energyElement('div', 'field');
    /** @type {Map<number, HTMLElement>} */
    const boxes = new Map();
    for (const rank of [...new Set(shown.map(i => ranks[i]))].sort((a, b) => a - b)) {
      const row = energyElement('div', 'rank');
      for (const i of shown.filter(k => ranks[k] === rank)) {
        const one = energyElement(inside[i].length ? 'button' : 'div', 'part');
        one.append(energyElement('span', '', names[i]),
          energyElement('b', '', (100 * this.joules(i) / whole).toFixed(1) + ' %'));
        one.style.setProperty('--share', (this.joules(i) / most).toFixed(3));
        one.title = this.path(i) + '\n' + energyNumber(this.joules(i)) + ' J';
        if (inside[i].length) one.addEventListener('click', () => this.go(i));
        row.append(one);
        boxes.set(i, one);
      }
      field.append(row);
    }
    box.append(field);
    if (rest.length) {
      const share = 100 * rest.reduce((sum, i) => sum + this.joules(i), 0) / whole;
      const more = energyElement('button', '', `${rest.length} more, ${share.toFixed(1)} %`);
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
    for (const [parent, from, to, phases, order] of this.parts.edges) {
      const source = boxes.get(from);
      const target = boxes.get(to);
      const wanted = this.phase === ENERGY_ALL ? phases & 11 : phases >> this.phase & 1;
      if (parent !== this.node || !source || !target || !wanted) continue;
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
      path.setAttribute('class', (order ? 'order' : '') + (far ? ' far' : ''));
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
