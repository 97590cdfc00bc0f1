// <energy-flame>: a flame graph of joules (src/report/energy_section.cpp). A row of boxes under another shows what
// these hold, each as wide as its joules; what a part takes beside its parts stays blank under it. Boxes are HTML
// elements of a tree, drawn anew for each zoom: there are never more of them than pixels to show them. Nothing moves.

const FLAME_ROW = 26;
// In pixels: what is narrower cannot be pointed at and is joined with its neighbours.
const FLAME_LEAST = 3;
const FLAME_LEAST_NAME = 40;
const FLAME_LEAST_SHARE = 130;
const FLAME_ROWS = 40;

/**
 * A part that is drawn, or several that are too narrow: then `part` is the first of `count`.
 * @typedef {{part: number, count: number, row: number, left: number, width: number}} FlameBox
 */

class EnergyFlame {
  /** @param {HTMLElement} host */
  constructor(host) {
    this.host = host;
    this.parts = energyParts(host);
    const {inside} = this.parts;
    this.total = inside.map((_, i) => this.parts.joules(i));
    this.shown = inside.map(some => some.filter(i => this.total[i] > 0 && !this.parts.isSelf(i)));
    this.node = 0;
    this.focused = 0;
    /** @type {Set<number> | null} */
    this.matches = null;
    /** @type {Set<number>} parts that hold a match */
    this.holders = new Set();
    /** @type {boolean[]} of each part, whether it matches or one does that holds it */
    this.counted = [];
    /** @type {FlameBox[]} */
    this.boxes = [];
    /** @type {HTMLElement | null} the one box that Tab goes to */
    this.stop = null;

    this.search = document.createElement('input');
    this.found = energyElement('span', 'note');
    this.crumbs = energyElement('div', '');
    this.details = energyElement('p', 'details note');
    this.field = energyElement('div', 'field');
    this.field.setAttribute('role', 'tree');
    this.field.setAttribute('aria-label', 'parts of the model by energy');
    this.deeper = energyElement('p', 'note');
    const box = part(host, 'div');
    box.textContent = '';
    box.append(this.tools(), this.crumbs, this.details, this.field, this.deeper);
    this.listen();
    let width = 0;
    new ResizeObserver(() => {
      if (host.clientWidth !== width) this.draw();
      width = host.clientWidth;
    }).observe(host);
  }

  tools() {
    const tools = energyElement('div', 'tools');
    const label = energyElement('label', '', 'Search');
    this.search.type = 'search';
    this.search.spellcheck = false;
    this.search.autocomplete = 'off';
    label.append(this.search);
    this.found.setAttribute('role', 'status');
    tools.append(label, this.found);
    const phases = this.parts.phases(0);
    if (phases.length > 1) {
      const legend = energyElement('span', 'legend');
      legend.append('mostly');
      for (const phase of phases) {
        const entry = energyElement('span', ENERGY_PHASES[phase]);
        entry.append(energyElement('i', 'swatch'), ENERGY_PHASES[phase]);
        legend.append(entry);
      }
      tools.append(legend);
    }
    return tools;
  }

  listen() {
    const {field, search} = this;
    search.addEventListener('input', () => this.find(search.value));
    search.addEventListener('keydown', event => {
      if (event.key === 'Enter') this.nextMatch();
      if (event.key !== 'Escape' || !search.value) return;
      search.value = '';
      this.find('');
    });
    field.addEventListener('click', event => {
      const box = this.boxOf(event);
      // A second click on what is looked into leads back out.
      if (box && box.count === 1) this.go(box.part === this.node ? this.parts.parents[box.part] : box.part, box.part);
    });
    field.addEventListener('focusin', event => {
      const box = this.boxOf(event);
      if (!box) return;
      this.focused = box.part;
      if (this.stop) this.stop.tabIndex = -1;
      this.stop = /** @type {HTMLElement} */ (event.target);
      this.stop.tabIndex = 0;
      this.tell();
    });
    field.addEventListener('keydown', event => this.key(event));
    field.addEventListener('pointermove', event => {
      const box = this.boxOf(event);
      if (box) showTip(this.describe(box).join('\n'), event);
      else hideTip();
    });
    field.addEventListener('pointerleave', hideTip);
  }

  /** @param {Event} event */
  boxOf(event) {
    const element = event.target instanceof Element ? event.target.closest('[data-box]') : null;
    return element instanceof HTMLElement ? this.boxes[Number(element.dataset.box)] : undefined;
  }

  /**
   * Looks into part i.
   * @param {number} i
   * @param {number} [focus] the part whose box has the focus then
   */
  go(i, focus) {
    this.node = i;
    this.focused = i;
    hideTip();
    this.draw();
    if (focus !== undefined) this.focus(focus);
  }

