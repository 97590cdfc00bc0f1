'use strict';
// What all GPUs took in a stretch of time, as the server tells it, and for how much of that time anybody knows.

/** @typedef {{from_s: number, until_s: number, energy_j: Figure, read_s: number, complete_s: number}} FleetEnergy */

/**
 * For how much of a stretch of time the power was read.
 * @param {FleetEnergy} told
 */
function readText(told) {
  const length = Math.max(told.until_s - told.from_s, 1);
  // Not "100 %" where something is missing, and no fault for the second that is being read.
  const share = (/** @type {number} */ time) => time > .995 * length - 2 ? 100 : Math.floor(100 * time / length);
  const percent = (/** @type {number} */ time) => (share(time) ? share(time) : 'less than 1') + '\u00a0% of the time';
  if (told.read_s === 0) return 'no power was read in this time';
  const some = share(told.complete_s) < share(told.read_s) || told.complete_s === 0;
  return (share(told.read_s) === 100 ? 'read all the time' : `read for ${percent(told.read_s)}, and nothing is added for the rest`) +
    (some ? `; ${told.complete_s ? `only for ${percent(told.complete_s)}` : 'never'} of all GPUs` : '');
}

/** Energy of one stretch of time, renewed as that goes on. */
class EnergyUsed {
  /** @param {Asker} source */
  constructor(source) {
    this.source = source;
    /** @type {FleetEnergy | null} */
    this.told = null;
    this.stretch = '';
    this.asked = 0;
  }

  /**
   * Asks where it is another stretch, or after a three hundredth of it.
   * @param {string} stretch its name
   * @param {number} from Unix time in s
   * @param {number} until
   */
  async renew(stretch, from, until) {
    const now = serverTime() / 1000;
    if (stretch === this.stretch && now - this.asked < Math.max(2, (until - from) / 300)) return;
    this.asked = now;
    this.stretch = stretch;
    const told = await this.source.ask(`v1/fleet/energy?from_s=${Math.floor(from)}&until_s=${Math.ceil(until)}`);
    if (stretch === this.stretch) this.told = told;  // else a reader has gone on meanwhile
  }

  /** Since midnight where the reader is. */
  renewToday() {
    const from = new Date(serverTime()).setHours(0, 0, 0, 0) / 1000;
    return this.renew(String(from), from, serverTime() / 1000);
  }

  /** @param {LiveWindow} shown */
  renewShown(shown) {
    const [from, until] = shown.range;
    return this.renew(shown.zoomed ? `${from} ${until}` : String(shown.span), from / 1000, until / 1000);
  }

  /** @returns {string} */
  get figure() {
    const energy = this.told?.energy_j;
    return hoursText(typeof energy === 'number' ? energy / 3600 : null);
  }

  /** @param {Fleet} fleet */
  meaning(fleet) {
    if (!this.told) return 'not known yet';
    return readText(this.told) + (typeof this.told.energy_j === 'number' ? billText(this.told.energy_j, fleet) : '');
  }
}
