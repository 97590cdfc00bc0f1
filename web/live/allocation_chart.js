'use strict';
// Which job had which GPU when: a row for each GPU, or for each node where there are many, and a bar for each lease. What
// nobody has heard is hatched; only what an agent has told to be free is empty.

/**
 * @typedef {object} Allocation
 * @property {string} node
 * @property {number} gpu
 * @property {number} from_s
 * @property {number} until_s
 * @property {boolean} ended
 * @property {string} job
 * @property {Figure} rank
 * @property {string} holder
 */
/** @typedef {{node: string, gpu: number, y: number, height: number}} Lane what there is of one GPU, in px */
/** @typedef {{from: number, until: number, held: Allocation | null}} Stretch in ms; without a lease: nobody knows */

const kMostLanes = 64;  // more GPUs than that share a row with those of their node
const kMostListed = 500;  // rows of the table
const kUnheardFor = 4;  // s; after that a node is silent
const kLeft = 74;  // px, as wide as the names of other charts' values
const kRight = 5;
const kLaneHeight = 16;
const kNodeHeight = 20;
const kHatch = 6;  // from one line to the next

/**
 * A shape or a text of a picture.
 * @param {string} name
 * @param {Record<string, string | number>} attributes
 * @param {...(Node | string)} contents
 */
function drawn(name, attributes, ...contents) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...contents);
  return element;
}

/**
 * Slanted lines all over a rectangle: Chromium ends patterns in the midst of wide ones.
 * @param {number} x
 * @param {number} y
 * @param {number} width
 * @param {number} height
 */
function hatching(x, y, width, height) {
  let path = '';
  for (let foot = Math.ceil((x - height) / kHatch) * kHatch; foot < x + width; foot += kHatch) {
    const from = Math.max(foot, x);
    const until = Math.min(foot + height, x + width);
    path += `M${from.toFixed(1)} ${(y + height - from + foot).toFixed(1)}L${until.toFixed(1)} ` +
      (y + height - until + foot).toFixed(1);
  }
  return path;
}

/** Rectangles to be hatched; of hundreds of lanes that nobody has heard, those of a node side by side are one. */
class Hatched {
  constructor() {
    /** @type {{x: number, y: number, width: number, height: number}[]} */
    this.all = [];
    /** @type {Map<string, {y: number, height: number}>} the last ones, by where they begin and how wide they are */
    this.last = new Map();
  }

  /**
   * @param {number} x
   * @param {number} y
   * @param {number} width
   * @param {number} height
   */
  add(x, y, width, height) {
    const key = `${x} ${width}`;
    const above = this.last.get(key);
    if (above && Math.abs(above.y + above.height - y) < .01) {
      above.height += height;
      return;
    }
    const one = {x, y, width, height};
    this.last.set(key, one);
    this.all.push(one);
  }

  /** @returns {Element[]} */
  drawn() {
    return this.all.map(one => drawn('path', {class: 'hatch', d: hatching(one.x, one.y, one.width, one.height)}));
  }
}

/** @param {Allocation} held */
const isFree = held => held.holder === '';

/** @param {Lane} lane */
const nameOf = ({node, gpu}) => gpu < 0 ? node : `${node}, GPU ${gpu}`;

/**
 * @param {string} css
 * @param {Content} name
 * @param {number} count
 */
const legendEntry = (css, name, count) => make('span', {}, make('i', {class: 'dot ' + css}), name, ' ',
  make('strong', {}, count));

/** Of all GPUs; only what may have changed is asked for again. */
class Allocations {
  /** @param {Source} source */
  constructor(source) {
    this.source = source;
    /** @type {Map<string, Allocation>} by node, GPU and begin */
    this.all = new Map();
    this.span = 0;
    this.asked = 0;
    this.completeFrom = 0;
  }

  /** The time from one question to the next, in s. */
  get pause() {
    return this.all.size > 1000 ? 10 : 2;
  }

  /** @param {number} span s */
  async renew(span) {
    const now = serverTime() / 1000;
    const whole = span !== this.span;
    if (!whole && now - this.asked < this.pause) return;
    // What had ended well before the last answer has not changed since, but for what the end of a silence has ended.
    const ended = [...this.all.values()].filter(one => !one.ended && this.source.nodes.get(one.node)?.silent === false)
      .map(one => one.until_s);
    const from = whole ? now - span : Math.min(this.asked - 15, ...ended);
    this.asked = now;
    this.span = span;
    let told;
    try {
      told = await this.source.ask(`v1/fleet/allocations?from_s=${Math.floor(Math.max(from, 0))}`);
    } catch (error) {
      this.span = 0;  // all is asked for again
      throw error;
    }
    if (span !== this.span) return;  // the reader has asked for another one meanwhile
    if (whole) this.all.clear();
    if (whole) this.completeFrom = told.complete_from_s > from + 1 ? told.complete_from_s : 0;
    for (const one of told.allocations) this.all.set(JSON.stringify([one.node, one.gpu, one.from_s]), one);
    for (const [key, one] of this.all) if (one.until_s < now - span) this.all.delete(key);
  }
}

