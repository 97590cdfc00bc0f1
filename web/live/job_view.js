'use strict';
// One job: what it was promised and what it does, over time and now, with where its ranks are.

/**
 * @typedef {object} JobStatus
 * @property {string} job
 * @property {string} name
 * @property {string} state
 * @property {string} planner
 * @property {string} schedule
 * @property {number} stages
 * @property {number} microbatches
 * @property {number} data_parallel
 * @property {number} tensor_parallel
 * @property {number} ranks
 * @property {number} ranks_registered
 * @property {number} ranks_profiled
 * @property {number} planning_progress
 * @property {number} version
 * @property {number} frontier_version
 * @property {string} trouble
 * @property {{rank: number, slowdown: number, since_step: number, cause: string, detail: string, in_force: boolean}[]} found_stragglers
 * @property {{straggler: number | string, degree: number}[]} stragglers
 * @property {boolean} ordered_maximum
 * @property {{rank: number, from_stage: number, to_stage: number, pipeline: number, slowdown: number}[]} slow_links
 * @property {string} promise
 * @property {string} promise_cause
 * @property {number} promised_iteration_s
 * @property {number} measured_iteration_s
 * @property {number} max_clock_iteration_s
 * @property {number} promised_saving_pct
 * @property {number} measured_saving_pct
 * @property {number} measured_saving_error_pct
 * @property {number} compared_iterations
 * @property {number} compared_energy_j
 * @property {number} compared_energy_at_maximum_j
 * @property {number} compared_energy_error_j
 * @property {number} compared_energy_promised_j
 */
/**
 * @typedef {object} RankStatus
 * @property {number} rank
 * @property {number} dp_rank
 * @property {number} pp_rank
 * @property {number} tp_rank
 * @property {boolean} profiled
 * @property {number} slowdown
 * @property {Figure} iteration_time_s
 * @property {Figure} heard_s
 * @property {string} node
 * @property {number} gpu
 * @property {boolean} silent
 * @property {Figure} power_w
 * @property {Figure} clock_mhz
 * @property {Figure} asked_clock_mhz
 * @property {Figure} temperature_c
 * @property {string[]} throttle_reasons
 */

const kMostStacked = 16;  // stages; of more, only their sum is drawn
const kHeldBack = new Set(['power_limit', 'thermal', 'hardware_slowdown']);
const kUnheard = 90;      // s without a word of a rank, from where on that is marked
const kSlow = 1.01;       // of a rank's usual time, from where on it is marked

/** @param {Figure} energy in J */
const inHours = energy => typeof energy === 'number' ? energy / 3600 : null;

class JobView {
  /**
   * @param {Source} source
   * @param {string} id
   */
  constructor(source, id) {
    this.source = source;
    this.id = id;
    this.title = 'Job ' + id;
    this.asksByItself = true;
    this.path = 'v1/jobs/' + encodeURIComponent(id);
    /** @type {JobStatus | null} */
    this.status = null;
    /** @type {RankStatus[]} */
    this.ranks = [];
    /** @type {Frontier | null} */
    this.frontier = null;
    this.frontierVersion = -1;
    this.trouble = '';
    this.window = new LiveWindow();
    this.window.onspan = () => { this.ask(); };
    this.past = new Past(source, this.path + '/history');
    this.events = new EventList(this.past, () => source.changed());
    /** @type {Past[]} */
    this.stages = [];
    this.power = new TimeChart('Power of the job\u2019s GPUs', this.window, {stacked: true, text: powerText, fromZero: true});
    this.time = new TimeChart('Time of an iteration', this.window, {text: timeText});
    this.clock = new TimeChart('Mean SM clock of the job\u2019s GPUs', this.window, {text: clockText});
    this.saved = new TimeChart('Energy saved against maximum clocks', this.window, {text: hoursText, fromZero: true});
    this.iteration = new IterationView(source, this.path);
    this.pace = new PaceChoice(source, this.path);
    this.frontierChart = new FrontierChart(point => this.pace.choose(point));
  }

  async ask() {
    try {
      const asked = [this.source.ask(this.path), this.past.renew(this.window.span)];
      [this.status] = await Promise.all(asked);
      await Promise.all([this.askRanks(), this.askFrontier(), this.iteration.ask()]);
      this.trouble = '';
    } catch (error) {
      this.trouble = wordsOf(error);
    }
  }

  async askRanks() {
    const {ranks} = await this.source.ask(this.path + '/ranks');
    this.ranks = ranks;
    const known = ranks.some((/** @type {RankStatus} */ rank) => rank.node !== '');
    const count = this.status?.stages || 0;
    if (known && this.stages.length === 0 && count > 1 && count <= kMostStacked) {
      this.stages = Array.from({length: count}, (_, stage) => new Past(this.source, `${this.path}/history?stage=${stage}`));
    }
    await Promise.all(this.stages.map(stage => stage.renew(this.window.span)));
  }

  async askFrontier() {
    const version = this.status?.frontier_version || 0;
    if (version === 0 || version === this.frontierVersion) return;
    this.frontier = await this.source.ask(this.path + '/frontier');
    this.frontierVersion = version;
  }

