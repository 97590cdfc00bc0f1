// What <energy-flame> and <energy-diagram> share: the parts of a model with their joules, as
// src/report/energy_section.cpp writes them, and how both write names and numbers.

/**
 * Parts, depth first; of those in one part the one with the most energy first. `words` are the different names; of
 * each part, `names` is its name's index, `depths` how many parts hold it and `ranks` its row in the diagram. `joules`
 * are, by phase, those of each part that holds no other. An edge is three numbers: the part it comes from, how many
 * parts further on the one stands that it leads to, and the bits of its phases, with 16 where it is an order only.
 * @typedef {{words: string[], names: number[], depths: number[], ranks: number[], joules: number[][],
 * edges: number[]}} EnergyData
 */

const ENERGY_PHASES = ['other', 'forward', 'backward', 'optimizer'];
const ENERGY_ALL = -1;
const ENERGY_ORDER = 16;
// The name of what a part takes beside its parts.
const ENERGY_SELF = '(self)';
const ENERGY_LONGEST = 240;
const ENERGY_LONG_WORD = 24;

/** @param {number} x */
const energyNumber = x =>
  x >= 100 ? Math.round(x).toLocaleString('en').replace(/,/g, '\u202f') : Number(x.toPrecision(3)).toString();

/**
 * @param {number} some
 * @param {number} whole
 */
const energyShare = (some, whole) => {
  const share = whole > 0 ? 100 * some / whole : 0;
  return (share > 0 && share < .05 ? 'less than 0.1' : share.toFixed(1)) + '\u00a0%';
};

/**
 * The text without its middle, where nobody would read all of it.
 * @param {string} text
 */
const energyShort = text => text.length <= ENERGY_LONGEST ? text
  : text.slice(0, ENERGY_LONGEST / 2) + '\u2026' + text.slice(-ENERGY_LONGEST / 2);

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

/**
 * An element with a part's name, which a line may break where the name has parts of its own rather than in a word.
 * @param {string} name
 */
function energyName(name) {
  const element = energyElement('span', 'name');
  const pieces = energyShort(name).split(/(?<=[_.\-/#]|::)(?=[^_.\-/#:])/);
  for (const piece of pieces.flatMap(one => one.length > ENERGY_LONG_WORD ? one.split(/(?<=[a-z])(?=[A-Z])/) : one)) {
    element.append(piece, document.createElement('wbr'));
  }
  return element;
}

/** @type {WeakMap<Node, EnergyParts>} by their sections */
const ENERGY_READ = new WeakMap();

/**
 * The parts of a section, which are read once for all that is drawn of them.
 * @param {HTMLElement} host in the section that has the data
 */
function energyParts(host) {
  const section = host.closest('.energy') || document;
  const parts = ENERGY_READ.get(section) || new EnergyParts(JSON.parse(part(section, '.energy-data').textContent || ''));
  ENERGY_READ.set(section, parts);
  return parts;
}

class EnergyParts {
  /** @param {EnergyData} data */
  constructor(data) {
    this.names = data.names.map(word => data.words[word]);
    this.ranks = data.ranks;
    this.edges = data.edges;
    this.depths = data.depths;
    /** @type {number[]} */
    this.parents = [];
    /** @type {number[][]} */
    this.inside = [];
    /** @type {number[]} the last part at each depth */
    const last = [];
    for (const [i, depth] of this.depths.entries()) {
      last[depth] = i;
      const parent = depth ? last[depth - 1] : 0;
      this.parents.push(parent);
      this.inside.push([]);
      if (i) this.inside[parent].push(i);
    }
    this.energy = data.joules.map(joules => this.sums(joules));
  }

  /** @param {number[]} joules of the parts that hold no other */
  sums(joules) {
    let leaf = 0;
    const energy = this.inside.map(inside => inside.length ? 0 : joules[leaf++]);
    // All that a part holds comes after it, so that backwards each is whole when it is added to what holds it.
    for (let i = energy.length - 1; i > 0; --i) energy[this.parents[i]] += energy[i];
    return energy;
  }

  /** @param {number} i */
  joules(i, phase = ENERGY_ALL) {
    return phase === ENERGY_ALL ? this.energy.reduce((sum, energy) => sum + energy[i], 0) : this.energy[phase][i];
  }

  /**
   * The phases in which part i takes energy, in the order in which they run.
   * @param {number} i
   */
  phases(i) {
    return [1, 2, 3, 0].filter(phase => this.energy[phase][i] > 0);
  }

  /** @param {number} i */
  isSelf(i) {
    return this.names[i] === ENERGY_SELF && !this.inside[i].length && i > 0;
  }

  /**
   * The joules of part i that are in no part of it.
   * @param {number} i
   */
  own(i) {
    if (!this.inside[i].length) return this.joules(i);
    return this.inside[i].filter(k => this.isSelf(k)).reduce((sum, k) => sum + this.joules(k), 0);
  }

  /**
   * From the model to part i.
   * @param {number} i
   */
  way(i) {
    const way = [i];
    while (way[0]) way.unshift(this.parents[way[0]]);
    return way;
  }

  /** @param {number} i */
  path(i) {
    return this.way(i).slice(1).map(k => this.names[k]).join('/');
  }

  /** @param {number} i */
  title(i) {
    return i ? energyShort(this.path(i)) : 'model';
  }

  /**
   * The way to part i as buttons, with the words between them that a long way leaves out.
   * @param {number} i
   * @param {(part: number) => void} go
   */
  crumbs(i, go) {
    const crumbs = energyElement('div', 'crumbs');
    const way = this.way(i);
    for (const [at, k] of way.entries()) {
      const most = 12;
      if (at > most / 2 && at < way.length - most / 2) {
        if (at === most / 2 + 1) crumbs.append('/', '\u2026');
        continue;
      }
      if (at) crumbs.append('/');
      const button = energyElement('button', '');
      button.append(k ? energyName(this.names[k]) : 'model');
      button.addEventListener('click', () => go(k));
      button.toggleAttribute('disabled', k === i);
      crumbs.append(button);
    }
    return crumbs;
  }
}