class AllocationChart {
  /**
   * @param {Source} source
   * @param {LiveWindow} shared
   */
  constructor(source, shared) {
    this.source = source;
    this.window = shared;
    this.past = new Allocations(source);
    /** @type {Map<string, number>} by job */
    this.colors = new Map();
    /** @type {Lane[]} */
    this.lanes = [];
    /** @type {{node: string, y: number}[]} */
    this.names = [];
    this.height = 0;
    this.folded = false;
    /** @type {Map<string, Allocation[]>} by node and GPU, rising in time */
    this.held = new Map();
    /** @type {{lane: number, time: number} | null} what a reader looks at; ms */
    this.chosen = null;
    /** @type {number | null} px, where dragging began */
    this.dragged = null;
    this.pointer = 0;
    this.frame = 0;  // the browser's number of the frame before which the marks are renewed; 0: none
    this.marks = drawn('g', {});
    this.at = (/** @type {number} */ _time) => kLeft;  // px from the picture's left
    this.rows = make('div', {class: 'rows'});
    this.axis = make('div', {class: 'axis', 'aria-hidden': 'true'});
    this.plot = make('div', {class: 'allocations', tabindex: 0, role: 'group',
      onkeydown: event => this.press(/** @type {KeyboardEvent} */ (event)),
      onpointerdown: event => this.grasp(/** @type {PointerEvent} */ (event)),
      onpointermove: event => this.point(/** @type {PointerEvent} */ (event)),
      onpointerup: event => this.release(/** @type {PointerEvent} */ (event)),
      ondblclick: () => this.window.zoom(null)}, this.rows, this.axis);
    this.saying = make('p', {class: 'note saying', role: 'status'});
    this.legend = make('p', {class: 'legend'});
    this.list = make('div');
    this.details = /** @type {HTMLDetailsElement} */ (make('details', {ontoggle: () => this.tabulate()},
      make('summary', {}, 'As a table'), this.list));
    this.element = make('figure', {class: 'chart', 'data-kept': true, 'data-key': 'allocations'},
      make('figcaption', {}, 'Who has which GPU'), this.plot, this.legend, this.saying, this.details);
    shared.charts.push(this);
    this.resized = new ResizeObserver(() => this.follow());
    this.resized.observe(this.plot);
  }

  close() {
    this.resized.disconnect();
  }

  /** Shows what is known now. */
  show() {
    this.held.clear();
    for (const one of this.past.all.values()) {
      const key = JSON.stringify([one.node, one.gpu]);
      const row = this.held.get(key);
      if (row) row.push(one);
      else this.held.set(key, [one]);
    }
    for (const row of this.held.values()) row.sort((a, b) => a.from_s - b.from_s);
    const jobs = new Map([...this.past.all.values()].filter(one => one.job).sort((a, b) => b.from_s - a.from_s)
      .map(one => [one.job, one.from_s]));
    for (const [job] of [...jobs].sort((a, b) => a[1] - b[1])) {
      if (!this.colors.has(job)) this.colors.set(job, this.colors.size % 10);
    }
    this.follow();
  }

  /** The GPUs of nodes that the server asks, and of those that it asked then. */
  arrange() {
    /** @type {Map<string, Set<number>>} */
    const nodes = new Map();
    for (const {node, gpus} of this.source.nodes.values()) nodes.set(node, new Set(gpus.map(gpu => gpu.index)));
    for (const {node, gpu} of this.past.all.values()) {
      const gpus = nodes.get(node);
      if (gpus) gpus.add(gpu);
      else nodes.set(node, new Set([gpu]));
    }
    const count = [...nodes.values()].reduce((sum, gpus) => sum + gpus.size, 0);
    this.folded = count > kMostLanes;
    this.lanes = [];
    this.names = [];
    let y = 0;
    for (const node of [...nodes.keys()].sort((a, b) => a.localeCompare(b, undefined, {numeric: true}))) {
      const gpus = [...nodes.get(node) || []].sort((a, b) => a - b);
      if (gpus.length === 0) gpus.push(-1);  // nothing was ever heard of the node
      this.names.push({node, y});
      if (!this.folded) y += kNodeHeight;
      const height = this.folded ? (kNodeHeight - 4) / gpus.length : kLaneHeight;
      for (const gpu of gpus) {
        this.lanes.push({node, gpu, y, height});
        y += height;
      }
      y += 4;
    }
    this.height = y;
  }

