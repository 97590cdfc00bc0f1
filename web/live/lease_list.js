'use strict';
// The leases of one node, each with its GPUs, and the order to end one. Who orders that is asked once more first.

/** @typedef {{lease: string, holder: string, purpose: string, job: string, rank: Figure, gpus: number[]}} Lease */

/**
 * GPUs of one lease belong together; where identifiers are not shown, those of one holder and purpose do.
 * @param {Gpu[]} gpus
 * @returns {Lease[]}
 */
function leasesOf(gpus) {
  /** @type {Map<string, Lease>} */
  const all = new Map();
  for (const {lease, holder, purpose, job, rank, index} of gpus) {
    if (!holder) continue;
    const key = lease || JSON.stringify([holder, purpose, job, rank]);
    const known = all.get(key);
    if (known) known.gpus.push(index);
    else all.set(key, {lease, holder, purpose, job, rank, gpus: [index]});
  }
  return [...all.values()];
}

class LeaseList {
  /**
   * @param {Asker} source
   * @param {string} node
   */
  constructor(source, node) {
    this.source = source;
    this.node = node;
    this.order = new Order(source);
    this.chosen = '';  // the identifier of the lease that may be ended
  }

  /** @param {string} lease */
  choose(lease) {
    this.chosen = lease;
    this.order.say('');
  }

  async end() {
    const lease = this.chosen;
    if (!lease) return;
    this.chosen = '';
    this.order.say(`Asking the ${this.source.asked}.`);
    try {
      await this.source.endLease(this.node, lease);
      this.order.say('The lease has ended.');
    } catch (error) {
      const known = error instanceof Refused && error.status < 500;
      this.order.say(`${known ? 'The lease has not been ended' : 'Whether the lease has ended is not known'}: ` +
        `${wordsOf(error)}`, true);
    }
  }

  /** @param {WatchedNode} node */
  shown(node) {
    const leases = leasesOf(node.gpus);
    const able = leases.some(one => one.lease) && !node.silent;
    const chosen = able && leases.find(one => one.lease && one.lease === this.chosen);
    // What a button ends is read from it: a list that is renewed keeps its first listeners.
    const choose = (/** @type {Event} */ event) =>
      this.choose(/** @type {HTMLElement} */ (event.currentTarget).dataset.lease || '');
    return make('div', {class: 'leases', 'data-key': 'leases'},
      table('Leases', ['<GPUs', ...(able ? ['<End'] : []), '<Holder', '<Purpose', '<Job', '<Rank'], leases.map(one => [
        one.gpus.join(', '),
        ...(able ? [make('button', {type: 'button', 'data-lease': one.lease, disabled: !one.lease, onclick: choose,
          'aria-label': `End the lease of GPU ${one.gpus.join(', ')}`}, 'End')] : []),
        make('bdi', {title: one.holder}, one.holder), make('bdi', {title: one.purpose}, one.purpose),
        one.job ? this.source.jobLink(one.job) : kNothing, one.rank ?? kNothing]), 'Nobody has leased a GPU.'),
      chosen ? make('div', {class: 'sure', role: 'group', 'aria-label': 'End this lease?'},
        make('p', {}, `End the lease of GPU ${chosen.gpus.join(', ')} (`, make('bdi', {}, chosen.holder), ')? ' +
          'The GPUs go back to the clocks and limits that held before, but for a limit that the lease has stated for its ' +
          'loss, and a process on that node gets none of them for ten minutes. What it computes goes on.'),
        make('p', {class: 'tools'}, make('button', {type: 'button', onclick: () => this.end()}, 'End the lease'),
          make('button', {type: 'button', onclick: () => this.choose('')}, 'Keep it'))) : null,
      able || leases.length === 0 || node.silent ? null : make('p', {class: 'note'}, 'Ending a lease takes ' +
        'a token (the agent\u2019s, or the administrator\u2019s of a planning server to which the agents give that right).'),
      this.order.saying());
  }
}
