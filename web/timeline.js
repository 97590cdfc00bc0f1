'use strict';
// Draws the timelines of iterations, one above the other on one scale: a row per stage, operations as bright as the
// power they draw. They are zoomed and moved together; an operation can be looked for and pinned in all of them.

// In pixels: a row, what a forward is lower than others, the names' column, the width of a usual operation at zoom 1,
// the least distance between ticks, what the end is away from the edge, and the map's rows.
const kRow = 26;
const kLowered = 6;
const kNames = 58;
const kUsual = 30;
const kTickEvery = 80;
const kMargin = 18;
const kMinimapRow = 4;
const kMostMinimap = 64;     // of all rows
const kMostWidth = 8388608;  // px; further on a browser no longer tells half a pixel
const kLeastZoom = 3;        // to which everything can be zoomed at least

class Timelines {
  /** @param {string} waiting what is said of GPUs that wait */
  constructor(waiting = 'blocking') {
    this.waiting = waiting;
    /** @type {OperationSet | null} */
    this.set = null;
    /** @type {TimelineRow[]} */
    this.rows = [];
    /** @type {PowerColours | null} */
    this.colours = null;
    this.zoom = 1;
    this.whole = false;
    this.pixel = 1;    // ns at zoom 1
    this.longest = 1;  // ns
    this.most = kLeastZoom;
    this.pinned = '';
    this.under = '';
    this.drawing = false;
    /** @type {{x: number, left: number, moved: boolean} | null} */
    this.grip = null;
    this.legend = make('div', {class: 'legend'});
    this.minimap = /** @type {HTMLCanvasElement} */ (make('canvas', {class: 'minimap', 'aria-hidden': 'true'}));
    this.seen = make('div', {class: 'seen'});
    this.map = make('div', {class: 'map', hidden: true}, this.minimap, this.seen);
    this.sheet = make('div', {class: 'sheet'});
    this.extent = make('div', {class: 'extent'}, this.sheet);
    this.view = make('div', {class: 'view', tabindex: 0, role: 'group',
      'aria-label': 'Timelines; arrow keys move, plus and minus zoom, Home and End jump'}, this.extent);
    this.note = make('div', {class: 'pinned', 'aria-live': 'polite'});
    this.search = new OperationSearch(this);
    const go = (/** @type {string} */ place) => () => this.go(place);
    const zoom = (/** @type {number} */ times) => () => this.setZoom(this.zoom * times);
    this.jumps = [make('button', {type: 'button', onclick: go('start')}, 'Start'),
      make('button', {type: 'button', onclick: go('middle')}, 'Steady state'),
      make('button', {type: 'button', onclick: go('end')}, 'End')];
    this.element = make('div', {class: 'timelines', 'data-kept': true, 'data-key': 'timelines'}, this.legend,
      make('div', {class: 'tools'}, this.jumps,
        make('button', {type: 'button', onclick: go('all')}, 'Whole iteration'),
        make('button', {type: 'button', 'aria-label': 'Zoom out', onclick: zoom(1 / 1.6)}, '\u2212'),
        make('button', {type: 'button', 'aria-label': 'Zoom in', onclick: zoom(1.6)}, '+'),
        this.search.element),
      this.map, this.view, this.note);
    this.listening = new AbortController();
    this.listen(this.listening.signal);
    this.resized = new ResizeObserver(() => {
      if (this.whole) this.go('all');
      else this.setZoom(this.zoom, 0);
      this.drawMap();
    });
    this.resized.observe(this.view);
  }

  /** Forgets the page. */
  close() {
    this.listening.abort();
    this.resized.disconnect();
    this.release();
    hideTip();
  }

  /**
   * Shows iterations, the one that matters last. Where there were some before, zoom and place stay.
   * @param {OperationSet} set
   * @param {DrawnIteration[]} iterations at least one
   */
  show(set, iterations) {
    const first = this.set === null;
    this.set = set;
    const before = this.rows;
    this.rows = iterations.map(one => before.find(row => row.iteration === one) || new TimelineRow(set, one));
    this.longest = 1.002 * Math.max(1, ...iterations.map(one => one.timing.end));
    this.measure();
    this.colours = new PowerColours(set, iterations);
    this.sheet.replaceChildren(...this.rows.flatMap(row => [row.heading, row.canvas]));
    this.renewLegend();
    this.search.renew();
    if (first) this.go(this.fit() > 0.75 ? 'all' : 'start');
    else this.setZoom(this.whole ? 0 : this.zoom, 0);
    this.drawMap();
    this.tellPinned();
  }