  /**
   * Until when it is known, in ms: one that lasts on a node that answers has lasted until now.
   * @param {Allocation} held
   */
  endOf(held) {
    // What was not told again since a silence may have ended in it.
    const isNews = serverTime() - held.until_s * 1000 < 1000 * (this.past.pause + kUnheardFor);
    const goesOn = !held.ended && isNews && this.source.state === 'live' &&
      this.source.nodes.get(held.node)?.silent === false;
    return goesOn ? Math.max(serverTime(), held.until_s * 1000) : held.until_s * 1000;
  }

  /**
   * What is shown of a GPU, without gaps.
   * @param {Lane} lane
   * @returns {Stretch[]}
   */
  stretchesOf({node, gpu}) {
    const [begin, end] = this.window.range;
    /** @type {Stretch[]} */
    const all = [];
    let known = begin;
    for (const held of this.held.get(JSON.stringify([node, gpu])) || []) {
      const from = Math.max(held.from_s * 1000, begin);
      const until = Math.min(this.endOf(held), end);
      if (until <= from) continue;
      if (from > known) all.push({from: known, until: from, held: null});
      all.push({from, until, held});
      known = until;
    }
    if (known < end) all.push({from: known, until: end, held: null});
    return all;
  }

  /** @param {Allocation | null} held */
  whoOf(held) {
    if (!held) return 'not known';
    if (isFree(held)) return 'free';
    return held.job ? this.source.jobs.get(held.job)?.name || held.job : held.holder;
  }

  /** Draws the stretch of time that the view's charts show. */
  follow() {
    this.arrange();
    const width = this.rows.clientWidth;
    if (!this.plot.isConnected || width === 0) return;
    const [begin, end] = this.window.range;
    const inner = Math.max(width - kLeft - kRight, 1);
    const at = (/** @type {number} */ time) => kLeft + inner * (time - begin) / (end - begin);
    const ticks = Dygraph.dateTicker(begin, end, inner, name => (/** @type {Record<string, unknown>} */ ({pixelsPerLabel: 80,
      labelsUTC: false, axisLabelFormatter: Dygraph.dateAxisLabelFormatter}))[name]).filter(tick => tick.v >= begin && tick.v <= end);
    const picture = drawn('svg', {width, height: this.height, 'aria-hidden': 'true'});
    for (const {v: time} of ticks) {
      picture.append(drawn('line', {class: 'grid', x1: at(time), x2: at(time), y1: 0, y2: this.height}));
    }
    for (const {node, y} of this.names) {
      // Nodes differ in the end of their names.
      const name = this.folded && node.length > 9 ? '\u2026' + node.slice(-8) : node;
      picture.append(drawn('text', {class: 'strong', x: 0, y: y + 14}, name));
    }
    /** @type {Map<string, {held: Allocation, now: number, job: string}>} */
    const shown = new Map();
    const now = {free: 0, unknown: 0};
    /** @type {Set<string>} what has a name in the row above, or needs none there */
    let named = new Set();
    const hatched = new Hatched();
    for (const lane of this.lanes) {
      const above = named;
      named = new Set();
      const {node, gpu, y, height} = lane;
      const row = drawn('g', {class: 'row', 'data-node': node, 'data-gpu': gpu});
      if (!this.folded && gpu >= 0) row.append(drawn('text', {class: 'soft small', x: 8, y: y + height - 4}, `GPU ${gpu}`));
      const gap = this.folded ? 0 : 2;
      let until = 0;
      for (const one of this.stretchesOf(lane)) {
        const {held} = one;
        const lasts = one.until >= end - 1;
        if (held && !isFree(held)) {
          const key = held.job ? 'job ' + held.job : 'other';
          const counted = shown.get(key) || {held, now: 0, job: held.job};
          shown.set(key, counted);
          if (lasts) ++counted.now;
        } else if (lasts) {
          ++now[held ? 'free' : 'unknown'];
        }
        // What is shorter than a pixel shares it with what comes before.
        if (at(one.until) - until < .5) continue;
        const x = Math.max(at(one.from), until);
        until = Math.max(at(one.until), x + 1);
        const css = !held ? 'unknown' : isFree(held) ? 'free' : held.job ? 'f' + this.colors.get(held.job) : 'other';
        row.append(drawn('rect', {class: 'bar ' + css, x, y, width: until - x, height: height - gap,
          'data-job': held?.job || ''}));
        if (!held) hatched.add(x, y, until - x, height - gap);
        const words = this.whoOf(held);
        const key = JSON.stringify([node, words]);
        const isNamed = above.has(key) || (until - x > 7 * words.length + 8);
        if (isNamed) named.add(key);
        if (held && !isFree(held) && !this.folded && isNamed && !above.has(key)) {
          row.append(drawn('text', {class: 'halo small', x: x + 4, y: y + height - 5}, words));
        }
      }
      picture.append(row);
    }
    this.at = at;
    picture.append(...hatched.drawn(), this.marks);
    renew(this.rows, [picture]);
    renew(this.axis, [drawn('svg', {width, height: 18}, ...ticks.map(({v, label}) =>
      drawn('text', {class: 'soft', x: at(v), y: 13, 'text-anchor': at(v) > width - 3.5 * label.length ? 'end' : 'middle'},
        label)))]);
    this.explain([...shown.values()], now);
    this.mark();
    this.tabulate();
  }

