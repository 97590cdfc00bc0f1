'use strict';
// Figures as people read them.

/** @typedef {number | null | undefined} Figure */

const kNothing = '–';

/**
 * @param {Figure} value
 * @param {number} digits that count
 */
function rounded(value, digits) {
  if (value === null || value === undefined || !Number.isFinite(value)) return kNothing;
  if (value === 0) return '0';
  const whole = Math.floor(Math.log10(Math.abs(value))) + 1;
  return value.toFixed(Math.max(0, Math.min(digits - whole, 6)));
}

/**
 * @param {Figure} value
 * @param {[number, string][]} units each with the least value that it is used for, the largest first
 */
function inUnit(value, units) {
  if (value === null || value === undefined || !Number.isFinite(value)) return kNothing;
  const [least, unit] = units.find(one => Math.abs(value) >= one[0]) || units[units.length - 1];
  return rounded(value / least, 3) + '\u00a0' + unit;
}

/** @param {Figure} value in W */
const powerText = value => inUnit(value, [[1e6, 'MW'], [1e3, 'kW'], [1, 'W']]);
/** @param {Figure} value in J, of an iteration */
const energyText = value => inUnit(value, [[1e6, 'MJ'], [1e3, 'kJ'], [1, 'J']]);
/** @param {Figure} value in Wh */
const hoursText = value => inUnit(value, [[1e6, 'MWh'], [1e3, 'kWh'], [1, 'Wh']]);
/** @param {Figure} value in s; 0 is "not measured" where the server says so */
const timeText = value => value ? inUnit(value, [[1, 's'], [1e-3, 'ms']]) : kNothing;
/**
 * @param {number} count
 * @param {string} one
 * @param {string} several
 */
const countText = (count, one, several = one + 's') => count + '\u00a0' + (count === 1 ? one : several);