  /** @param {number} i */
  focus(i) {
    const at = Math.max(0, this.boxes.findIndex(box => box.part === i && box.count === 1));
    const element = this.field.children[at];
    if (element instanceof HTMLElement) element.focus();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const box = this.boxOf(event);
    if (!box || event.ctrlKey || event.metaKey || event.altKey) return;
    const drawn = this.boxes.filter(one => one.count === 1);
    const row = drawn.filter(one => one.row === box.row);
    const at = row.indexOf(box);
    const below = drawn.find(one => one.row === box.row + 1 && this.parts.parents[one.part] === box.part);
    const parent = this.parts.parents[box.part];
    /** @type {Record<string, () => void>} */
    const actions = {
      ArrowLeft: () => this.focus(row[Math.max(0, at - 1)].part),
      ArrowRight: () => this.focus(row[Math.min(row.length - 1, at + 1)].part),
      ArrowDown: () => { if (below) this.focus(below.part); },
      ArrowUp: () => { if (box.row) this.focus(parent); },
      Home: () => this.focus(row[0].part),
      End: () => this.focus(row[row.length - 1].part),
      Enter: () => this.go(box.part, box.part),
      ' ': () => this.go(box.part, box.part),
      Escape: () => this.go(this.parts.parents[this.node], this.node),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }

  /**
   * Marks the parts whose names contain the text. With a slash in it, it has to end in the part's own name: all that a
   * part holds has the part's name in its path.
   * @param {string} text
   */
  find(text) {
    const {names, parents, depths} = this.parts;
    const wanted = text.trim().toLowerCase();
    const above = wanted.split('/').length - 1;
    this.holders.clear();
    this.matches = wanted ? new Set() : null;
    const counted = /** @type {boolean[]} */ ([]);
    this.counted = counted;
    const lower = names.map(name => name.toLowerCase());
    let sum = 0;
    for (let i = 0; i < names.length && this.matches; ++i) {
      let path = lower[i];
      for (let k = i, up = 0; up < above && depths[k] > 1; ++up) path = lower[k = parents[k]] + '/' + path;
      const at = path.lastIndexOf(wanted);
      const own = at >= 0 && at + wanted.length > path.length - lower[i].length;
      const matches = own && i > 0 && this.total[i] > 0 && !this.parts.isSelf(i);
      const within = i > 0 && counted[parents[i]];
      counted.push(matches || within);
      if (!matches) continue;
      this.matches.add(i);
      if (!within) sum += this.total[i];
      for (let k = parents[i]; k && !this.holders.has(k); k = parents[k]) this.holders.add(k);
    }
    this.found.textContent = this.matches ? (this.matches.size === 1 ? '1 part matches, ' : this.matches.size
      ? `${this.matches.size.toLocaleString('en').replace(/,/g, '\u202f')} parts match, ` : 'no part matches') +
      (this.matches.size ? energyShare(sum, this.total[0]) + ' of the energy' : '') : '';
    this.draw();
  }

  // Looks into the match with the most energy, and then into one after the other, since most have no box to click.
  nextMatch() {
    if (!this.matches || !this.matches.size) return;
    const ordered = [...this.matches].sort((a, b) => this.total[b] - this.total[a] || a - b);
    this.go(ordered[(ordered.indexOf(this.node) + 1) % ordered.length]);
  }

  /** @param {number} width */
  layout(width) {
    /** @type {FlameBox[]} */
    const boxes = [];
    /** @type {FlameBox[]} */
    let above = [{part: this.node, count: 1, row: 0, left: 0, width}];
    for (let row = 1; above.length && row <= FLAME_ROWS; ++row) {
      boxes.push(...above);
      /** @type {FlameBox[]} */
      const below = [];
      for (const box of above) {
        const inside = box.count === 1 ? this.shown[box.part] : [];
        let left = box.left;
        for (const [at, i] of inside.entries()) {
          const one = box.width * this.total[i] / this.total[box.part];
          if (one < FLAME_LEAST) {
            // The largest comes first, so that all that follow are too narrow.
            const rest = inside.slice(at).reduce((sum, k) => sum + this.total[k], 0);
            const joined = box.width * rest / this.total[box.part];
            if (joined >= 1) below.push({part: i, count: inside.length - at, row, left, width: joined});
            break;
          }
          below.push({part: i, count: 1, row, left, width: one});
          left += one;
        }
      }
      above = below;
    }
    this.deeper.textContent = above.length ? 'There is more below. Click a box to look inside.' : '';
    return boxes;
  }

  draw() {
    const {names, parents} = this.parts;
    const focus = this.field.contains(document.activeElement);
    this.boxes = this.layout(this.field.clientWidth);
    const drawn = new Set(this.boxes.filter(box => box.count === 1).map(box => box.part));
    if (!drawn.has(this.focused)) this.focused = this.node;
    this.field.textContent = '';
    let rows = 0;
    for (const [at, box] of this.boxes.entries()) {
      const i = box.part;
      rows = Math.max(rows, box.row + 1);
      const element = energyElement('div', 'box ' + this.look(box));
      element.dataset.box = String(at);
      element.style.left = box.left.toFixed(2) + 'px';
      element.style.top = box.row * FLAME_ROW + 'px';
      element.style.width = box.width.toFixed(2) + 'px';
      if (box.width >= FLAME_LEAST_NAME) {
        const name = box.count === 1 ? i ? energyShort(names[i]) : 'model' : `${box.count} more`;
        element.append(energyElement('span', 'name', name));
        if (box.width >= FLAME_LEAST_SHARE) element.append(energyElement('small', '', this.share(box)));
      }
      if (box.count === 1) {
        const place = this.shown[parents[i]].indexOf(i);
        element.setAttribute('role', 'treeitem');
        element.setAttribute('aria-level', String(box.row + 1));
        element.setAttribute('aria-label', `${i ? energyShort(names[i]) : 'model'}, ${this.cost(i)}`);
        element.setAttribute('aria-posinset', String(box.row ? place + 1 : 1));
        element.setAttribute('aria-setsize', String(box.row ? this.shown[parents[i]].length : 1));
        element.setAttribute('aria-selected', String(i === this.node));
        element.tabIndex = i === this.focused ? 0 : -1;
        if (i === this.focused) this.stop = element;
      } else {
        element.setAttribute('aria-hidden', 'true');
      }
      this.field.append(element);
    }
    this.field.style.height = rows * FLAME_ROW + 'px';
    this.crumbs.textContent = '';
    this.crumbs.append(this.parts.crumbs(this.node, k => this.go(k, k)));
    this.tell();
    if (focus) this.focus(this.focused);
  }

  /**
   * The classes of a box.
   * @param {FlameBox} box
   */
  look(box) {
    const {parts, matches, holders} = this;
    const several = this.joined(box);
    const phases = parts.phases(box.part).sort((a, b) => parts.joules(box.part, b) - parts.joules(box.part, a));
    const classes = [ENERGY_PHASES[phases.length ? phases[0] : 0]];
    if (box.count > 1) classes.push('joined');
    if (matches) {
      if (several.some(i => matches.has(i) || (box.count > 1 && holders.has(i)))) classes.push('match');
      else if (box.part && !holders.has(box.part) && !this.counted[box.part]) classes.push('aside');
    }
    return classes.join(' ');
  }

  /**
   * The parts that a box stands for.
   * @param {FlameBox} box
   */
  joined(box) {
    if (box.count === 1) return [box.part];
    const siblings = this.shown[this.parts.parents[box.part]];
    return siblings.slice(siblings.indexOf(box.part));
  }

  /** @param {FlameBox} box */
  share(box) {
    return energyShare(this.joined(box).reduce((sum, i) => sum + this.total[i], 0), this.total[0]);
  }

  /** @param {number} i */
  cost(i) {
    const share = i ? `, ${energyShare(this.total[i], this.total[0])} of the model` : '';
    return `${energyNumber(this.total[i])}\u00a0J${share}`;
  }

  /**
   * What there is to say of a box, in lines.
   * @param {FlameBox} box
   */
  describe(box) {
    const i = box.part;
    if (box.count > 1) {
      const sum = this.joined(box).reduce((joules, k) => joules + this.total[k], 0);
      return [`${box.count} parts of ${this.parts.title(this.parts.parents[i])}`,
        `${energyNumber(sum)}\u00a0J, ${energyShare(sum, this.total[0])} of the model`, 'each too narrow for a box'];
    }
    const own = this.parts.own(i);
    const self = own <= 0 ? 'none of it its own' : own >= this.total[i] ? 'all of it its own'
      : `${energyNumber(own)}\u00a0J of it its own`;
    const lines = [this.parts.title(i), `${this.cost(i)}, ${self}`];
    const phases = this.parts.phases(i);
    if (phases.length > 1 || phases[0]) {
      lines.push(phases.map(p => `${ENERGY_PHASES[p]} ${energyNumber(this.parts.joules(i, p))}\u00a0J`).join(', '));
    }
    return lines;
  }

  // Says in the page what a tip would, for those who do not point.
  tell() {
    const [title, ...lines] = this.describe({part: this.focused, count: 1, row: 0, left: 0, width: 0});
    this.details.textContent = '';
    this.details.append(energyElement('b', 'name', title), ' ' + lines.join('; '));
  }
}

customElements.define('energy-flame', class extends HTMLElement {
  connectedCallback() {
    if (!this.flame) this.flame = new EnergyFlame(this);
  }
});