  /** Frames what a reader looks at, and what is dragged over, and says the former; draws no bar anew. */
  mark() {
    const lane = this.chosen && this.lanes[this.chosen.lane];
    const one = this.chosenStretch();
    this.marks.replaceChildren();
    if (lane && one) {
      const x = this.at(one.from);
      this.marks.append(drawn('rect', {class: 'chosen', x, y: lane.y - 1, width: Math.max(this.at(one.until) - x, 2),
        height: lane.height}));
    }
    if (this.dragged !== null) {
      this.marks.append(drawn('rect', {class: 'dragged', x: Math.min(this.dragged, this.pointer), y: 0,
        width: Math.abs(this.pointer - this.dragged), height: this.height}));
    }
    this.tell(lane, one);
  }

  /**
   * The legend, with how many GPUs each has at the end of what is shown.
   * @param {{held: Allocation, now: number, job: string}[]} shown
   * @param {{free: number, unknown: number}} now
   */
  explain(shown, now) {
    const jobs = shown.filter(one => one.job);
    const others = shown.filter(one => !one.job);
    const unknown = this.past.completeFrom * 1000 > this.window.range[0];
    renew(this.legend, [make('span', {class: 'when'}, 'GPUs'),
      ...jobs.map(one => legendEntry('c-p' + this.colors.get(one.job), this.source.jobLink(one.job), one.now)),
      ...others.map(one => legendEntry('c-other', 'leased for no job', one.now)),
      legendEntry('c-free', 'free', now.free), legendEntry('c-unknown', 'not known', now.unknown),
      ...(unknown ? [make('span', {class: 'alarm'},
        `Before ${momentText(this.past.completeFrom)} there were too many to show all.`)] : [])]);
    const words = [...jobs.map(one => `job ${this.whoOf(one.held)} has ${one.now}`),
      ...others.map(one => `leases for no job have ${one.now}`), `${now.free} are free`, `of ${now.unknown} nothing is known`];
    this.plot.setAttribute('aria-label', `Who has which GPU. At ${momentText(this.window.range[1] / 1000)} ` +
      `${words.join(', ')}. Arrow keys go through GPUs and leases, Enter opens a job.`);
  }

  /** @returns {Stretch | null} */
  chosenStretch() {
    const lane = this.chosen && this.lanes[this.chosen.lane];
    if (!lane) return null;
    const {time} = /** @type {{time: number}} */ (this.chosen);
    const all = this.stretchesOf(lane);
    return all.find(one => time < one.until) || all[all.length - 1] || null;  // the first, once all that was chosen is past
  }

  /**
   * Says what a reader looks at, in words that stay the same while nothing happens: they are read aloud when they change.
   * @param {Lane | null | undefined} lane
   * @param {Stretch | null} one
   */
  tell(lane, one) {
    let words = '';
    if (lane && one) {
      const {held} = one;
      const rank = held && typeof held.rank === 'number' ? `, rank ${held.rank}` : '';
      const by = held?.job ? ` by ${held.holder}` : '';
      const until = held ? this.endOf(held) : one.until;
      const isCut = !held && one.from <= this.window.range[0];
      const lasts = !held?.ended && until >= serverTime() - 1000;
      words = `${nameOf(lane)}: ${held?.job ? 'job ' : ''}${this.whoOf(held)}${rank}${by}, from ` +
        (isCut ? 'before what is shown' : momentText(held ? held.from_s : one.from / 1000)) +
        (lasts ? ' until now' : ` until ${momentText(until / 1000)}`);
    }
    if (this.saying.textContent !== words) this.saying.textContent = words;
  }

