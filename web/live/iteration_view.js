'use strict';
// A job's last iteration: as it was planned, and below that as it was measured.

/**
 * What the server tells of it (MeasuredIteration of docs/openapi.yaml).
 * @typedef {object} MeasuredIteration
 * @property {string} missing
 * @property {number} version
 * @property {number} step
 * @property {number} measured_at_s
 * @property {number} promised_time_s
 * @property {number} planned_time_s
 * @property {number} measured_time_s
 * @property {number} clock_changes
 * @property {string[]} clocks
 * @property {{instruction: string, letters: string, is_forward: boolean, occupies_stage: boolean, stage: number,
 *   settings: {clock_mhz: number, time_s: number, energy_j: number}[]}[]} types
 * @property {{type: number[], microbatch: number[], chunk: number[], setting: number[], waits_for: number[][],
 *   planned_begin_s: number[], planned_time_s: number[], measured_begin_s: Figure[], measured_time_s: Figure[],
 *   late_s: Figure[], added_s: Figure[]}} operations
 */

const kBetweenAsked = 5000;  // ms; ranks report much more seldom
const kLateShown = 5;

/** @param {Figure} time in s */
const nanoseconds = time => typeof time === 'number' ? Math.round(time * 1e9) : NaN;

/** @param {Figure} time in s */
const milliseconds = time => typeof time === 'number' ? (time * 1e3).toFixed(2) : kNothing;

class IterationView {
  /**
   * @param {Source} source
   * @param {string} path of the job
   */
  constructor(source, path) {
    this.source = source;
    this.path = path + '/iteration';
    this.asked = -kBetweenAsked;
    /** @type {MeasuredIteration | null} */
    this.told = null;
    /** @type {MeasuredIteration | null} */
    this.drawnLast = null;
    this.timelines = new Timelines('waiting');
  }

  async ask() {
    const now = performance.now();
    if (now - this.asked < kBetweenAsked) return;
    this.asked = now;
    const told = await this.source.ask(this.path);
    if (!this.told || told.missing !== this.told.missing || told.measured_at_s !== this.told.measured_at_s) this.told = told;
  }

  close() {
    this.timelines.close();
  }

  /** Draws what shown() has put into the page. */
  drawn() {
    const {told} = this;
    if (!told || told.missing || told === this.drawnLast) return;
    this.drawnLast = told;
    const {operations} = told;
    const order = {type: operations.type, microbatch: operations.microbatch, chunk: operations.chunk,
      after: operations.waits_for};
    const options = operations.setting;
    const set = {stages: told.clocks.length,
      types: told.types.map(({settings, ...type}) => ({...type, clocks_mhz: settings.map(one => one.clock_mhz),
        times_s: settings.map(one => one.time_s), energies_j: settings.map(one => one.energy_j)}))};
    const planned = timingOf(set, order, Float64Array.from(operations.planned_time_s, nanoseconds));
    // The first computation stands below itself, whatever is planned before it.
    const first = planned.start[0] - nanoseconds(operations.planned_begin_s[0]);
    const start = Float64Array.from(operations.measured_begin_s, time => first + nanoseconds(time));
    const measured = {start, duration: Float64Array.from(operations.measured_time_s, nanoseconds),
      slack: new Float64Array(start.length).fill(NaN), critical: [], end: first + nanoseconds(told.measured_time_s)};
    const late = (/** @type {number} */ i) => typeof operations.late_s[i] === 'number' ?
      `late by ${milliseconds(operations.late_s[i])} ms, of which it added ${milliseconds(operations.added_s[i])} ms` : '';
    this.timelines.show(set, [{heading: `Planned: ${timeText(told.planned_time_s)}`, order, options, timing: planned},
      {heading: `Measured: ${timeText(told.measured_time_s)}`, order, options, timing: measured, remark: late}]);
  }

  /** @returns {Node[]} */
  shown() {
    const {told} = this;
    if (!told) return [];
    const title = heading('Last iteration');
    if (told.missing) return [title, make('p', {class: 'note'}, `None is known: ${told.missing}.`)];
    const device = told.clocks.every(clock => clock === 'device');
    const host = told.clocks.every(clock => clock === 'host');
    const whose = device ? 'Times are the GPUs\u2019.' : `Times ${host ? '' : 'of some stages '}are those of calls in the ` +
      'training\u2019s processes: the GPUs\u2019 only if these wait for them.';
    return [title, make('p', {class: 'note'}, `Step ${told.step} by schedules of version ${told.version}, measured at ` +
      `${momentText(told.measured_at_s)}; promised ${timeText(told.promised_time_s)}; ` +
      `${countText(told.clock_changes, 'clock change')} by plan. ${whose}`),
    this.timelines.element, this.latest(told)];
  }

  /** @param {MeasuredIteration} told */
  latest({operations, types}) {
    const added = (/** @type {number} */ i) => operations.added_s[i] || 0;
    const late = operations.type.map((_, i) => i).filter(i => added(i) > 5e-6).sort((a, b) => added(b) - added(a));
    return table('Operations that made the iteration late', ['Operation', 'Stage', 'Took, ms', 'Planned, ms', 'Late, ms',
      'Added, ms'], late.slice(0, kLateShown).map(i => [
      `${types[operations.type[i]].instruction} ${operations.microbatch[i]}`, types[operations.type[i]].stage,
      milliseconds(operations.measured_time_s[i]), milliseconds(operations.planned_time_s[i]),
      milliseconds(operations.late_s[i]), milliseconds(operations.added_s[i])]), 'No operation was later than planned.');
  }
}