  // A usual operation is kUsual wide at zoom 1, but no picture is wider than its operations side by side.
  measure() {
    const {iteration, stages} = this.rows[0];
    const durations = stages.flat().map(i => iteration.timing.duration[i]).filter(one => one > 0).sort((a, b) => a - b);
    const median = durations[durations.length >> 1] || this.longest;
    this.pixel = Math.max(median, this.longest / Math.max(1, durations.length)) / kUsual;
    this.pixel = Math.max(this.pixel, kLeastZoom * this.longest / kMostWidth);
    const shortest = durations[0] || median;
    this.most = Math.min(kMostWidth * this.pixel / this.longest, Math.max(kLeastZoom, kUsual * this.pixel / shortest));
    const short = this.fit() > 0.75;  // it is seen whole at once
    for (const jump of this.jumps) jump.hidden = short;
  }

  renewLegend() {
    const {colours} = this;
    if (!colours) return;
    const bar = make('i', {class: 'bar'});
    bar.style.background = `linear-gradient(90deg,${colours.samples.map(rgb => `rgb(${rgb.join(' ')})`).join(',')})`;
    this.legend.replaceChildren(
      make('span', {}, `mean power: ${colours.least} W `, bar, ` ${colours.most} W`),
      make('span', {}, make('i', {class: 'swatch'}), this.waiting),
      make('span', {}, make('i', {class: 'rule'}), 'critical path'), make('span', {}, 'forwards are lower'));
  }

