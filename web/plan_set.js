'use strict';
// Plans as data (src/plan/plan_set.h), and when the operations of an iteration run under one of them.

/**
 * Operations of one stage and instruction: their options' clocks in MHz, times in s, energies in J, and what an option
 * chooses besides.
 * @typedef {{stage: number, instruction: string, letters: string, is_forward: boolean, occupies_stage: boolean,
 *   clocks_mhz: number[], times_s: number[], energies_j: number[], labels?: string[]}} OperationType
 * Operations by columns, each after those that it waits for: `microbatch` counts from 1, and 0 is none; an operation
 * waits for as many others as `waits` says, which are so many operations before it as the next of `distance` say. Texts
 * have one character for each number. Those of a plan's `options` are sorted by the operations' types.
 * @typedef {{type: string, microbatch: string, chunk: string, waits: string, distance: string}} OrderText
 * @typedef {{time_s: number, energy_j: number, straggler_wait_j: number, options: string}} PlanPoint
 * @typedef {{planner: string, order: number, points_in_all: number, selected: number | null,
 *   points: PlanPoint[]}} PlanCurve
 * @typedef {{name: string, energy_j: number, straggler_wait_j: number, order: number, options: string,
 *   durations_ns?: number[]}} PlanIteration
 * @typedef {{stages: number, types: OperationType[]}} OperationSet
 * @typedef {OperationSet & {blocking_w: number[], orders: OrderText[], iterations: PlanIteration[], plans: PlanCurve[],
 *   not_planned: string[]}} PlanSet
 */

/**
 * When operations run, in ns, by operation: NaN where that is not known. `slack` is how much later they could start.
 * @typedef {{start: Float64Array, duration: Float64Array, slack: Float64Array, critical: number[], end: number}} Timing
 */

/**
 * An iteration that can be drawn; `remark` says more of an operation.
 * @typedef {{heading: string, order: OperationOrder, options: number[], timing: Timing,
 *   remark?: (i: number) => string}} DrawnIteration
 */

/**
 * The operations of an iteration, each after those that it waits for: `type` is an index, `microbatch` -1 for none, and
 * `after` has the operations that must end before.
 * @typedef {{type: number[], microbatch: number[], chunk: number[], after: number[][]}} OperationOrder
 */

const kZero = 0x28;  // the character of 0
const kLastBeforeSurrogates = 0xd7ff;
const kSurrogates = 0x800;

/** @param {string} text */
const numbersOf = text => Array.from(text, one => {
  const code = /** @type {number} */ (one.codePointAt(0));
  return code - kZero - (code > kLastBeforeSurrogates ? kSurrogates : 0);
});

/**
 * The set that a page holds packed (src/report/timeline_view.cpp).
 * @param {string} text zlib's format in base64
 * @returns {Promise<PlanSet>}
 */
async function unpackedSet(text) {
  const bytes = Uint8Array.from(atob(text), one => one.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return JSON.parse(await new Response(unpacked).text());
}

/** @type {WeakMap<OrderText, OperationOrder>} */
const kOrdersRead = new WeakMap();

/**
 * @param {OrderText} text
 * @returns {OperationOrder}
 */
function orderOf(text) {
  const known = kOrdersRead.get(text);
  if (known) return known;
  const distances = numbersOf(text.distance);
  let next = 0;
  const read = {type: numbersOf(text.type), microbatch: numbersOf(text.microbatch).map(one => one - 1),
    chunk: numbersOf(text.chunk), after: numbersOf(text.waits).map((count, i) =>
      Array.from({length: count}, () => i - distances[next++]))};
  kOrdersRead.set(text, read);
  return read;
}

/**
 * Runs each operation as soon as it can. Times are whole nanoseconds, which a double holds exactly.
 * @param {OperationSet} set
 * @param {OperationOrder} order
 * @param {Float64Array} duration
 * @returns {Timing}
 */
function timingOf(set, order, duration) {
  const count = order.type.length;
  const start = new Float64Array(count);
  const latest = new Float64Array(count).fill(Infinity);
  let end = 0;
  for (let i = 0; i < count; ++i) {
    for (const before of order.after[i]) start[i] = Math.max(start[i], start[before] + duration[before]);
    end = Math.max(end, start[i] + duration[i]);
  }
  for (let i = count - 1; i >= 0; --i) {
    latest[i] = Math.min(latest[i], end) - duration[i];
    for (const before of order.after[i]) latest[before] = Math.min(latest[before], latest[i]);
  }
  const slack = latest.map((time, i) => time - start[i]);
  return {start, duration, slack, critical: criticalPath(set, order, start, duration, end), end};
}

/**
 * One critical path, the first operation first. Where several operations end last, that on the same stage is taken.
 * @param {OperationSet} set
 * @param {OperationOrder} order
 * @param {Float64Array} start
 * @param {Float64Array} duration
 * @param {number} end
 */
function criticalPath(set, order, start, duration, end) {
  const stageOf = (/** @type {number} */ i) => set.types[order.type[i]].stage;
  /** @type {number[]} the last operation first */
  const backwards = [];
  let current = start.length - 1;
  while (current >= 0 && start[current] + duration[current] !== end) --current;
  while (current >= 0) {
    backwards.push(current);
    let next = -1;
    for (const i of order.after[current]) {
      const ends = start[i] + duration[i] === start[current];
      if (ends && (next < 0 || stageOf(i) === stageOf(current))) next = i;
    }
    current = next;
  }
  return backwards.map((_, at) => backwards[backwards.length - 1 - at]);
}

/**
 * An iteration in which every operation takes what its option says.
 * @param {PlanSet} set
 * @param {number} order
 * @param {string} options
 * @param {string} heading
 * @param {number[]} [durations] in ns, where they are others
 * @returns {DrawnIteration}
 */
function iterationOf(set, order, options, heading, durations) {
  const operations = orderOf(set.orders[order]);
  /** @type {number[]} */
  const chosen = [];
  const {type} = operations;
  const sorted = type.map((_, i) => i).sort((a, b) => type[a] - type[b]);
  for (const [at, option] of numbersOf(options).entries()) chosen[sorted[at]] = option;
  const taken = durations ? Float64Array.from(durations) : Float64Array.from(chosen,
    (option, i) => Math.round(set.types[type[i]].times_s[option] * 1e9));
  return {heading, order: operations, options: chosen, timing: timingOf(set, operations, taken)};
}

/**
 * "F12", or "B3/1" for the second chunk.
 * @param {OperationSet} set
 * @param {OperationOrder} order
 * @param {number} i
 */
function operationLabel(set, order, i) {
  const {letters} = set.types[order.type[i]];
  const microbatch = order.microbatch[i];
  return letters + (microbatch < 0 ? '' : microbatch) + (order.chunk[i] > 0 ? '/' + order.chunk[i] : '');
}

/**
 * The option's energy over its time, in W.
 * @param {OperationType} type
 * @param {number} option
 */
const meanPower = (type, option) => type.times_s[option] > 0 ? type.energies_j[option] / type.times_s[option] : 0;
