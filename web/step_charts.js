// <step-charts>: figures over time that stay the same from one change to the next, drawn as the live pages draw theirs.
// src/report/time_charts.cpp writes the data.

/**
 * A line has values between each two of its times, none where nothing is known. Times are in the charts' unit and rise;
 * where there are only two, values are equally far apart between them.
 * @typedef {{times: number[], values: (number | null)[]}} StepLine
 * @typedef {{label: string, color: string, dashed: boolean, filled: boolean, line: number}} StepSeries line: an index
 * @typedef {{title: string, unit: string, most: number | null, series: StepSeries[]}} StepChart
 * @typedef {{unit: string, lines: StepLine[], charts: StepChart[]}} StepCharts
 */

const STEP_SIDE = 1e-9;  // of the whole time: how near to a change the figures before and after it stand

/** @param {StepLine} line */
function allTimes({times, values}) {
  if (times.length > 2) return times;
  const step = (times[1] - times[0]) / values.length;
  return values.map((_, at) => times[0] + at * step).concat(times[1]);
}

/**
 * The value at a time, or null.
 * @param {StepLine} line
 * @param {number} time
 */
function stepValue({times, values}, time) {
  let from = 0;
  let until = times.length;
  while (from < until) {
    const middle = (from + until) >> 1;
    if (times[middle] <= time) from = middle + 1;
    else until = middle;
  }
  return from > 0 && from < times.length ? values[from - 1] : null;
}

/**
 * Rows of a chart, two at each change of one of the lines.
 * @param {StepLine[]} lines
 * @param {number} side how far from the change
 * @returns {DygraphRow[]}
 */
function stepRows(lines, side) {
  const changes = [...new Set(lines.flatMap(line => line.times))].sort((a, b) => a - b);
  const times = changes.flatMap(change => [change - side, change + side]).slice(1, -1);
  return times.map(time => {
    /** @type {DygraphRow} */
    const row = [time];
    for (const line of lines) row.push(stepValue(line, time));
    return row;
  });
}

/** @param {string} unit */
const stepText = unit => unit === 'W' ? powerText :
  (/** @type {Figure} */ value) => typeof value === 'number' ? String(Number(value.toFixed(1))) : kNothing;

customElements.define('step-charts', class extends HTMLElement {
  connectedCallback() {
    if (this.window) return;
    /** @type {StepCharts} */
    const data = JSON.parse(part(this, '.steps').textContent || '');
    for (const line of data.lines) line.times = allTimes(line);
    const times = data.lines.flatMap(({times: all}) => [all[0], all[all.length - 1]]);
    const begin = Math.min(...times);
    const end = Math.max(...times);
    this.window = new TimeWindow(begin, end, data.unit);
    const charts = data.charts.map(({title, unit, most, series}) => {
      const chart = new TimeChart(title, /** @type {TimeWindow} */ (this.window), {text: stepText(unit), fromZero: true,
        most: most ?? undefined});
      return {chart, series, rows: stepRows(series.map(one => data.lines[one.line]), STEP_SIDE * (end - begin))};
    });
    this.append(this.window.tools(), make('div', {class: 'charts'}, charts.map(one => one.chart.element)));
    for (const {chart, series, rows} of charts) chart.show(series, rows, []);
  }
});
