'use strict';
// A job's frontier: what an iteration may take and what energy it costs then, with what the ranks measure.

/** @typedef {{time_s: number, energy_j: number, lower_bound_j: Figure}} FrontierPoint */
/**
 * @typedef {object} Frontier
 * @property {number} base_point
 * @property {number} max_clock_time_s
 * @property {number} max_clock_energy_j
 * @property {string} limited_by
 * @property {FrontierPoint[]} points
 */

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

/**
 * @param {FrontierPoint[]} points at least one
 * @param {number} time in s
 */
function nearestPoint(points, time) {
  const away = points.map(point => Math.abs(point.time_s - time));
  return away.indexOf(Math.min(...away));
}

class FrontierChart {
  /** @param {(point: number) => void} choose what becomes of a click */
  constructor(choose) {
    this.choose = choose;
    this.plot = make('div', {class: 'plot', role: 'img'});
    this.legend = make('p', {class: 'legend'});
    this.element = make('figure', {class: 'chart frontier-chart', 'data-kept': true, 'data-key': 'frontier'},
      make('figcaption', {}, 'Energy of an iteration of one pipeline over its time'), this.plot, this.legend);
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
   * @param {Frontier} frontier
   * @param {number} inForce a point
   * @param {number | null} chosen a point
   * @param {{time: number, energy: number} | null} measured
   */
  show(frontier, inForce, chosen, measured) {
    const drawn = JSON.stringify([frontier, inForce, chosen, measured]);
    if (drawn === this.drawn || !this.plot.isConnected) return;
    this.drawn = drawn;
    const {points} = frontier;
    const names = ['planned', 'in force', 'maximum clocks', 'measured', 'chosen'];
    /** @type {DygraphRow[]} */
    const rows = points.map((point, at) => [point.time_s, point.energy_j, at === inForce ? point.energy_j : null, null, null,
      at === chosen ? point.energy_j : null]);
    rows.push([frontier.max_clock_time_s, null, null, frontier.max_clock_energy_j, null, null]);
    if (measured) rows.push([measured.time, null, null, null, measured.energy, null]);
    rows.sort((a, b) => Number(a[0]) - Number(b[0]));
    const colors = ['--p0', '--p2', '--p6', '--p5', '--p1'];
    const mark = {drawPoints: true, pointSize: 6, strokeWidth: 0, highlightCircleSize: 7};
    this.chart?.destroy();
    this.chart = new Dygraph(this.plot, rows, {
      labels: ['time', ...names], colors: colors.map(colorOf), connectSeparatedPoints: true, strokeWidth: 1.75,
      drawPoints: true, pointSize: 1.5, series: {'in force': mark, 'maximum clocks': mark, measured: mark,
        chosen: {...mark, pointSize: 8}},
      gridLineColor: colorOf('--grid'), axisLineColor: colorOf('--line'), axisLabelFontSize: 12,
      axes: {x: {axisLabelFormatter: (/** @type {number} */ value) => timeText(value), pixelsPerLabel: 90},
        y: {axisLabelFormatter: (/** @type {number} */ value) => energyText(value), axisLabelWidth: 68,
          pixelsPerLabel: 28}},
      xRangePad: 14, yRangePad: 14, interactionModel: {},
      highlightCallback: (/** @type {Event} */ _event, /** @type {number} */ _x,
        /** @type {{name: string, xval: number, yval: number}[]} */ under) => this.tell(frontier, points[inForce], measured, under[0]),
      unhighlightCallback: () => this.tell(frontier, points[inForce], measured),
      clickCallback: (/** @type {Event} */ _event, /** @type {number} */ time) => this.choose(nearestPoint(points, time)),
    });
    this.tell(frontier, points[inForce], measured);
  }

  /**
   * @param {Frontier} frontier
   * @param {FrontierPoint | undefined} inForce
   * @param {{time: number, energy: number} | null} measured
   * @param {{name: string, xval: number, yval: number}} [under] the pointer
   */
  tell(frontier, inForce, measured, under) {
    const all = [
      under && under.name === 'planned' ? pointText('this point', 'c-p0', under.xval, under.yval) : null,
      inForce ? pointText('in force', 'c-p2', inForce.time_s, inForce.energy_j) : null,
      pointText('maximum clocks', 'c-p6', frontier.max_clock_time_s, frontier.max_clock_energy_j),
      measured ? pointText('measured', 'c-p5', measured.time, measured.energy) : null];
    const shown = /** @type {HTMLElement[]} */ (all.filter(Boolean));
    renew(this.legend, shown);
    this.plot.setAttribute('aria-label', `Frontier of ${countText(frontier.points.length, 'point')}: ` +
      shown.map(one => one.textContent).join('; '));
  }
}
