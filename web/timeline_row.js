'use strict';
// One iteration of a timeline: its operations by stage, what is said of each, and their colours.

const kPitch = 30;           // px from one row to the next
const kAxis = 30;            // px below the rows
const kSamples = 9;          // of the colours of power
const kPowerStep = 25;       // W, to which the range of colours is widened
const kDark = 125;           // the brightness below which white text reads better than black

/**
 * With about four digits that count, thousands set apart by thin spaces.
 * @param {number} value
 */
function shortNumber(value) {
  if (Number.isInteger(value)) return groupedNumber(value, 0);
  return groupedNumber(value, Math.min(6, Math.max(0, 3 - Math.floor(Math.log10(Math.abs(value))))));
}

/**
 * @param {number} value
 * @param {number} digits behind the point
 */
function groupedNumber(value, digits) {
  const [whole, part] = value.toFixed(digits).split('.');
  const grouped = Math.abs(value) < 10000 ? whole : whole.replace(/\B(?=(\d{3})+$)/g, '\u202f');
  return part ? `${grouped}.${part}` : grouped;
}

/** The colours of mean power, as src/draw/palette.h has them for pictures. */
class PowerColours {
  /**
   * @param {OperationSet} set
   * @param {DrawnIteration[]} iterations
   */
  constructor(set, iterations) {
    let least = Infinity;
    let most = 0;
    for (const {order, options} of iterations) {
      for (const [i, option] of options.entries()) {
        const type = set.types[order.type[i]];
        if (!type.occupies_stage) continue;
        least = Math.min(least, meanPower(type, option));
        most = Math.max(most, meanPower(type, option));
      }
    }
    this.least = Math.floor(Math.min(least, most) / kPowerStep) * kPowerStep;
    this.most = Math.max(Math.ceil(most / kPowerStep) * kPowerStep, this.least + kPowerStep);
    const style = getComputedStyle(document.documentElement);
    this.samples = Array.from({length: kSamples}, (_, k) => {
      const rgb = parseInt(style.getPropertyValue('--w' + k).trim().slice(1), 16);
      return [rgb >> 16, (rgb >> 8) & 255, rgb & 255];
    });
    /** @type {Map<number, {fill: string, dark: boolean}>} */
    this.known = new Map();
  }

  /**
   * @param {number} power in W
   * @returns {{fill: string, dark: boolean}}
   */
  of(power) {
    const known = this.known.get(power);
    if (known) return known;
    const made = this.make(power);
    this.known.set(power, made);
    return made;
  }

  /** @param {number} power in W */
  make(power) {
    const share = Math.min(1, Math.max(0, (power - this.least) / (this.most - this.least)));
    const index = Math.min(Math.floor(share * (kSamples - 1)), kSamples - 2);
    const part = share * (kSamples - 1) - index;
    const [r, g, b] = this.samples[index].map((value, k) => value + part * (this.samples[index + 1][k] - value));
    const brightness = 0.299 * r + 0.587 * g + 0.114 * b;
    return {fill: `rgb(${Math.round(r)} ${Math.round(g)} ${Math.round(b)})`, dark: brightness <= kDark};
  }
}

/** One iteration with its canvas. */
class TimelineRow {
  /**
   * @param {OperationSet} set
   * @param {DrawnIteration} iteration
   */
  constructor(set, iteration) {
    this.set = set;
    this.iteration = iteration;
    this.heading = make('h3', {}, iteration.heading);
    this.canvas = /** @type {HTMLCanvasElement} */ (make('canvas', {role: 'img',
      'aria-label': `Timeline, one row per stage: ${iteration.heading}`}));
    const {order, timing} = iteration;
    /** @type {number[][]} operations by stage and start */
    this.stages = Array.from({length: set.stages}, () => []);
    for (const [i, type] of order.type.entries()) {
      if (set.types[type].occupies_stage && timing.start[i] >= 0) this.stages[set.types[type].stage].push(i);
    }
    for (const stage of this.stages) stage.sort((a, b) => timing.start[a] - timing.start[b]);
    /** @type {Map<string, number> | null} */
    this.places = null;
  }

  get height() {
    return this.set.stages * kPitch + kAxis;
  }

  /** @param {number} i */
  key(i) {
    const {type, microbatch, chunk} = this.iteration.order;
    return `${type[i]}:${microbatch[i]}:${chunk[i]}`;
  }

  /**
   * The operation of this key, or -1.
   * @param {string} key
   */
  find(key) {
    if (!this.places) this.places = new Map(this.iteration.order.type.map((_, i) => [this.key(i), i]));
    return this.places.get(key) ?? -1;
  }

  /**
   * The place in a stage's row of the first operation that ends after a time.
   * @param {number[]} stage
   * @param {number} time in ns
   */
  firstAfter(stage, time) {
    const {start, duration} = this.iteration.timing;
    let low = 0;
    let high = stage.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (start[stage[middle]] + duration[stage[middle]] > time) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** @param {number} i */
  power(i) {
    const {order, options} = this.iteration;
    return meanPower(this.set.types[order.type[i]], options[i]);
  }

  /** @param {number} i */
  setting(i) {
    const {order, options} = this.iteration;
    const type = this.set.types[order.type[i]];
    const clock = type.clocks_mhz[options[i]];
    return [clock > 0 ? `${shortNumber(clock)} MHz` : '', type.labels?.[options[i]] || ''].filter(Boolean).join(', ');
  }

  /** @param {number} i */
  cost(i) {
    const {order, options} = this.iteration;
    const type = this.set.types[order.type[i]];
    return `${shortNumber(this.power(i))} W, ${shortNumber(type.energies_j[options[i]])} J`;
  }

  /** @param {number} i */
  name(i) {
    const {type, microbatch, chunk} = this.iteration.order;
    const {instruction, stage} = this.set.types[type[i]];
    return `${instruction}${microbatch[i] < 0 ? '' : ', microbatch ' + microbatch[i]}` +
      `${chunk[i] > 0 ? ', chunk ' + chunk[i] : ''}, stage ${stage}`;
  }

  /** @param {number} i */
  slack(i) {
    const slack = this.iteration.timing.slack[i];
    return !(slack >= 0) ? '' : slack === 0 ? 'critical' : `slack ${(slack / 1e6).toFixed(2)} ms`;
  }

  /** @param {number} i */
  describe(i) {
    const {start, duration} = this.iteration.timing;
    const when = `start ${(start[i] / 1e9).toFixed(4)} s, ${(duration[i] / 1e6).toFixed(2)} ms`;
    return [this.name(i), this.setting(i), when, this.cost(i), this.slack(i), this.iteration.remark?.(i)].filter(Boolean).join('\n');
  }
}
