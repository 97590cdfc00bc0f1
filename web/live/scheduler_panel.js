'use strict';
// What the scheduler of a real cluster does, as its controller tells it: power against the budget, its last decisions
// with their causes, and its jobs.

/**
 * @typedef {object} ClusterStatus
 * @property {string} policy
 * @property {string} mode
 * @property {number} budget_w
 * @property {Figure} until_s
 * @property {number} next_w
 * @property {number} others_w
 * @property {number} limit_w
 * @property {number} power_w
 * @property {number} decisions
 * @property {string | null} trouble
 * @property {ClusterJob[]} jobs
 * @property {Decision[]} last_decisions
 */
/**
 * @typedef {object} ClusterJob
 * @property {number} job
 * @property {string} user
 * @property {string} kind
 * @property {string} state
 * @property {number} gpus
 * @property {number} to_gpus
 * @property {Figure} clock_mhz
 * @property {number} power_w
 * @property {string | null} why
 */
/**
 * @typedef {object} Decision
 * @property {number} time_s
 * @property {number} job
 * @property {string} change
 * @property {string} cause
 * @property {number} from_gpus
 * @property {number} to_gpus
 * @property {Figure} clock_mhz
 * @property {number} planned_w
 * @property {number} limit_w
 * @property {number} budget_w
 */
/** @typedef {{address: string, silent: boolean, age_s: Figure, trouble: string, status: ClusterStatus | null}} WatchedController */

/**
 * @param {number} from
 * @param {number} to
 */
const gpusText = (from, to) => from === to ? String(from) : `${from} \u2192 ${to}`;

/** @param {Decision[]} decisions */
const decisionTable = decisions => table('Decisions', ['When', 'Job', 'GPUs', 'Clock, MHz', '<What', '<Why', 'Planned, W',
  'For these jobs, W', 'Budget, W'],
decisions.map(one => [momentText(one.time_s), one.job, gpusText(one.from_gpus, one.to_gpus), one.clock_mhz || kNothing,
  make('span', {class: 'words'}, one.change), make('span', {class: 'words'}, one.cause), one.planned_w.toFixed(0),
  one.limit_w.toFixed(0), one.budget_w.toFixed(0)]), 'Nothing was decided since the controller started.');

/** @param {ClusterJob[]} jobs those that wait last */
const clusterJobTable = jobs => table('Jobs of the scheduler', ['Job', '<State', '<User', '<Kind', 'GPUs', 'Clock, MHz',
  'Counted, W', '<Why'],
jobs.map(job => [job.job, make('span', {class: 'badge'}, job.state), job.user, job.kind, gpusText(job.gpus, job.to_gpus),
  job.clock_mhz || kNothing, job.power_w.toFixed(0), make('span', {class: 'words'}, job.why || '')]), 'It has no job.');

class SchedulerPanel {
  /** @param {Asker} source */
  constructor(source) {
    this.source = source;
    /** @type {WatchedController | null} */
    this.told = null;
  }

  async ask() {
    if (this.told?.address !== '') this.told = await this.source.ask('v1/cluster');
  }

  /** What somebody should look at. */
  alarms() {
    const told = this.told;
    if (!told?.address) return [];
    if (told.silent) return [[`The controller of the cluster is silent: ${told.trouble || 'it was not heard yet'}`]];
    return told.status?.trouble ? [[`The controller cannot ask the cluster: ${told.status.trouble}`]] : [];
  }

  shown() {
    const told = this.told;
    if (!told?.address) return [];
    const facts = make('p', {class: 'facts'}, told.silent ? make('span', {class: 'badge bad'}, 'silent') :
      make('span', {class: 'badge good'}, 'answers'), ` controller at ${told.address}` +
      (told.silent ? `, last heard ${ageText(told.age_s)}` : ''));
    const status = told.status;
    if (!status) return [heading('Scheduler'), facts];
    const taken = status.power_w + status.others_w;
    const waiting = status.jobs.filter(job => job.state === 'waiting').length;
    const running = status.jobs.filter(job => job.state === 'running').length;
    const queued = [...status.jobs].sort((a, b) => Number(a.state === 'waiting') - Number(b.state === 'waiting') || a.job - b.job);
    return [heading('Scheduler'), facts,
      ...(told.silent ? [make('p', {class: 'alarm'}, 'What follows is what it told last.')] : []),
      tiles([
        tile('Power against the budget', [powerText(taken), make('small', {}, ` of ${powerText(status.budget_w)}`)],
          [make('meter', {min: 0, max: status.budget_w, value: taken, 'aria-label': 'Power against the budget'}),
            `${powerText(status.power_w)} with which its jobs count, ${powerText(status.others_w)} of other GPUs`],
          taken > status.budget_w * 1.005 ? 'bad' : ''),
        tile('Next budget', status.until_s ? powerText(status.next_w) : kNothing,
          status.until_s ? `from ${momentText(status.until_s)} on` : 'no other is ordered'),
        tile('Its jobs', `${running} run`, `${waiting} wait, ${status.jobs.length - running - waiting} are on their way or ` +
          'left alone'),
        tile('Decisions', String(status.decisions), `${status.policy}, ${status.mode}`)]),
      make('h3', {}, 'Last decisions'), make('div', {class: 'decisions'}, decisionTable(status.last_decisions)),
      make('h3', {}, 'Running and waiting'), clusterJobTable(queued)];
  }
}
