'use strict';
// Figures over time, drawn by dygraphs. Several charts share one stretch of time: dragging over one zooms all of them.

// The legend's plugin writes styles into markup, which the page's policy forbids; ours is text beside the chart.
Dygraph.PLUGINS.splice(Dygraph.PLUGINS.indexOf(Dygraph.Plugins.Legend), 1);

/** @typedef {{label: string, color: string, dashed?: boolean}} Series color: a variable of chart.css, "--p0" */
/** @typedef {{time_s: number, text: string, event: string}} Mark */

/**
 * Whether what happened is bad news.
 * @param {Mark} mark
 */
const isAlarm = ({event, text}) => (event === 'straggler' && !text.endsWith('again')) ||
  (event === 'promise' && !/^(kept|unknown)/.test(text)) || (event === 'state' && /^(failed|lost)/.test(text));

/** Seconds that a reader can ask for, with their names. */
const kSpans = /** @type {[number, string, string][]} */ ([
  [600, '10 min', '10 minutes'], [3600, '1 h', 'hour'], [6 * 3600, '6 h', '6 hours'], [86400, '1 d', 'day'],
  [7 * 86400, '7 d', '7 days'], [31 * 86400, '31 d', '31 days']]);

/** @param {string} variable */
const colorOf = variable => getComputedStyle(document.documentElement).getPropertyValue(variable).trim();

/**
 * @param {string} label
 * @param {string} spoken
 * @param {() => void} action
 */
const tool = (label, spoken, action) => make('button',
  {type: 'button', 'aria-label': spoken, title: spoken, 'data-key': spoken, onclick: action}, label);

/** The stretch of time that a view's charts show: the last `span` seconds, or what a reader has zoomed to. */
class TimeWindow {
  /** @param {number} longest s that there may be figures for */
  constructor(longest = Infinity) {
    this.longest = longest;
    this.span = 600;
    /** @type {[number, number] | null} ms */
    this.zoomed = null;
    /** @type {{follow: () => void}[]} */
    this.charts = [];
    /** @type {() => void} is called when older rows may be needed */
    this.onspan = () => {};
  }

  /** @returns {[number, number]} in ms */
  get range() {
    const now = serverTime();
    return this.zoomed || [now - this.span * 1000, now];
  }

  /** @param {[number, number] | null} range in ms; null: what happens now */
  zoom(range) {
    this.zoomed = range;
    const needed = range ? (serverTime() - range[0]) / 1000 : 0;
    if (needed > this.span) {
      this.span = (kSpans.find(one => one[0] >= needed) || kSpans[kSpans.length - 1])[0];
      this.onspan();
    }
    for (const chart of this.charts) chart.follow();
  }

  /** @param {number} factor how much longer the stretch becomes */
  scale(factor) {
    const [from, until] = this.range;
    const half = Math.max((until - from) * factor / 2, 2500);
    const middle = (from + until) / 2;
    const last = Math.min(middle + half, serverTime());
    this.zoom([last - 2 * half, last]);
  }

  /** @param {number} share of its length by which the stretch moves */
  move(share) {
    const [from, until] = this.range;
    const by = Math.min((until - from) * share, serverTime() - until);
    this.zoom([from + by, until + by]);
  }

  /** Buttons for all charts of the view. */
  tools() {
    const spans = kSpans.filter(one => one[0] <= this.longest).map(([span, label, spoken]) => make('button', {
      type: 'button', 'aria-pressed': String(span === this.span && !this.zoomed), 'aria-label': 'the last ' + spoken,
      'data-key': String(span), onclick: () => {
        this.span = span;
        this.zoom(null);
        this.onspan();
      }}, label));
    return make('div', {class: 'tools', 'data-key': 'tools', role: 'group', 'aria-label': 'Time that the charts show'}, spans,
      tool('\u2212', 'show a longer time', () => this.scale(2)), tool('+', 'show a shorter time', () => this.scale(.5)),
      tool('\u2190', 'earlier', () => this.move(-.5)), tool('\u2192', 'later', () => this.move(.5)));
  }
}

class TimeChart {
  /**
   * @param {string} title with the unit: "Power, W"
   * @param {TimeWindow} shared
   * @param {{stacked?: boolean, text: (value: number) => string, fromZero?: boolean}} options
   */
  constructor(title, shared, options) {
    this.options = options;
    this.window = shared;
    this.title = title;
    /** @type {Series[]} */
    this.series = [];
    /** @type {DygraphRow[]} */
    this.rows = [];
    /** @type {Mark[]} */
    this.marks = [];
    /** @type {Dygraph | null} */
    this.chart = null;
    this.plot = make('div', {class: 'plot', role: 'img', 'aria-label': title});
    this.legend = make('p', {class: 'legend'});
    this.element = make('figure', {class: 'chart', 'data-kept': true, 'data-key': title}, make('figcaption', {}, title), this.plot,
      this.legend);
    shared.charts.push(this);
    this.resized = new ResizeObserver(() => this.chart?.resize());
    this.resized.observe(this.plot);
    this.theme = matchMedia('(prefers-color-scheme: dark)');
    this.rethemed = () => { this.forget(); this.draw(); };
    this.theme.addEventListener('change', this.rethemed);
  }

