'use strict';
// Figures over time, drawn by dygraphs. Several charts share one stretch of time: dragging over one zooms all of them.

// The legend's plugin writes styles into markup, which the page's policy forbids; ours is text beside the chart.
Dygraph.PLUGINS.splice(Dygraph.PLUGINS.indexOf(Dygraph.Plugins.Legend), 1);

/**
 * @typedef {{label: string, color: string, dashed?: boolean, filled?: boolean}} Series
 * color: a variable of chart.css, "--p0"; filled: down to the axis, as stacked ones are unless they are dashed
 */
/** @typedef {{time: number, alarm: boolean}} Mark */

/** @param {string} variable */
const colorOf = variable => getComputedStyle(document.documentElement).getPropertyValue(variable).trim();

/**
 * @param {string} label
 * @param {string} spoken
 * @param {() => void} action
 */
const tool = (label, spoken, action) => make('button',
  {type: 'button', 'aria-label': spoken, title: spoken, 'data-key': spoken, onclick: action}, label);

/** The stretch of time that several charts show: the whole of it, or what a reader has zoomed to. */
class TimeWindow {
  /**
   * @param {number} begin in `unit`
   * @param {number} end
   * @param {string} unit "h"
   */
  constructor(begin, end, unit) {
    this.begin = begin;
    this.end = end;
    this.unit = unit;
    /** @type {[number, number] | null} */
    this.zoomed = null;
    /** @type {{follow: () => void}[]} */
    this.charts = [];
  }

  /** @returns {[number, number]} what is shown where nobody has zoomed */
  get whole() {
    return [this.begin, this.end];
  }

  /** @returns {[number, number]} */
  get range() {
    return this.zoomed || this.whole;
  }

  /** @returns {[number, number]} the first and the last time that there may be figures of */
  get limits() {
    return [this.begin, this.end];
  }

  /** The shortest stretch that a reader can zoom to by the buttons. */
  get shortest() {
    return (this.end - this.begin) / 1000;
  }

  /** @returns {{pixelsPerLabel: number, axisLabelFormatter: unknown}} what a chart needs to know of its axis of time */
  get axis() {
    return {pixelsPerLabel: 80, axisLabelFormatter: (/** @type {number} */ time) => this.timeText(time)};
  }

  /** @param {number} time */
  timeText(time) {
    const [from, until] = this.range;
    const decimals = Math.max(0, 2 - Math.floor(Math.log10(Math.max(until - from, 1e-9))));
    return `${Number(time.toFixed(Math.min(decimals, 9)))}\u00a0${this.unit}`;
  }

  /** @param {[number, number] | null} range null: the whole */
  zoom(range) {
    this.zoomed = range;
    for (const chart of this.charts) chart.follow();
  }

  /** @param {number} factor how much longer the stretch becomes */
  scale(factor) {
    const [from, until] = this.range;
    const [first, last] = this.limits;
    const length = Math.max((until - from) * factor, this.shortest);
    const end = Math.min(Math.max((from + until + length) / 2, first + length), last);
    this.zoom(length < last - first ? [end - length, end] : null);
  }

  /** @param {number} share of its length by which the stretch moves */
  move(share) {
    const [from, until] = this.range;
    const [first, last] = this.limits;
    const by = Math.min(Math.max((until - from) * share, first - from), last - until);
    this.zoom([from + by, until + by]);
  }

  /** @returns {HTMLElement[]} buttons that show a stretch of a certain length */
  spans() {
    return [tool('all', 'the whole time', () => this.zoom(null))];
  }

  /** Buttons for all charts of the view. */
  tools() {
    return make('div', {class: 'tools', 'data-key': 'tools', role: 'group', 'aria-label': 'Time that the charts show'},
      this.spans(), tool('\u2212', 'show a longer time', () => this.scale(2)), tool('+', 'show a shorter time', () => this.scale(.5)),
      tool('\u2190', 'earlier', () => this.move(-.5)), tool('\u2192', 'later', () => this.move(.5)));
  }
}

class TimeChart {
  /**
   * @param {string} title with the unit: "Power, W"
   * @param {TimeWindow} shared
   * @param {{stacked?: boolean, text: (value: number) => string, fromZero?: boolean, most?: number}} options
   *   `most`: where the axis of values ends
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
   * @param {DygraphRow[]} rows the time, then a figure of each series
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
      series: Object.fromEntries(this.series.map(one => [one.label, {strokePattern: one.dashed ? [5, 4] : null,
        fillGraph: one.filled ?? Boolean(this.options.stacked && !one.dashed)}])),
      stackedGraph: Boolean(this.options.stacked) && this.series.length > 1,
      fillAlpha: .35, strokeWidth: 1.5, highlightCircleSize: 3, connectSeparatedPoints: false,
      includeZero: Boolean(this.options.fromZero),
      valueRange: this.options.most === undefined ? null : [0, this.options.most],
      gridLineColor: colorOf('--grid'), axisLineColor: colorOf('--line'), axisLabelFontSize: 12,
      axisLabelWidth: 64,
      axes: {y: {axisLabelFormatter: (/** @type {number} */ value) => this.options.text(value), axisLabelWidth: 68,
        pixelsPerLabel: 28}, x: this.window.axis},
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
      const x = Math.round(chart.toDomXCoord(mark.time)) + .5;
      if (x < area.x || x > area.x + area.w) continue;
      canvas.strokeStyle = colorOf(mark.alarm ? '--critical' : '--soft');
      canvas.setLineDash(mark.alarm ? [] : [3, 3]);
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
      if (time <= until && this.rows[k].slice(1).some(value => value !== null)) row = this.rows[k];
    }
    const time = row ? this.window.timeText(Number(row[0])) : '';
    const figures = this.series.map((one, index) => {
      const value = row ? row[index + 1] : null;
      return make('span', {},
        make('i', {class: 'dot ' + one.color.replace('--', 'c-') + (one.dashed ? ' dashed' : '')}),
        one.label + ' ', make('strong', {}, typeof value === 'number' ? this.options.text(value) : kNothing));
    });
    renew(this.legend, [make('span', {class: 'when'}, time || 'nothing in this time'), ...figures]);
    const last = figures.map(one => one.textContent).join(', ');
    this.plot.setAttribute('aria-label', `${this.title}. ${row ? `At ${time}: ${last}` : 'No figures'}`);
  }
}