  close() {
    for (const one of [this.power, this.time, this.clock, this.saved, this.frontierChart, this.iteration]) one.close();
  }

  /** What the GPUs have taken of an iteration so far, as the frontier counts it: one pipeline, one GPU a stage. */
  measured() {
    const job = this.status;
    if (!job || !job.compared_iterations || !job.measured_iteration_s) return null;
    const pipelines = job.data_parallel * job.tensor_parallel;
    return {time: job.measured_iteration_s, energy: job.compared_energy_j / job.compared_iterations / pipelines};
  }

  drawn() {
    this.iteration.drawn();
    const marks = this.past.marks;
    if (this.stages.length > 0 && this.stages.every(stage => stage.rows.length > 0)) {
      this.power.show(this.stages.map((_, stage) => ({label: 'stage ' + stage, color: '--p' + stage % 10})),
        this.byStage(), marks);
    } else {
      this.power.show([{label: 'all GPUs', color: '--p0'}], this.past.charted([row => row.power_w]), marks);
    }
    const times = this.past.rows.some(row => row.iteration_s !== null || row.iteration_at_maximum_s !== null);
    this.time.show(times ? [{label: 'measured', color: '--p5'}, {label: 'promised', color: '--p2', dashed: true},
      {label: 'maximum clocks', color: '--p6', dashed: true}] : [],
    this.past.charted([row => row.iteration_s, row => row.promised_iteration_s, row => row.iteration_at_maximum_s]), marks);
    showClocks(this.clock, this.past);
    this.saved.show(this.past.rows.some(row => row.saved_j !== null) ?
      [{label: 'saved', color: '--p2'}, {label: 'promised', color: '--p6', dashed: true}] : [],
    this.past.charted([row => inHours(row.saved_j), row => inHours(row.promised_saved_j)]), marks);
    if (this.frontier && this.status) {
      const inForce = this.status.ordered_maximum ? -1 : pointInForce(this.status, this.frontier);
      this.frontierChart.show(this.frontier, inForce, this.pace.chosen, this.measured());
    }
  }

  /** One row for each time at which all stages are known. */
  byStage() {
    const figures = this.stages.map(stage => new Map(stage.rows.map(row => [row.time_s, row.power_w])));
    return this.past.charted(figures.map(stage => (/** @type {any} */ row) => stage.get(row.time_s)));
  }

  shown() {
    const job = this.status;
    const title = make('h1', {}, make('bdi', {}, job?.name || this.id));
    if (!job) {
      return [title, make('p', {class: this.trouble ? 'alarm' : 'note'}, this.trouble || 'Asking the planning server.')];
    }
    return [title, this.line(job),
      ...(this.trouble ? [make('p', {class: 'alarm', role: 'alert'}, `No news: ${this.trouble}`)] : []),
      this.tiles(job), ...this.attention(job),
      heading('Over time'), this.window.tools(), this.power.element, this.time.element, this.clock.element, this.saved.element,
      heading('What happened'), this.events.shown(), ...this.iteration.shown(),
      ...(this.frontier ? [heading('Frontier'), make('p', {class: 'note'},
        'Each point is a plan: no faster one takes less energy. Limited by: ' +
        this.frontier.limited_by.replaceAll('_', ' ') + '.'), this.frontierChart.element,
      this.pace.shown(job, this.frontier),
      make('p', {}, make('a', {href: whatIfAddress(job.job)}, 'What other planners, schedules or microbatches would do'))] :
        []),
      heading('Ranks'), this.grid(job)];
  }

  /** @param {JobStatus} job */
  line(job) {
    const shape = [countText(job.stages, 'stage'), countText(job.microbatches, 'microbatch', 'microbatches')];
    if (job.data_parallel > 1) shape.push(countText(job.data_parallel, 'pipeline'));
    if (job.tensor_parallel > 1) shape.push(`${job.tensor_parallel} ranks a stage`);
    return make('p', {class: 'facts'}, stateBadge(job.state), ' ', promiseBadge(job.promise), ' ',
      make('bdi', {}, job.name && job.name !== job.job ? job.job + ' \u00b7 ' : ''),
      `${shape.join(', ')} \u00b7 ${job.schedule}, planned by ${job.planner}` +
      (job.version ? ` \u00b7 schedules of version ${job.version}` : ''));
  }

