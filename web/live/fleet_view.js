'use strict';
// All jobs and nodes together, and the lists of both.

/** @param {string} job */
const jobAddress = job => '#/jobs/' + encodeURIComponent(job);
/** @param {string} node */
const nodeAddress = node => '#/nodes/' + encodeURIComponent(node);

/** @param {string} state */
const stateBadge = state => make('span', {class: 'badge ' + ({ready: 'good', failed: 'bad', lost: 'bad'}[state] || '')},
  state === 'ready' ? 'running' : state);

/** @param {string} verdict */
function promiseBadge(verdict) {
  const css = {kept: 'good', slower: 'bad', dearer: 'bad'}[verdict] || '';
  return make('span', {class: 'badge ' + css}, verdict === 'unknown' ? 'not compared yet' : verdict);
}

/** @param {{measured_saving_pct: number, measured_saving_error_pct: number, promised_saving_pct: number}} job */
function savingText(job) {
  if (!job.measured_saving_error_pct) return kNothing;
  return `${percentText(job.measured_saving_pct)} \u00b1\u00a0${job.measured_saving_error_pct.toFixed(1)}`;
}

/** @param {{measured_iteration_s: number, max_clock_iteration_s: number}} job */
function slowdownText(job) {
  if (!job.measured_iteration_s || !job.max_clock_iteration_s) return kNothing;
  return percentText(100 * (job.measured_iteration_s / job.max_clock_iteration_s - 1), true);
}

/** @param {Source} source */
function jobTable(source) {
  const jobs = [...source.jobs.values()].sort((a, b) => a.job.localeCompare(b.job));
  return table('Jobs', ['Job', '<State', 'GPUs', 'Power, now', 'Saved', 'Saving, measured', 'Saving, promised',
    'Longer, than maximum clocks', '<Promise', 'Slow, ranks'],
  jobs.map(job => {
    const power = source.jobPower.get(job.job);
    return [make('a', {href: jobAddress(job.job)}, make('bdi', {}, job.name || job.job)),
      [stateBadge(job.state), job.ordered_maximum ? ' maximum clocks' : null],
      power ? power.gpus : kNothing, powerText(power?.power_w),
      job.measured_saving_error_pct ? savedText(job.saved_j) : kNothing, savingText(job),
      job.promised_saving_pct ? percentText(job.promised_saving_pct) : kNothing, slowdownText(job),
      promiseBadge(job.promise), job.slow_ranks ? make('strong', {class: 'alarm'}, job.slow_ranks) : 0];
  }), 'No job is registered with this server.');
}

/** @param {Source} source */
function nodeTable(source) {
  const nodes = [...source.nodes.values()].sort((a, b) => a.node.localeCompare(b.node));
  return table('Nodes', ['Node', '<Agent', 'GPUs', 'Power, now', '<Address'],
    nodes.map(node => [make('a', {href: nodeAddress(node.node)}, make('bdi', {}, node.node)),
      node.silent ? make('span', {class: 'badge bad', title: node.trouble}, 'silent') :
        make('span', {class: 'badge good'}, 'answers'),
      node.gpus.length || kNothing, node.silent ? kNothing : powerText(source.nodePower.get(node.node)),
      make('bdi', {}, node.address)]),
    'The server asks no node: start it with --agents FILE, one node and the address of its agent a line.');
}

/**
 * What somebody should look at.
 * @param {Source} source
 * @param {Content[][]} all what others have found
 */
function alarms(source, all) {
  for (const node of source.nodes.values()) {
    if (node.silent) all.push(['Node ', make('a', {href: nodeAddress(node.node)}, node.node), ' is silent: ' + node.trouble]);
  }
  for (const job of source.jobs.values()) {
    const tell = (/** @type {string} */ words) => all.push(
      ['Job ', make('a', {href: jobAddress(job.job)}, job.name || job.job), words]);
    if (job.promise === 'slower' || job.promise === 'dearer') tell(` is ${job.promise} than promised.`);
    if (job.state === 'failed' || job.state === 'lost') tell(` is ${job.state}.`);
    if (job.slow_ranks) tell(` has ${countText(job.slow_ranks, 'slow rank')}.`);
  }
  const fleet = source.fleet;
  if (fleet?.gpus_unrestored) {
    all.push([`${countText(fleet.gpus_unrestored, 'GPU')} without a lease ${fleet.gpus_unrestored === 1 ? 'is' : 'are'} off the ` +
      'default clocks: the driver refuses to bring back what held before.']);
  }
  if (fleet?.gpus_unwell) all.push([`${countText(fleet.gpus_unwell, 'GPU')} hang or are lost.`]);
  if (fleet?.gpus_capped) {
    all.push([`The power limit of ${countText(fleet.gpus_capped, 'GPU')} is low since a holder was lost.`]);
  }
  if (all.length === 0) return make('p', {class: 'note'}, 'Nothing calls for attention.');
  return make('ul', {class: 'alarms'}, all.map(one => make('li', {}, ...one)));
}

