'use strict';
// What the server says: single answers, and a stream of events that is opened again whenever it ends. The stream is
// read by fetch(), since EventSource cannot show a token.

/**
 * @typedef {object} Fleet
 * @property {number} jobs
 * @property {number} jobs_running
 * @property {number} promises_kept
 * @property {number} promises_missed
 * @property {number} slow_ranks
 * @property {number} nodes
 * @property {number} nodes_silent
 * @property {number} gpus
 * @property {number} gpus_leased
 * @property {number} gpus_unwell
 * @property {number} gpus_unrestored
 * @property {number} gpus_capped
 * @property {number} gpus_without_power
 * @property {number} power_w
 * @property {number} compared_energy_j
 * @property {number} compared_energy_at_maximum_j
 * @property {number} compared_energy_promised_j
 * @property {Figure} price_per_kwh
 * @property {Figure} carbon_g_per_kwh
 */
/**
 * @typedef {object} Listing
 * @property {string} job
 * @property {string} name
 * @property {string} state
 * @property {number} ranks
 * @property {number} ranks_registered
 * @property {number} version
 * @property {string} promise
 * @property {number} promised_iteration_s
 * @property {number} measured_iteration_s
 * @property {number} max_clock_iteration_s
 * @property {number} promised_saving_pct
 * @property {number} measured_saving_pct
 * @property {number} measured_saving_error_pct
 * @property {number} saved_j
 * @property {number} promised_saved_j
 * @property {boolean} ordered_maximum
 * @property {number} slow_ranks
 */

const kLongestPause = 10000;  // ms

class Source extends Asker {
  constructor() {
    super('planning server');
    /** @type {Fleet | null} */
    this.fleet = null;
    /** @type {Map<string, WatchedNode>} */
    this.nodes = new Map();
    /** @type {Map<string, Listing>} */
    this.jobs = new Map();
    /** @type {Map<string, number>} W by node */
    this.nodePower = new Map();
    /** @type {Map<string, {gpus: number, power_w: number}>} */
    this.jobPower = new Map();
    this.pause = 500;
    /** @type {AbortController | null} */
    this.stream = null;
  }

  /** @override */
  begin() {
    this.pause = 500;
    this.stream?.abort();
    this.follow();
  }

  /**
   * @override
   * @param {string} job
   */
  jobLink(job) {
    // A cluster's job may have no plan of this server.
    return this.jobs.has(job) ? make('a', {href: jobAddress(job)}, super.jobLink(job)) : super.jobLink(job);
  }

  /**
   * @override
   * @param {string} node
   * @param {string} lease
   */
  async endLease(node, lease) {
    await this.remove(`v1/nodes/${encodeURIComponent(node)}/leases/${encodeURIComponent(lease)}`);
  }

  /** Reads events until the stream ends, and again after a pause that grows while the server is away. */
  async follow() {
    const control = new AbortController();
    this.stream = control;
    try {
      const response = await this.open('v1/events', {signal: control.signal});
      this.forget();
      this.become('live', '');
      this.pause = 500;
      await this.read(/** @type {ReadableStream<Uint8Array>} */ (response.body));
      this.become('lost', 'the server has ended the stream');
    } catch (error) {
      if (control.signal.aborted) return;
      this.lose(error);
      if (this.state === 'refused') this.forget();
    }
    if (control.signal.aborted) return;
    setTimeout(() => { if (this.stream === control) this.follow(); }, this.pause);
    this.pause = Math.min(2 * this.pause, kLongestPause);
  }

  /** All that there is comes first on each stream. */
  forget() {
    this.fleet = null;
    for (const known of [this.nodes, this.jobs, this.nodePower, this.jobPower]) known.clear();
  }

  /** @param {ReadableStream<Uint8Array>} body */
  async read(body) {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    let text = '';
    for (;;) {
      // One after the other: each part of a stream is there when the one before has been read.
      const {done, value} = await reader.read();  // oxlint-disable-line no-await-in-loop
      if (done) return;
      text += decoder.decode(value, {stream: true});
      const events = text.split('\n\n');
      text = events.pop() || '';
      for (const event of events) this.take(event);
      this.dispatchEvent(new Event('news'));
    }
  }

  /** @param {string} event */
  take(event) {
    let name = '';
    let data = '';
    for (const line of event.split('\n')) {
      if (line.startsWith('event:')) name = line.slice(6).trim();
      else if (line.startsWith('data:')) data += line.slice(5);
    }
    if (!data) return;
    const told = JSON.parse(data);
    if (name === 'fleet') this.fleet = told;
    else if (name === 'node') this.nodes.set(told.node, told);
    else if (name === 'job') this.jobs.set(told.job, told);
    else if (name === 'deleted') this.jobs.delete(told.job);
    else if (name === 'power') {
      noteServerTime(told.time_s * 1000);
      this.nodePower = new Map(told.nodes.map((/** @type {any} */ one) => [one.node, one.power_w]));
      this.jobPower = new Map(told.jobs.map((/** @type {any} */ one) => [one.job, one]));
    }
  }
}
