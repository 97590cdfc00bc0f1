'use strict';
// One node: each of its GPUs as its agent tells it, and what the node drew.

class NodeView {
  /**
   * @param {Asker} source
   * @param {string} node
   */
  constructor(source, node) {
    this.source = source;
    this.node = node;
    this.title = 'Node ' + node;
    /** @type {WatchedNode | null} */
    this.told = null;
    this.trouble = '';
    this.leases = new LeaseList(source, node);
    this.window = new LiveWindow(source.longest);
    this.window.onspan = () => { this.ask(); };
    this.past = new Past(source, `v1/nodes/${encodeURIComponent(node)}/history`);
    this.power = new TimeChart('Power of the node\u2019s GPUs', this.window, {text: powerText, fromZero: true});
    this.events = new EventList(this.past, () => source.changed());
    this.clock = new TimeChart('Mean SM clock', this.window, {text: clockText});
    this.heat = new TimeChart('Highest temperature', this.window, {text: value => Math.round(value) + '\u00a0°C'});
  }

  async ask() {
    try {
      const [{nodes}] = await Promise.all([this.source.ask('v1/nodes'), this.past.renew(this.window.span)]);
      this.told = nodes.find((/** @type {WatchedNode} */ one) => one.node === this.node) || null;
      this.trouble = this.told ? '' : `The ${this.source.asked} asks no node ${this.node}.`;
    } catch (error) {
      if (lacksToken(error)) this.told = null;
      this.trouble = lacksToken(error) ? '' : wordsOf(error);
    }
  }

  close() {
    for (const chart of [this.power, this.clock, this.heat]) chart.close();
  }

  drawn() {
    this.power.show([{label: 'power', color: '--p0'}], this.past.charted([row => row.power_w]), this.past.marks);
    showClocks(this.clock, this.past);
    this.heat.show([{label: 'temperature', color: '--p5'}], this.past.charted([row => row.temperature_c]), this.past.marks);
  }

  shown() {
    const node = this.told;
    const title = make('h1', {}, make('bdi', {}, this.node));
    if (!node) {
      return [title, make('p', {class: this.trouble ? 'alarm' : 'note'}, this.trouble || `Asking the ${this.source.asked}.`)];
    }
    return [title,
      make('p', {class: 'facts'}, node.silent ? make('span', {class: 'badge bad'}, 'silent') :
        make('span', {class: 'badge good'}, 'answers'), ' ',
      `agent at ${node.address}` + (node.silent ? `, last heard ${ageText(node.age_s)}` : '')),
      ...(this.trouble ? [make('p', {class: 'alarm', role: 'alert'}, `No news: ${this.trouble}`)] : []),
      ...(node.silent ? [make('p', {class: 'alarm'}, `${node.trouble} What follows is what the agent told last.`)] : []),
      heading('GPUs'),
      table('GPUs', ['GPU', '<Model', 'Power, W', 'Limit, W', 'Clock, MHz', 'Asked for, MHz', 'Highest, MHz',
        'Temperature, °C', '<Held back by', '<Job', '<Lease'], node.gpus.map(gpu => gpuRow(gpu, this.source)), 'The node has no GPU.'),
      heading('Leases'), this.leases.shown(node),
      heading('Over time'), this.window.tools(), this.power.element, this.clock.element, this.heat.element,
      ...(this.past.events.length ? [heading('What happened'), this.events.shown()] : [])];
  }
}

/** @param {Figure} value */
const whole = value => value === null || value === undefined ? kNothing : Math.round(value);

/**
 * @param {Gpu} gpu
 * @param {Asker} source
 */
function gpuRow(gpu, source) {
  const limit = gpu.cap_w ? [whole(gpu.power_limit_w), make('small', {class: 'alarm'}, ` cap of ${gpu.cap_holder}`)] :
    whole(gpu.power_limit_w);
  const well = gpu.health === 'well' || gpu.health === 'restoring';
  return [[gpu.index, well ? null : make('span', {class: 'badge bad', title: gpu.trouble}, gpu.health)], gpu.name,
    gpu.power_w === null ? kNothing : gpu.power_w?.toFixed(0), limit, whole(gpu.clock_mhz), whole(gpu.asked_clock_mhz),
    whole(gpu.clock_maximum_mhz), whole(gpu.temperature_c), reasonsText(gpu.throttle_reasons) || kNothing,
    gpu.job ? source.jobLink(gpu.job) : kNothing,
    gpu.holder ? make('bdi', {class: 'lease', title: gpu.holder}, gpu.purpose || gpu.holder) : 'free'];
}
