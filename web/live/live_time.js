'use strict';
// Time that goes on: the stretch of it that a view's charts show, and what the server has kept of it.

/** @typedef {{time_s: number, text: string, event: string}} PastEvent */

/**
 * Whether what happened is bad news.
 * @param {PastEvent} event
 */
const isAlarm = ({event, text}) => ((event === 'straggler' || event === 'gpu') && !text.endsWith('again')) ||
  (event === 'promise' && !/^(kept|unknown)/.test(text)) || (event === 'state' && /^(failed|lost|silent)/.test(text));

/** Seconds that a reader can ask for, with their names. */
const kSpans = /** @type {[number, string, string][]} */ ([
  [600, '10 min', '10 minutes'], [3600, '1 h', 'hour'], [6 * 3600, '6 h', '6 hours'], [86400, '1 d', 'day'],
  [7 * 86400, '7 d', '7 days'], [31 * 86400, '31 d', '31 days']]);

/** The last `span` seconds, or what a reader has zoomed to. Times are in ms. */
class LiveWindow extends TimeWindow {
  /** @param {number} longest s that there may be figures for */
  constructor(longest = Infinity) {
    super(-Infinity, Infinity, 'ms');
    this.longest = longest;
    this.span = 600;
    /** @type {() => void} is called when older rows may be needed */
    this.onspan = () => {};
  }

  /** @returns {[number, number]} @override */
  get whole() {
    const now = serverTime();
    return [now - this.span * 1000, now];
  }

  /** @returns {[number, number]} @override */
  get limits() {
    return [-Infinity, serverTime()];
  }

  /** @override */
  get shortest() {
    return 5000;
  }

  /** @override */
  get axis() {
    return {pixelsPerLabel: 80, axisLabelFormatter: Dygraph.dateAxisLabelFormatter};
  }

  /**
   * @param {number} time
   * @override
   */
  timeText(time) {
    return momentText(time / 1000);
  }

  /**
   * @param {[number, number] | null} range null: what happens now
   * @override
   */
  zoom(range) {
    const needed = range ? (serverTime() - range[0]) / 1000 : 0;
    const isLonger = needed > this.span;
    if (isLonger) this.span = (kSpans.find(one => one[0] >= needed) || kSpans[kSpans.length - 1])[0];
    super.zoom(range);
    if (isLonger) this.onspan();
  }

  /** @override */
  spans() {
    return kSpans.filter(one => one[0] <= this.longest).map(([span, label, spoken]) => make('button', {
      type: 'button', 'aria-pressed': String(span === this.span && !this.zoomed), 'aria-label': 'the last ' + spoken,
      'data-key': String(span), onclick: () => {
        this.span = span;
        this.zoom(null);
        this.onspan();
      }}, label));
  }
}

/**
 * Rows of a history as the server tells them. Of seconds only what is new is asked for; of coarser rows, which are few,
 * all of them again.
 */
class Past {
  /**
   * @param {Asker} source
   * @param {string} path "v1/jobs/ID/history", perhaps with a query
   */
  constructor(source, path) {
    this.source = source;
    this.path = path;
    /** @type {any[]} */
    this.rows = [];
    /** @type {any[]} */
    /** @type {PastEvent[]} */
    this.events = [];
    this.step = 1;
    this.span = 0;
    this.asked = 0;
  }

  /**
   * Asks for what is new, at most once in a quarter of a step.
   * @param {number} span s
   */
  async renew(span) {
    const now = serverTime() / 1000;
    const whole = span !== this.span || this.rows.length === 0 || this.step > 1;
    if (span === this.span && now - this.asked < Math.max(1, this.step / 4)) return;
    this.asked = now;
    this.span = span;
    // A little less than an hour ago, of which the server has seconds.
    const from = whole ? now - span + 2 : this.rows[this.rows.length - 1].time_s - 2;
    const sign = this.path.includes('?') ? '&' : '?';
    const told = await this.source.ask(`${this.path}${sign}from_s=${Math.floor(from)}`);
    if (span !== this.span) return;  // the reader has asked for another one meanwhile
    this.step = {second: 1, minute: 60, hour: 3600}[/** @type {'second'} */ (told.step)];
    const first = whole ? 0 : from;
    this.rows = this.rows.filter(row => row.time_s < Math.floor(first) && row.time_s >= now - span).concat(told.rows);
    this.events = this.events.filter(event => event.time_s < Math.floor(first)).concat(told.events || []);
  }

  /** What a chart marks. */
  get marks() {
    return this.events.map(event => ({time: event.time_s * 1000, alarm: isAlarm(event)}));
  }

  /**
   * Rows for a chart; a gap of more than two steps is left open.
   * @param {((row: any) => Figure)[]} figures
   * @returns {DygraphRow[]}
   */
  charted(figures) {
    /** @type {DygraphRow[]} */
    const out = [];
    let before = NaN;
    for (const row of this.rows) {
      if (row.time_s - before > 2.5 * this.step) {
        out.push([new Date((before + this.step) * 1000), ...figures.map(() => null)]);
      }
      out.push([new Date(row.time_s * 1000), ...figures.map(figure => figure(row) ?? null)]);
      before = row.time_s;
    }
    return out;
  }
}

/**
 * The clocks that GPUs held, and those that they were asked to hold at most.
 * @param {TimeChart} chart
 * @param {Past} past of a job or of a node
 */
function showClocks(chart, past) {
  chart.show([{label: 'clock', color: '--p2'}, {label: 'asked for', color: '--p6', dashed: true}],
    past.charted([row => row.clock_mhz, row => row.asked_clock_mhz]), past.marks);
}
