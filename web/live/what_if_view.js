'use strict';
// What plans there would be for a profile, or for what a job has measured: every planner's frontier, and the timeline of
// whichever point is chosen. Nothing that runs changes by it.

const kSchedules = ['1f1b', 'gpipe', 'interleaved-1f1b', 'early-recompute-1f1b', 'zb-h1'];

/** @param {string} job */
const whatIfAddress = job => '#/what-if/' + encodeURIComponent(job);

/** @param {HTMLInputElement} field */
const numberIn = field => field.value ? Number(field.value) : undefined;

/** @param {PlanPoint} point */
const placeOf = point => /** @type {[number, number]} */ ([point.time_s, point.energy_j]);

class WhatIfView {
  /**
   * @param {Source} source
   * @param {string} job whose measurements are taken at first; '': none
   */
  constructor(source, job) {
    this.source = source;
    this.title = 'What if';
    this.asksByItself = true;
    this.job = job;
    this.order = new Order(source);
    /** @type {AbortController | null} what is being planned */
    this.planning = null;
    /** @type {PlanSet | null} */
    this.set = null;
    this.timelines = new Timelines();
    this.picker = new PlanPicker(this.timelines, () => this.mark());
    this.chart = new EnergyChart('Energy of an iteration of one pipeline over its time, by planner', 'planners',
      (time, energy) => this.pickNear(time, energy));
    this.file = /** @type {HTMLInputElement} */ (make('input', {type: 'file', accept: '.csv,text/csv'}));
    this.jobs = /** @type {HTMLSelectElement} */ (make('select', {}));
    this.microbatches = /** @type {HTMLInputElement} */ (make('input', {type: 'number', min: 1, max: 65536}));
    this.schedule = /** @type {HTMLSelectElement} */ (make('select', {},
      make('option', {value: ''}, 'as it is, or 1f1b'), kSchedules.map(name => make('option', {value: name}, name))));
    this.chunks = /** @type {HTMLInputElement} */ (make('input', {type: 'number', min: 1, max: 64}));
    this.form = make('form', {class: 'what-if', 'data-kept': true, 'data-key': 'form', onsubmit: event => {
      event.preventDefault();
      this.plan();
    }},
    make('label', {}, 'Job', this.jobs), make('label', {}, 'or a profile (CSV)', this.file),
    make('label', {}, 'Microbatches', this.microbatches), make('label', {}, 'Schedule', this.schedule),
    make('label', {}, 'Chunks', this.chunks), make('button', {}, 'Plan'));
    if (job) this.plan();
  }

  // The jobs that the page knows; a job that it was opened for may be one that this token does not list.
  renewJobs() {
    const names = [...new Set([this.job, ...this.source.jobs.keys()].filter(Boolean))];
    const known = [...this.jobs.options].slice(1).map(one => one.value);
    if (this.jobs.options.length > 0 && names.join('\n') === known.join('\n')) return;
    const chosen = this.jobs.value || this.job;
    this.jobs.replaceChildren(make('option', {value: ''}, 'none'),
      ...names.map(name => make('option', {value: name}, name)));
    this.jobs.value = names.includes(chosen) ? chosen : '';
  }

  /** What the form asks for, without the planner. */
  async request() {
    const [file] = this.file.files || [];
    return {
      ...(file ? {profile: await file.text()} : {job: this.jobs.value || this.job}),
      ...(this.schedule.value ? {schedule: this.schedule.value} : {}),
      microbatches: numberIn(this.microbatches), chunks: numberIn(this.chunks),
    };
  }

  // The main planner's frontier comes first, the others' follow. What was asked before is no longer planned.
  async plan() {
    this.planning?.abort();
    const planning = this.planning = new AbortController();
    this.order.say('Planning.');
    try {
      const request = await this.request();
      this.show(await this.source.order('v1/what-if', request, planning.signal), null);
      this.order.say('Planning with the other planners.');
      const all = await this.source.order('v1/what-if', {...request, planner: 'all'}, planning.signal);
      this.show(all, this.picker.curve === 0 && this.picker.point !== null ? this.picker.shown : null);
      this.order.say(all.not_planned.length > 0 ? `Not planned in time: ${all.not_planned.join(', ')}.` : '');
    } catch (error) {
      if (!planning.signal.aborted) this.order.say(`The server has not planned this: ${wordsOf(error)}`, true);
    }
  }

  /**
   * @param {PlanSet} set
   * @param {PlanPoint | null} kept what a reader has chosen meanwhile
   */
  show(set, kept) {
    const powers = [...new Set([Math.min(...set.blocking_w), Math.max(...set.blocking_w)])];
    this.timelines.waiting = `blocking, ${powers.map(shortNumber).join(' to ')} W`;
    this.set = set;
    this.picker.show(set);
    if (kept) this.picker.pick(0, nearestPoint(set.plans[0].points, kept.time_s));
    this.source.changed();
  }

  /**
   * @param {number} time in s
   * @param {number} energy in J
   */
  pickNear(time, energy) {
    const {set} = this;
    if (!set) return;
    const all = set.plans.flatMap(one => one.points);
    const [wide, high] = [all.map(one => one.time_s), all.map(one => one.energy_j)].map(
      values => Math.max(...values) - Math.min(...values) || 1);
    this.picker.pickNearest(point => Math.hypot((point.time_s - time) / wide, (point.energy_j - energy) / high));
  }

  // Draws the frontiers with the point that is shown.
  mark() {
    const {set, picker} = this;
    if (!set) return;
    const {shown} = picker;
    const [maximum] = set.iterations;
    const colour = (/** @type {string} */ name) => {
      const at = set.plans.findIndex(one => one.planner === name);
      return at < 0 ? '' : `c-p${at % 10}`;
    };
    this.chart.draw([
      ...set.plans.map(({planner, points}, at) => ({name: planner, color: `--p${at % 10}`,
        size: points.length < 2 ? 5 : 0, points: points.map(placeOf)})),
      {name: 'maximum clocks', color: '--ink', size: 5,
        points: [[picker.iterations[0].timing.end / 1e9, maximum.energy_j]]},
      {name: 'shown', color: '--critical', size: 8, points: shown ? [placeOf(shown)] : []},
    ], under => this.chart.say(`Frontiers of ${countText(set.plans.length, 'planner')}`, [
      ...set.plans.map(({planner}) => make('span', {}, make('i', {class: 'dot ' + colour(planner)}), planner)),
      under ? pointText(under.name, colour(under.name), under.xval, under.yval) : null]));
  }

  shown() {
    this.renewJobs();
    return [make('h1', {}, 'What if'),
      make('p', {class: 'note'}, 'Plans to look at: nothing that runs changes by them. Choose a job, whose measurements ' +
        'are taken, or a profile as a file, with other numbers where you like.'),
      this.form, this.order.saying(),
      ...this.set ? [this.chart.element, this.picker.element, this.timelines.element] : []];
  }

  drawn() {
    this.mark();
  }

  close() {
    this.planning?.abort();
    this.chart.close();
    this.timelines.close();
  }
}
