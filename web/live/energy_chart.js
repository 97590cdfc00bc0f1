'use strict';
// Energy of an iteration over its time: curves of plans, and single points beside them.

/**
 * @typedef {{name: string, color: string, points: [number, number][], size?: number}} EnergySeries
 * time in s, energy in J; color: a variable of chart.css; size: of the points, px; without one they make a curve
 */

class EnergyChart {
  /**
   * @param {string} caption
   * @param {string} key
   * @param {(time: number, energy: number) => void} choose what becomes of a click
   */
  constructor(caption, key, choose) {
    this.choose = choose;
    this.plot = make('div', {class: 'plot', role: 'img'});
    // The library tells of clicks only where it may zoom, too.
    this.plot.addEventListener('click', event => this.click(event));
    this.legend = make('p', {class: 'legend'});
    this.element = make('figure', {class: 'chart frontier-chart', 'data-kept': true, 'data-key': key},
      make('figcaption', {}, caption), this.plot, this.legend);
    /** @type {Dygraph | null} */
    this.chart = null;
    this.drawn = '';
    this.resized = new ResizeObserver(() => this.chart?.resize());
    this.resized.observe(this.plot);
    this.theme = matchMedia('(prefers-color-scheme: dark)');
    this.rethemed = () => { this.drawn = ''; };
    this.theme.addEventListener('change', this.rethemed);
  }

  close() {
    this.chart?.destroy();
    this.chart = null;
    this.resized.disconnect();
    this.theme.removeEventListener('change', this.rethemed);
  }

  /**
   * @param {EnergySeries[]} series
   * @param {(under?: {name: string, xval: number, yval: number}) => void} tell what is pointed at, if anything
   */
  draw(series, tell) {
    const drawn = JSON.stringify(series);
    if (drawn === this.drawn || !this.plot.isConnected) return;
    this.drawn = drawn;
    /** @type {DygraphRow[]} */
    const rows = series.flatMap(({points}, at) => points.map(([time, energy]) =>
      /** @type {DygraphRow} */ ([time, ...series.map((_, other) => other === at ? energy : null)])));
    rows.sort((a, b) => Number(a[0]) - Number(b[0]));
    this.chart?.destroy();
    this.chart = new Dygraph(this.plot, rows, {
      labels: ['time', ...series.map(one => one.name)], colors: series.map(one => colorOf(one.color)),
      connectSeparatedPoints: true, strokeWidth: 1.75, drawPoints: true, pointSize: 1.5,
      series: Object.fromEntries(series.filter(one => one.size).map(one => [one.name, {drawPoints: true,
        pointSize: one.size, strokeWidth: 0, highlightCircleSize: Number(one.size) + 1}])),
      gridLineColor: colorOf('--grid'), axisLineColor: colorOf('--line'), axisLabelFontSize: 12,
      axes: {x: {axisLabelFormatter: (/** @type {number} */ value) => timeText(value), pixelsPerLabel: 90},
        y: {axisLabelFormatter: (/** @type {number} */ value) => energyText(value), axisLabelWidth: 68,
          pixelsPerLabel: 28}},
      xRangePad: 14, yRangePad: 14, interactionModel: {},
      highlightCallback: (/** @type {Event} */ _event, /** @type {number} */ _x,
        /** @type {{name: string, xval: number, yval: number}[]} */ under) => tell(under[0]),
      unhighlightCallback: () => tell(),
    });
    tell();
  }

  /** @param {MouseEvent} event */
  click(event) {
    if (!this.chart) return;
    const box = this.plot.getBoundingClientRect();
    const [time, energy] = this.chart.toDataCoords(event.clientX - box.left, event.clientY - box.top);
    this.choose(time, energy);
  }

  /**
   * @param {string} what
   * @param {(HTMLElement | null)[]} said
   */
  say(what, said) {
    const shown = /** @type {HTMLElement[]} */ (said.filter(Boolean));
    renew(this.legend, shown);
    this.plot.setAttribute('aria-label', `${what}: ${shown.map(one => one.textContent).join('; ')}`);
  }
}

/**
 * @param {string} name
 * @param {string} css the dot's colour
 * @param {number} time in s
 * @param {number} energy in J
 */
function pointText(name, css, time, energy) {
  return make('span', {}, make('i', {class: 'dot ' + css}), name + ' ',
    make('strong', {}, `${timeText(time)}, ${energyText(energy)}`));
}