  /** @param {AbortSignal} signal */
  listen(signal) {
    const {view, map} = this;
    view.addEventListener('scroll', () => this.redraw(), {passive: true, signal});
    view.addEventListener('keydown', event => this.key(event), {signal});
    view.addEventListener('wheel', event => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.setZoom(this.zoom * (event.deltaY > 0 ? 1 / 1.2 : 1.2), event.clientX - view.getBoundingClientRect().left);
    }, {passive: false, signal});
    view.addEventListener('pointerdown', event => {
      if (event.button !== 0 || event.pointerType !== 'mouse') return;
      // What is below is the view's own scroll bar.
      if (event.clientY - view.getBoundingClientRect().top >= view.clientTop + view.clientHeight) return;
      this.grip = {x: event.clientX, left: view.scrollLeft, moved: false};
    }, {signal});
    view.addEventListener('pointermove', event => this.point(event), {signal});
    view.addEventListener('pointerleave', () => this.light('', null), {signal});
    view.addEventListener('click', event => {
      if (this.grip?.moved) return;
      const found = this.at(event);
      if (found) this.pin(found.row.key(found.i) === this.pinned ? '' : found.row.key(found.i));
    }, {signal});
    map.addEventListener('pointerdown', event => {
      map.setPointerCapture(event.pointerId);
      this.moveTo(event);
    }, {signal});
    map.addEventListener('pointermove', event => { if (event.buttons & 1) this.moveTo(event); }, {signal});
    // Listeners of the view come first: a click has to know that the pointer has moved.
    for (const end of ['click', 'pointercancel']) addEventListener(end, () => this.release(), {signal});
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
      this.redraw();
      this.drawMap();
    }, {signal});
  }

  release() {
    this.grip = null;
    this.view.classList.remove('dragging');
  }

  /** @param {PointerEvent} event on the map */
  moveTo(event) {
    const box = this.minimap.getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    this.view.scrollLeft = share * this.width - (this.view.clientWidth - kNames) / 2;
  }

  /** The iteration's width in pixels. */
  get width() {
    return this.longest / this.pixel * this.zoom;
  }

  /** The zoom at which the whole iteration is in view. */
  fit() {
    return Math.max(1, this.view.clientWidth - kNames - kMargin) * this.pixel / this.longest;
  }

  /**
   * @param {number} zoom
   * @param {number} [at] pixels from the left edge of what is seen; what is there stays there
   */
  setZoom(zoom, at) {
    const {view} = this;
    const fit = this.fit();
    const before = this.zoom;
    const pivot = (at === undefined ? (view.clientWidth + kNames) / 2 : Math.max(at, kNames)) - kNames;
    this.zoom = Math.max(fit, Math.min(zoom, Math.max(this.most, fit)));
    this.whole = this.zoom === fit;
    this.extent.style.width = this.whole ? '100%' : `${kNames + this.width + kMargin}px`;
    view.scrollLeft = (view.scrollLeft + pivot) * this.zoom / before - pivot;
    this.light('', null);
    this.redraw();
  }

  /** @param {string} place */
  go(place) {
    this.setZoom(place === 'all' ? 0 : 1);
    const room = this.view.scrollWidth - this.view.clientWidth;
    this.view.scrollLeft = place === 'middle' ? room / 2 : place === 'end' ? room : 0;
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    /** @type {Record<string, () => void>} */
    const actions = {
      '+': () => this.setZoom(this.zoom * 1.6),
      '=': () => this.setZoom(this.zoom * 1.6),
      '-': () => this.setZoom(this.zoom / 1.6),
      Home: () => this.go('start'),
      End: () => this.go('end'),
      Escape: () => this.pin(''),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }

  /**
   * The operation under the pointer.
   * @param {MouseEvent} event
   */
  at(event) {
    const row = this.rows.find(one => one.canvas === event.target);
    if (!row) return null;
    const box = row.canvas.getBoundingClientRect();
    const x = event.clientX - box.left;
    const stage = row.stages[Math.floor((event.clientY - box.top) / kPitch)];
    if (x < kNames || !stage) return null;
    const time = (x - kNames + this.view.scrollLeft) / this.zoom * this.pixel;
    const i = stage[row.firstAfter(stage, time)];
    return i !== undefined && row.iteration.timing.start[i] <= time ? {row, i} : null;
  }

  /** @param {PointerEvent} event */
  point(event) {
    if (this.grip && !(event.buttons & 1)) this.release();  // let go outside of the window
    if (this.grip) {
      const moved = event.clientX - this.grip.x;
      if (Math.abs(moved) > 3) this.grip.moved = true;
      if (this.grip.moved) {
        this.view.classList.add('dragging');
        this.view.scrollLeft = this.grip.left - moved;
        return;
      }
    }
    const found = this.at(event);
    this.light(found ? found.row.key(found.i) : '', found && {text: found.row.describe(found.i), event});
  }

  /**
   * Frames the operation that is pointed at, in all iterations, or none.
   * @param {string} key
   * @param {{text: string, event: PointerEvent} | null} tip
   */
  light(key, tip) {
    if (tip) showTip(tip.text, tip.event);
    else if (this.under) hideTip();
    if (key === this.under) return;
    this.under = key;
    this.redraw();
  }

  /**
   * Keeps an operation framed and says what it takes in every iteration; '' ends that.
   * @param {string} key
   */
  pin(key) {
    this.pinned = key;
    this.tellPinned();
    this.redraw();
  }

  tellPinned() {
    if (!this.pinned) return this.note.replaceChildren();
    const rows = this.rows.map(row => ({row, i: row.find(this.pinned)})).filter(one => one.i >= 0);
    if (rows.length === 0) return this.note.replaceChildren();
    this.note.replaceChildren(make('p', {}, make('strong', {}, rows[0].row.name(rows[0].i)), ' ',
      make('button', {type: 'button', onclick: () => this.pin('')}, 'Unpin')),
    make('dl', {}, rows.flatMap(({row, i}) => [make('dt', {}, row.heading.textContent),
      make('dd', {}, row.describe(i).split('\n').slice(1).join('; '))])));
  }

  /**
   * Brings an operation of the last iteration into the middle of the view.
   * @param {number} i
   */
  reveal(i) {
    const row = this.rows[this.rows.length - 1];
    const {start, duration} = row.iteration.timing;
    if (this.zoom < 1) this.setZoom(1);
    const x = (start[i] + duration[i] / 2) / this.pixel * this.zoom;
    this.view.scrollLeft = x - (this.view.clientWidth - kNames) / 2;
    this.pin(row.key(i));
  }

  redraw() {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      if (!this.view.isConnected) return;
      this.sheet.style.width = this.view.clientWidth + 'px';
      for (const row of this.rows) this.draw(row);
      const share = this.width > 0 ? (this.view.clientWidth - kNames) / this.width : 1;
      this.map.hidden = share >= 1;
      this.seen.style.left = 100 * this.view.scrollLeft / this.width + '%';
      this.seen.style.width = 100 * Math.min(1, share) + '%';
    });
  }

  /** @param {TimelineRow} row */
  draw(row) {
    const {colours} = this;
    if (!colours) return;
    const pen = new TimelinePen(row.canvas, this.view.clientWidth, row.height);
    const scale = this.zoom / this.pixel;
    const left = this.view.scrollLeft;
    const x = (/** @type {number} */ time) => kNames + time * scale - left;
    const from = left / scale;
    const until = (left + this.view.clientWidth - kNames) / scale;
    const {start, duration, end} = row.iteration.timing;
    for (const [stage, operations] of row.stages.entries()) {
      const y = stage * kPitch;
      pen.box(x(0), y, end * scale, kRow, pen.bubble);
      let drawn = -Infinity;
      for (let place = row.firstAfter(operations, from); place < operations.length; ++place) {
        const i = operations[place];
        if (start[i] > until) break;
        const width = duration[i] * scale;
        const at = x(start[i]);
        // What lies within half a pixel of the one before would hide it, and take time.
        if (at + width < drawn + 0.5) continue;
        drawn = at + Math.max(width, 0.5);
        const lowered = row.set.types[row.iteration.order.type[i]].is_forward ? kLowered : 0;
        const {fill, dark} = colours.of(row.power(i));
        const faint = this.search.active && !this.search.matches(row, i);
        pen.operation(at, y + lowered, width, kRow - lowered, fill, faint);
        if (!faint) pen.label(operationLabel(row.set, row.iteration.order, i), at, y + 17.5, width, dark);
      }
    }
    this.drawCritical(pen, row, x, from, until);
    for (const key of [this.under, this.pinned]) {
      const i = key ? row.find(key) : -1;
      if (i < 0 || !(start[i] >= 0)) continue;
      const stage = row.set.types[row.iteration.order.type[i]].stage;
      pen.frame(x(start[i]), stage * kPitch, duration[i] * scale, kRow);
    }
    pen.names(row.set.stages, row.height);
    pen.axis(x, from, until, kTickEvery / scale, row.set.stages * kPitch, end);
  }

  /**
   * A line along the foot of the operations on the critical path.
   * @param {TimelinePen} pen
   * @param {TimelineRow} row
   * @param {(time: number) => number} x
   * @param {number} from
   * @param {number} until
   */
  drawCritical(pen, row, x, from, until) {
    const {order, timing} = row.iteration;
    /** @type {[number, number][]} */
    let line = [];
    for (const i of timing.critical) {
      const type = row.set.types[order.type[i]];
      const start = timing.start[i];
      const finish = start + timing.duration[i];
      if (finish <= from || start >= until) {
        pen.path(line);
        line = [];
      } else if (type.occupies_stage) {
        const y = type.stage * kPitch + kRow - 4.5;
        line.push([x(Math.max(start, from)), y], [x(Math.min(finish, until)), y]);
      }
    }
    pen.path(line);
  }

  // The last iteration as a whole, small.
  drawMap() {
    const row = this.rows[this.rows.length - 1];
    const {colours} = this;
    if (!row || !colours || !this.view.isConnected) return;
    const pitch = Math.min(kMinimapRow, kMostMinimap / row.set.stages);
    const whole = this.view.clientWidth;
    const pen = new TimelinePen(this.minimap, whole, pitch * row.set.stages);
    const scale = whole / this.longest;
    const {start, duration, end} = row.iteration.timing;
    for (const [stage, operations] of row.stages.entries()) {
      pen.box(0, stage * pitch, end * scale, pitch, pen.bubble);
      for (const i of operations) {
        const width = Math.max(duration[i] * scale, 0.3);
        pen.box(start[i] * scale, stage * pitch, width, 0.85 * pitch, colours.of(row.power(i)).fill);
      }
    }
  }
}
