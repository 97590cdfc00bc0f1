'use strict';
// An agent as the views of a node want it told: by the planning server's names, with a past that begins when the page was
// opened, since an agent keeps none.

const kSecondsKept = 3600;

/** @param {{uid: Figure, pid: Figure, name: string}} holder */
function holderText({uid, pid, name}) {
  const known = [typeof uid === 'number' ? `uid ${uid}` : '', typeof pid === 'number' ? `pid ${pid}` : '']
    .filter(Boolean).join(', ');
  return name && known ? `${name} (${known})` : name || known;
}

/**
 * @param {any} gpu of GET /v1/devices
 * @returns {Gpu}
 */
function watchedGpu(gpu) {
  const {lease, cap} = gpu;
  const settings = lease?.settings.find((/** @type {{gpu: number}} */ one) => one.gpu === gpu.index);
  return {
    index: gpu.index, name: gpu.name, health: gpu.health, trouble: gpu.trouble, power_w: gpu.power_w,
    clock_mhz: gpu.sm_clock_mhz, clock_maximum_mhz: gpu.sm_clock_maximum_mhz,
    asked_clock_mhz: settings?.sm_clocks_mhz?.maximum, temperature_c: gpu.temperature_c, power_limit_w: gpu.power_limit_w,
    throttle_reasons: gpu.throttle_reasons, lease: lease?.id || '', holder: lease ? holderText(lease.holder) : '',
    purpose: lease?.purpose || '', job: lease?.job || '', rank: lease?.rank, cap_w: cap?.power_limit_w,
    cap_holder: cap?.holder || '',
  };
}

/**
 * Of those figures that are known.
 * @param {Figure[]} figures
 * @param {(all: number[]) => number} joined
 */
function figureOf(figures, joined) {
  const known = /** @type {number[]} */ (figures.filter(value => typeof value === 'number'));
  return known.length > 0 ? joined(known) : null;
}

/** @param {number[]} all */
const sumOf = all => all.reduce((sum, one) => sum + one, 0);
/** @param {number[]} all */
const meanOf = all => sumOf(all) / all.length;

class AgentSource extends Asker {
  constructor() {
    super('agent');
    this.longest = kSecondsKept;
    /** @type {{time_s: number, power_w: Figure, clock_mhz: Figure, asked_clock_mhz: Figure,
     *   temperature_c: Figure}[]} a second each */
    this.rows = [];
  }

  /**
   * Answers what a node's view asks the planning server.
   * @override
   * @param {string} path
   */
  async ask(path) {
    if (path === 'v1/nodes') return {nodes: [await this.look()]};
    const from = Number(new URLSearchParams(path.split('?')[1]).get('from_s'));
    return {step: 'second', rows: this.rows.filter(row => row.time_s >= from)};
  }

  async look() {
    let told;
    try {
      told = await super.ask('v1/devices');
    } catch (error) {
      this.lose(error);
      throw error;
    }
    if (this.state !== 'live') this.become('live', '');
    const gpus = /** @type {Gpu[]} */ (told.gpus.map(watchedGpu));
    const now = Math.floor(serverTime() / 1000);
    this.rows = this.rows.filter(row => row.time_s < now && row.time_s > now - kSecondsKept);
    this.rows.push({time_s: now, power_w: figureOf(gpus.map(gpu => gpu.power_w), sumOf),
      clock_mhz: figureOf(gpus.map(gpu => gpu.clock_mhz), meanOf),
      asked_clock_mhz: figureOf(gpus.map(gpu => gpu.asked_clock_mhz ?? gpu.clock_maximum_mhz), meanOf),
      temperature_c: figureOf(gpus.map(gpu => gpu.temperature_c), all => Math.max(...all))});
    return {node: location.host, address: told.node, silent: false, age_s: 0, trouble: '', gpus};
  }

  /**
   * @override
   * @param {string} _node
   * @param {string} lease
   */
  async endLease(_node, lease) {
    await this.remove('v1/leases/' + encodeURIComponent(lease));
  }
}
