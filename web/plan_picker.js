'use strict';
// Chooses one of a set's plans, by planner and by time, and shows its timeline below that of the iteration that plans
// are compared with.

/**
 * @param {number} value
 * @param {number} than
 * @param {number} digits
 */
const changedBy = (value, than, digits) => (value > than ? '+' : '') +
  (100 * (value / than - 1)).toFixed(digits) + ' %';

/**
 * What an iteration takes, in J, with waiting for a straggler.
 * @param {{energy_j: number, straggler_wait_j: number}} one
 */
const wholeEnergy = one => one.energy_j + one.straggler_wait_j;

class PlanPicker {
  /**
   * @param {Timelines} timelines
   * @param {() => void} changed what becomes of a choice
   */
  constructor(timelines, changed = () => {}) {
    this.timelines = timelines;
    this.changed = changed;
    /** @type {PlanSet | null} */
    this.set = null;
    /** @type {DrawnIteration[]} the set's */
    this.iterations = [];
    this.remark = '';
    this.curve = 0;
    /** @type {number | null} a point of the curve; none: the set's last iteration */
    this.point = null;
    this.planner = /** @type {HTMLSelectElement} */ (make('select', {'aria-label': 'Planner',
      onchange: () => this.pick(Number(this.planner.value), null)}));
    this.slider = /** @type {HTMLInputElement} */ (make('input', {type: 'range', min: 0, step: 1,
      'aria-label': 'Time of an iteration', oninput: () => this.pick(this.curve, Number(this.slider.value))}));
    this.back = make('button', {type: 'button', onclick: () => this.reset()}, 'Back to the chosen plan');
    this.element = make('div', {class: 'picker', 'data-kept': true, 'data-key': 'picker'}, this.planner, this.slider,
      this.back);
  }

  /** @param {PlanSet} set */
  show(set) {
    this.set = set;
    this.iterations = set.iterations.map(
      ({order, options, durations_ns: taken}) => iterationOf(set, order, options, '', taken));
    for (const [at, one] of set.iterations.entries()) {
      this.iterations[at].heading = this.heading(one.name, this.iterations[at].timing.end / 1e9, wholeEnergy(one), at > 0);
    }
    // The chosen plan is drawn as it runs, others only as they are planned.
    this.remark = set.iterations.some(one => one.durations_ns) ? ', if clocks changed at once' : '';
    this.planner.replaceChildren(...set.plans.map(({planner}, at) => make('option', {value: at}, planner)));
    this.planner.hidden = set.plans.length < 2;
    this.reset();
  }

  reset() {
    this.curve = 0;
    this.point = null;
    this.renew();
  }

  /**
   * @param {number} curve
   * @param {number | null} point none: the one that its planner proposes
   */
  pick(curve, point) {
    this.curve = curve;
    this.point = point ?? this.set?.plans[curve].selected ?? 0;
    this.renew();
  }

  /** The point that is shown. */
  get shown() {
    const curve = this.set?.plans[this.curve];
    return curve ? curve.points[this.point ?? curve.selected ?? 0] : null;
  }

  /**
   * "perseus: 5.432 s, 6543 J (+0.10 % time, -13.2 % energy)", against what plans are compared with.
   * @param {string} name
   * @param {number} time in s
   * @param {number} energy in J
   * @param {boolean} compared
   */
  heading(name, time, energy, compared = true) {
    const heading = `${name}: ${time.toFixed(3)} s, ${groupedNumber(energy, 0)} J`;
    const [than] = this.set?.iterations || [];
    return !than || !compared ? heading : `${heading} (${changedBy(time, this.iterations[0].timing.end / 1e9, 2)} time, ` +
      `${changedBy(energy, wholeEnergy(than), 1)} energy)`;
  }

  /**
   * Picks the plan that is least away.
   * @param {(point: PlanPoint) => number} away
   */
  pickNearest(away) {
    let best = Infinity;
    let found = /** @type {[number, number] | null} */ (null);
    for (const [curve, {points}] of this.set?.plans.entries() || []) {
      for (const [at, point] of points.entries()) {
        const distance = away(point);
        if (distance < best) [best, found] = [distance, [curve, at]];
      }
    }
    if (found) this.pick(...found);
  }

  renew() {
    const {set, shown, iterations} = this;
    if (!set) return;
    this.element.hidden = !shown;
    if (!shown) return this.timelines.show(set, iterations);
    const curve = set.plans[this.curve];
    this.planner.value = String(this.curve);
    this.slider.max = String(curve.points.length - 1);
    this.slider.value = String(curve.points.indexOf(shown));
    this.slider.disabled = curve.points.length < 2;
    const heading = this.heading(curve.planner, shown.time_s, wholeEnergy(shown)) + this.remark;
    this.slider.setAttribute('aria-valuetext', heading);
    this.back.toggleAttribute('disabled', this.point === null);
    // Beside what plans are compared with stands the chosen plan as it is run, or another point as it is planned.
    this.timelines.show(set, this.point === null && iterations.length > 1 ? iterations :
      [...iterations.slice(0, 1), iterationOf(set, curve.order, shown.options, heading)]);
    this.changed();
  }
}
