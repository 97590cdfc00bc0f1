'use strict';
// What another point of a job's frontier would mean, and the orders to run it, or to run at maximum clocks whatever is
// planned. A job is slowed down by a straggler of this name: something that all its pipelines wait for, so that they take
// the point of least energy that is there in time.

const kPageStraggler = 'page';
const kSameTime = 1e-9;  // relative
const kOrderedMaximum = 'Ordered to maximum clocks, until the plan is ordered again';

/**
 * The slowest point that ends in the time that stragglers by a name, for which all pipelines wait, leave the job.
 * @param {JobStatus} job
 * @param {Frontier} frontier
 */
function pointInForce(job, frontier) {
  const {points, base_point: base} = frontier;
  const named = job.stragglers.filter(one => typeof one.straggler === 'string');
  const degree = Math.max(1, ...named.map(one => one.degree));
  let at = base;
  while (at + 1 < points.length && points[at + 1].time_s <= points[base].time_s * degree * (1 + kSameTime)) ++at;
  return at;
}

class PaceChoice {
  /**
   * @param {Source} source
   * @param {string} path of the job
   */
  constructor(source, path) {
    this.source = source;
    this.path = path;
    /** @type {number | null} */
    this.chosen = null;
    /** @type {Frontier | null} */
    this.frontier = null;
    this.order = new Order(source);
  }

  /** @param {number} point */
  choose(point) {
    this.chosen = Math.max(point, this.frontier?.base_point || 0);
    this.order.say('');
  }

  /**
   * @param {Promise<object>} asked
   * @param {string} words for what has been ordered then
   */
  async follow(asked, words) {
    this.order.say('Asking the server.');
    try {
      await asked;
      this.chosen = null;
      this.order.say('Ordered: ' + words);
    } catch (error) {
      this.order.say(`The server has not taken this: ${wordsOf(error)}`, true);
    }
  }

  /** @param {number} degree */
  apply(degree) {
    this.follow(this.source.order(this.path + '/stragglers', {straggler: kPageStraggler, degree, delay_s: 0}),
      degree > 1 ? `iterations take ${percentText(100 * (degree - 1), true)} longer from now on.` :
        'iterations take what is planned from now on.');
  }

  /** @param {boolean} maximum */
  orderClocks(maximum) {
    this.follow(this.source.put(this.path + '/clocks', {at_maximum: maximum}),
      maximum ? 'all ranks run at maximum clocks from now on.' : 'all ranks run by the plan from now on.');
  }

  applyChosen() {
    const {frontier, chosen} = this;
    if (frontier === null || chosen === null) return;
    const degree = frontier.points[chosen].time_s / frontier.points[frontier.base_point].time_s;
    this.apply(chosen === frontier.base_point ? 1 : degree * (1 + kSameTime));
  }

  /**
   * @param {JobStatus} job
   * @param {Frontier} frontier
   */
  shown(job, frontier) {
    const last = frontier.points.length - 1;
    // Another plan has other points.
    if (this.frontier !== frontier) this.chosen = null;
    this.frontier = frontier;
    const inForce = pointInForce(job, frontier);
    return make('div', {class: 'pace', 'data-key': 'pace'},
      ...(job.ordered_maximum ? [make('p', {class: 'meaning'}, kOrderedMaximum + '.')] :
        last <= frontier.base_point ? [make('p', {class: 'note'}, 'No slower plan takes less energy.')] :
          this.choice(job, frontier, inForce)),
      make('p', {class: 'tools'},
        make('button', {type: 'button', disabled: !this.able(), onclick: () => this.orderClocks(!job.ordered_maximum)},
          job.ordered_maximum ? 'Run the plan again' : 'Maximum clocks'),
        this.able() ? null :
          make('span', {class: 'note'}, ' Give the job\u2019s or the administrator\u2019s token to order this.')),
      this.order.saying());
  }

  able() { return this.source.token !== ''; }

  /**
   * @param {JobStatus} job
   * @param {Frontier} frontier
   * @param {number} inForce
   */
  choice(job, frontier, inForce) {
    const at = this.chosen ?? inForce;
    const own = job.stragglers.find(one => one.straggler === kPageStraggler && one.degree > 1);
    return [
      make('label', {}, 'Choose a point: time of an iteration ', make('input', {type: 'range', min: frontier.base_point,
        max: frontier.points.length - 1, step: 1, value: at, 'aria-valuetext': timeText(frontier.points[at].time_s),
        oninput: event => this.choose(Number(/** @type {HTMLInputElement} */ (event.target).value))})),
      make('p', {class: 'meaning'}, this.chosen === null || at === inForce ? 'This is the point in force.' :
        meaningText(frontier, at, inForce)),
      make('p', {class: 'tools'},
        make('button', {type: 'button', disabled: !this.able() || this.chosen === null || at === inForce,
          onclick: () => this.applyChosen()}, 'Run it'),
        make('button', {type: 'button', disabled: !this.able() || !own, onclick: () => this.apply(1)},
          'Back to the plan\u2019s own'))];
  }
}

/**
 * @param {number} value
 * @param {number} than what it was
 */
const changeText = (value, than) => percentText(100 * (value / than - 1), true);

/**
 * @param {Frontier} frontier
 * @param {number} at
 * @param {number} inForce
 */
function meaningText(frontier, at, inForce) {
  const {time_s: time, energy_j: energy} = frontier.points[at];
  const now = frontier.points[inForce];
  return `Iterations would take ${timeText(time)} and ${energyText(energy)} a pipeline: ${changeText(time, now.time_s)} ` +
    `time and ${changeText(energy, now.energy_j)} energy against what is in force, ` +
    `${changeText(time, frontier.max_clock_time_s)} and ${changeText(energy, frontier.max_clock_energy_j)} against ` +
    'maximum clocks.';
}