class FleetView {
  /** @param {Source} source */
  constructor(source) {
    this.source = source;
    this.title = 'Fleet';
    this.window = new LiveWindow();
    this.window.onspan = () => { this.ask(); };
    this.power = new TimeChart('Power of all GPUs', this.window, {text: powerText, fromZero: true});
    this.past = new Past(source, 'v1/fleet/history');
    this.today = new EnergyUsed(source);
    this.used = new EnergyUsed(source);
    this.allocations = new AllocationChart(source, this.window);
    this.scheduler = new SchedulerPanel(source);
  }

  async ask() {
    try {
      await Promise.all([this.past.renew(this.window.span), this.allocations.past.renew(this.window.span),
        this.scheduler.ask(), ...(this.source.fleet?.nodes ? [this.today.renewToday(), this.used.renewShown(this.window)] : [])]);
    } catch {
      // The stream says that the server is away; the charts stay as they are.
    }
  }

  drawn() {
    const budget = this.past.rows.some(row => typeof row.budget_w === 'number');
    this.power.show([{label: 'power', color: '--p0'}, ...(budget ? [{label: 'budget', color: '--critical', dashed: true}] : [])],
      this.past.charted([row => row.power_w, ...(budget ? [(/** @type {any} */ row) => row.budget_w] : [])]), []);
    this.allocations.show();
  }

  close() {
    this.power.close();
    this.allocations.close();
  }

  shown() {
    const fleet = this.source.fleet;
    if (!fleet) return [make('h1', {}, 'Fleet'), make('p', {class: 'note'}, 'Nothing is known yet.')];
    const saved = fleet.compared_energy_at_maximum_j - fleet.compared_energy_j;
    const promised = fleet.compared_energy_at_maximum_j - fleet.compared_energy_promised_j;
    const share = fleet.compared_energy_at_maximum_j > 0 ? 100 * saved / fleet.compared_energy_at_maximum_j : null;
    const kept = fleet.promises_kept;
    const missed = fleet.promises_missed;
    return [make('h1', {}, 'Fleet'), tiles([
      tile('Power', powerText(fleet.gpus ? fleet.power_w : null),
        fleet.gpus_without_power ? `without ${countText(fleet.gpus_without_power, 'GPU')} that tell none` :
          `of ${countText(fleet.gpus, 'GPU')}${billText(3600 * fleet.power_w, fleet, ' per hour')}`),
      ...(fleet.nodes ? [tile('Used today', this.today.figure, this.today.meaning(fleet))] : []),
      tile('GPUs in use', fleet.gpus ? `${fleet.gpus_leased} of ${fleet.gpus}` : kNothing,
        `with a lease; ${fleet.gpus_unrestored} off their default clocks without one`, fleet.gpus_unrestored ? 'bad' : ''),
      tile('Jobs running', String(fleet.jobs_running), `of ${fleet.jobs} that the server knows`),
      tile('Saved', share === null ? kNothing : savedText(saved),
        share === null ? 'nothing is compared yet' :
          `${percentText(share)} of what was compared; promised ${savedText(promised)}${billText(saved, fleet)}`),
      tile('Promises', kept + missed ? `${kept} kept` : kNothing,
        missed ? `${missed} missed` : kept ? 'none missed' : 'none compared yet', missed ? 'bad' : ''),
      tile('Nodes', fleet.nodes ? `${fleet.nodes - fleet.nodes_silent} answer` : kNothing,
        fleet.nodes_silent ? `${fleet.nodes_silent} silent` : 'none silent', fleet.nodes_silent ? 'bad' : '')]),
    heading('Attention'), alarms(this.source, this.scheduler.alarms()),
    ...(fleet.nodes ? [heading('Power and GPUs'), this.window.tools(), this.power.element,
      make('p', {class: 'note', 'data-key': 'used'}, 'Energy in the time that is shown: ', make('strong', {}, this.used.figure),
        ', ' + this.used.meaning(fleet)), this.allocations.element] : []), ...this.scheduler.shown(),
    heading('Jobs'), jobTable(this.source), heading('Nodes'), nodeTable(this.source)];
  }
}

/**
 * @param {Source} source
 * @returns {View}
 */
function jobsView(source) {
  return {title: 'Jobs', shown: () => [make('h1', {}, 'Jobs'), jobTable(source)]};
}

/**
 * @param {Source} source
 * @returns {View}
 */
function nodesView(source) {
  return {title: 'Nodes', shown: () => [make('h1', {}, 'Nodes'), nodeTable(source)]};
}