  /** All that is shown, for whoever does not see it. */
  tabulate() {
    if (!this.details.open) return;
    /** @type {Content[][]} */
    const rows = [];
    let more = 0;
    for (const lane of this.lanes) {
      for (const one of this.stretchesOf(lane)) {
        if (rows.length === kMostListed) ++more;
        else rows.push([nameOf(lane), make('bdi', {}, this.whoOf(one.held)), one.held?.rank ?? kNothing,
          momentText((one.held?.from_s || one.from / 1000)), momentText((one.held ? this.endOf(one.held) : one.until) / 1000)]);
      }
    }
    renew(this.list, [table('Who has which GPU', ['GPU', '<Who', 'Rank', '<From', '<Until'], rows, 'No GPU is known.'),
      ...(more ? [make('p', {class: 'note'}, `And ${more} more; show a shorter time.`)] : [])]);
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    const now = this.chosen || {lane: 0, time: this.window.range[1] - 1};
    const lane = this.lanes[now.lane];
    const one = this.chosenStretch();
    if (!lane || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === 'Enter') {
      if (one?.held?.job && this.source.jobs.has(one.held.job)) location.hash = jobAddress(one.held.job);
      return;
    }
    const steps = {ArrowUp: -1, ArrowDown: 1}[event.key];
    if (event.key === 'Escape') this.chosen = null;
    else if (!this.chosen && event.key.startsWith('Arrow')) this.chosen = now;
    else if (steps) this.chosen = {...now, lane: Math.min(Math.max(now.lane + steps, 0), this.lanes.length - 1)};
    else if (event.key === 'ArrowLeft') this.chosen = {...now, time: Math.max((one?.from || 0) - 1, this.window.range[0])};
    else if (event.key === 'ArrowRight') this.chosen = {...now, time: Math.min(one?.until || Infinity, this.window.range[1] - 1)};
    else return;
    event.preventDefault();
    this.mark();
    const at = this.chosen && this.lanes[this.chosen.lane];
    if (at) this.rows.scrollTop = Math.min(Math.max(this.rows.scrollTop, at.y + at.height - this.rows.clientHeight), at.y);
  }

  /**
   * Where a pointer is: the time in ms, the GPU's row (-1: none), and px from the picture's left.
   * @param {PointerEvent} event
   */
  whereIs(event) {
    const box = this.rows.getBoundingClientRect();
    const x = Math.min(Math.max(event.clientX - box.left, kLeft), this.rows.clientWidth - kRight);
    const y = event.clientY - box.top + this.rows.scrollTop;
    const [begin, end] = this.window.range;
    const inner = Math.max(this.rows.clientWidth - kLeft - kRight, 1);
    return {x, time: begin + (end - begin) * Math.min((x - kLeft) / inner, 1),
      lane: this.lanes.findIndex(one => one.y <= y && y < one.y + one.height)};
  }

  /**
   * A finger scrolls the page and chooses; the buttons zoom.
   * @param {PointerEvent} event
   */
  grasp(event) {
    if (event.pointerType !== 'mouse' || event.button !== 0) return;
    this.dragged = this.pointer = this.whereIs(event).x;
    this.plot.setPointerCapture(event.pointerId);
  }

  /**
   * Browsers tell of a mouse that rests, too, where the page moves below it.
   * @param {PointerEvent} event
   */
  point(event) {
    if (event.movementX === 0 && event.movementY === 0) return;
    const {x, time, lane} = this.whereIs(event);
    this.pointer = x;
    if (this.dragged === null) this.chosen = lane < 0 ? null : {lane, time};
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.mark();
    });
  }

  /** @param {PointerEvent} event */
  release(event) {
    const begin = this.dragged;
    this.dragged = null;
    const {x, time, lane} = this.whereIs(event);
    if (begin === null || Math.abs(x - begin) < 4) {
      this.chosen = lane < 0 ? null : {lane, time};
      this.mark();
      return;
    }
    const [from, until] = this.window.range;
    const share = (begin - kLeft) / Math.max(this.rows.clientWidth - kLeft - kRight, 1);
    const other = from + (until - from) * share;
    this.window.zoom([Math.min(time, other), Math.max(time, other)]);
  }
}