  forget() {
    this.chart?.destroy();
    this.chart = null;
  }

  close() {
    this.forget();
    this.resized.disconnect();
    this.theme.removeEventListener('change', this.rethemed);
  }

  /**
   * @param {Series[]} series
   * @param {DygraphRow[]} rows a Date, then a figure of each series
   * @param {Mark[]} marks
   */
  show(series, rows, marks) {
    if (series.map(one => one.label).join() !== this.series.map(one => one.label).join()) this.forget();
    this.series = series;
    this.rows = rows;
    this.marks = marks;
    this.draw();
  }

  follow() {
    this.chart?.updateOptions({dateWindow: this.window.range});
    this.tell(null);
  }

  draw() {
    const figures = this.rows.length > 0 && this.series.length > 0;
    this.plot.classList.toggle('empty', !figures);
    this.plot.dataset.none = figures ? '' : 'Nothing is known of this time yet.';
    if (!figures) {
      this.forget();
      this.legend.replaceChildren();
      return;
    }
    if (this.chart) {
      this.chart.updateOptions({file: this.rows, dateWindow: this.window.range});
    } else if (this.plot.isConnected) {
      this.chart = new Dygraph(this.plot, this.rows, this.settings());
    }
    this.tell(null);
  }

  settings() {
    const mouse = {...Dygraph.defaultInteractionModel, dblclick: () => this.window.zoom(null)};
    // A finger scrolls the page; the buttons zoom.
    for (const touch of ['touchstart', 'touchmove', 'touchend']) Reflect.deleteProperty(mouse, touch);
    return {
      labels: ['time', ...this.series.map(one => one.label)],
      colors: this.series.map(one => colorOf(one.color)),
      series: Object.fromEntries(this.series.filter(one => one.dashed)
        .map(one => [one.label, {strokePattern: [5, 4], fillGraph: false}])),
      stackedGraph: Boolean(this.options.stacked) && this.series.length > 1,
      fillGraph: this.options.stacked,
      fillAlpha: .35, strokeWidth: 1.5, highlightCircleSize: 3, connectSeparatedPoints: false,
      includeZero: Boolean(this.options.fromZero),
      gridLineColor: colorOf('--grid'), axisLineColor: colorOf('--line'), axisLabelFontSize: 12,
      axisLabelWidth: 64,
      axes: {y: {axisLabelFormatter: (/** @type {number} */ value) => this.options.text(value), axisLabelWidth: 68,
        pixelsPerLabel: 28}, x: {pixelsPerLabel: 80}},
      dateWindow: this.window.range,
      interactionModel: mouse,
      zoomCallback: (/** @type {number} */ from, /** @type {number} */ until) => this.window.zoom([from, until]),
      highlightCallback: (/** @type {Event} */ _event, /** @type {number} */ _x, /** @type {unknown} */ _points,
        /** @type {number} */ row) => this.tell(row),
      unhighlightCallback: () => this.tell(null),
      underlayCallback: this.drawMarks.bind(this),
    };
  }

  /**
   * @param {CanvasRenderingContext2D} canvas
   * @param {{x: number, y: number, w: number, h: number}} area
   * @param {Dygraph} chart
   */
  drawMarks(canvas, area, chart) {
    canvas.save();
    canvas.lineWidth = 1;
    for (const mark of this.marks) {
      const x = Math.round(chart.toDomXCoord(mark.time_s * 1000)) + .5;
      if (x < area.x || x > area.x + area.w) continue;
      const alarm = isAlarm(mark);
      canvas.strokeStyle = colorOf(alarm ? '--critical' : '--soft');
      canvas.setLineDash(alarm ? [] : [3, 3]);
      canvas.beginPath();
      canvas.moveTo(x, area.y);
      canvas.lineTo(x, area.y + area.h);
      canvas.stroke();
    }
    canvas.restore();
  }

  /** @param {number | null} at a row; null: the last one that is shown */
  tell(at) {
    const [from, until] = this.window.range;
    let row = at === null ? null : this.rows[at];
    for (let k = this.rows.length - 1; !row && k >= 0; --k) {
      const time = Number(this.rows[k][0]);
      if (time < from) break;
      if (time <= until && this.rows[k][1] !== null) row = this.rows[k];
    }
    const time = row ? Number(row[0]) / 1000 : 0;
    const figures = this.series.map((one, index) => {
      const value = row ? row[index + 1] : null;
      return make('span', {},
        make('i', {class: 'dot ' + one.color.replace('--', 'c-') + (one.dashed ? ' dashed' : '')}),
        one.label + ' ', make('strong', {}, typeof value === 'number' ? this.options.text(value) : kNothing));
    });
    renew(this.legend, [make('span', {class: 'when'}, row ? momentText(time) : 'nothing in this time'), ...figures]);
    const last = figures.map(one => one.textContent).join(', ');
    this.plot.setAttribute('aria-label', `${this.title}. ${row ? `At ${momentText(time)}: ${last}` : 'No figures'}`);
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