  /** @param {JobStatus} job */
  tiles(job) {
    const power = this.source.jobPower.get(job.job);
    const known = this.ranks.filter(rank => rank.node && !rank.silent);
    const watts = power ? power.power_w : known.length ? known.reduce((sum, rank) => sum + (rank.power_w || 0), 0) : null;
    const compared = job.compared_iterations > 0;
    const saved = job.compared_energy_at_maximum_j - job.compared_energy_j;
    const promised = job.compared_energy_at_maximum_j - job.compared_energy_promised_j;
    return tiles([
      tile('Power', powerText(watts), watts === null ? 'no lease names this job' :
        `of ${countText(power ? power.gpus : known.length, 'GPU')}`),
      tile('Saved so far', compared ? savedText(saved) : kNothing, compared ?
        `\u00b1\u00a0${savedText(job.compared_energy_error_j)}; promised ${savedText(promised)}` +
        billText(saved, this.source.fleet) : 'nothing is compared yet'),
      tile('Saving', savingText(job), job.promised_saving_pct ? `promised ${percentText(job.promised_saving_pct)}` :
        'nothing is promised yet'),
      tile('Iteration', timeText(job.measured_iteration_s), job.promised_iteration_s ?
        `promised ${timeText(job.promised_iteration_s)}` : 'not measured yet', job.promise === 'slower' ? 'bad' : ''),
      tile('Longer than at maximum clocks', slowdownText(job), job.max_clock_iteration_s ?
        `which take ${timeText(job.max_clock_iteration_s)}` : 'not measured yet'),
      tile('Ranks', `${job.ranks_registered} of ${job.ranks}`, job.ranks_profiled < job.ranks ?
        `${job.ranks_profiled} have measured themselves` : 'all have measured themselves')]);
  }

  /** @param {JobStatus} job */
  attention(job) {
    const all = [];
    if (job.trouble) all.push(job.trouble);
    if (job.ordered_maximum) all.push(kOrderedMaximum);
    if (job.promise_cause) all.push(`The promise is not kept: ${job.promise_cause}`);
    for (const one of job.found_stragglers) {
      all.push(`Rank ${one.rank} takes ${one.slowdown.toFixed(2)} times as long as when it was profiled, since its step ` +
        `${one.since_step}${one.cause === 'unknown' ? '' : `: ${reasonsText([one.cause])}${one.detail ? ', ' + one.detail : ''}`}`);
    }
    for (const one of job.stragglers) {
      if (one.degree > 1 && one.straggler !== kPageStraggler) {
        all.push(`Announced straggler: ${one.straggler}, ${one.degree.toFixed(2)} times the usual time`);
      }
    }
    for (const one of job.slow_links) {
      all.push(`Transfers from stage ${one.from_stage} to stage ${one.to_stage} of pipeline ${one.pipeline} take ` +
        `${one.slowdown.toFixed(1)} times as long as in their profile`);
    }
    if (all.length === 0) return [];
    return [heading('Attention'), make('ul', {class: 'alarms'}, all.map(one => make('li', {}, one)))];
  }

  /**
   * Pipelines over stages, a GPU a cell.
   * @param {JobStatus} job
   */
  grid(job) {
    if (this.ranks.length === 0) return make('p', {class: 'note'}, 'No rank has registered yet.');
    const wide = job.tensor_parallel > 1;
    const headings = ['Pipeline', ...Array.from({length: job.stages}, (_, stage) => '<Stage ' + stage)];
    /** @type {Map<string, RankStatus[]>} */
    const rows = new Map();
    for (const rank of this.ranks) {
      const name = rank.dp_rank + (wide ? '.' + rank.tp_rank : '');
      if (!rows.has(name)) rows.set(name, []);
      (rows.get(name) || [])[rank.pp_rank] = rank;
    }
    const body = [...rows].map(([name, ranks]) => Array.from({length: job.stages + 1},
      (_, at) => at === 0 ? name : rankCell(ranks[at - 1])));
    const grid = table('Ranks by pipeline and stage', headings, body, '');
    grid.classList.add('ranks');
    return make('div', {}, make('p', {class: 'note'}, 'Power, and the clock of the GPU with the one that the plan asks for.' +
      (job.ranks_registered > this.ranks.length ? ` The first ${this.ranks.length} of ${job.ranks_registered} ranks.` : '')),
    grid);
  }
}

/** @param {RankStatus | undefined} rank */
function rankCell(rank) {
  if (!rank) return make('span', {class: 'rank'}, 'missing');
  const slow = rank.slowdown > kSlow;
  const unheard = rank.heard_s ? serverTime() / 1000 - rank.heard_s : 0;
  const place = rank.node ? make('a', {href: nodeAddress(rank.node)}, `${rank.node}:${rank.gpu}`) : 'no lease';
  const held = rank.throttle_reasons?.filter(reason => kHeldBack.has(reason)) || [];
  const clocks = rank.clock_mhz ? `${rank.clock_mhz}${rank.asked_clock_mhz ? ' / ' + rank.asked_clock_mhz : ''}\u00a0MHz` : '';
  return make('span', {class: 'rank' + (slow ? ' slow' : '') + (rank.silent ? ' silent' : '')},
    make('strong', {}, powerText(rank.power_w)), make('span', {}, clocks || kNothing),
    make('span', {}, `rank ${rank.rank}, `, place),
    rank.iteration_time_s ? make('span', {}, timeText(rank.iteration_time_s) + ' an iteration') : null,
    rank.heard_s ? make(unheard > kUnheard ? 'em' : 'span', {}, `heard ${ageText(unheard)}`) : null,
    slow ? make('em', {}, `${rank.slowdown.toFixed(2)} times as slow`) : null,
    rank.silent ? make('em', {}, 'silent') : null,
    held.length ? make('em', {}, reasonsText(held)) : null);
}
