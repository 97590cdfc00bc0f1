'use strict';
// Figures of trainings as people read them.

/** @param {Figure} value in J, of a training */
const savedText = value => hoursText(typeof value === 'number' ? value / 3600 : value);
/**
 * What energy costs and sets free, as far as the server's operator has said; begins with a separator.
 * @param {number} joules
 * @param {Fleet | null} fleet
 * @param {string} per "" or " per hour"
 */
function billText(joules, fleet, per = '') {
  const hours = joules / 3.6e6;  // kWh
  const {price_per_kwh: price, carbon_g_per_kwh: grams} = fleet || {};
  return (typeof price === 'number' ? `; ${moneyText(hours * price)}${per} at ${price} a kWh` : '') +
    (typeof grams === 'number' ? `; ${inUnit(hours * grams, [[1e6, 't'], [1e3, 'kg'], [1, 'g']])} CO₂${per}` : '');
}
/** @param {number} value in the operator's currency, which has no name here */
const moneyText = value => value.toLocaleString([], {minimumFractionDigits: 2, maximumFractionDigits: 2});
/**
 * @param {Figure} value in percent
 * @param {boolean} signed
 */
function percentText(value, signed = false) {
  if (value === null || value === undefined || !Number.isFinite(value)) return kNothing;
  return (signed && value > 0 ? '+' : '') + value.toFixed(1).replace(/^-/, '\u2212') + '\u00a0%';
}
/** @param {number} value in MHz */
const clockText = value => Math.round(value) + '\u00a0MHz';
/** @param {number} unix in s */
const momentText = unix => new Date(unix * 1000).toLocaleString([], {
  month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit'});
/** @param {Figure} seconds */
function ageText(seconds) {
  if (seconds === null || seconds === undefined) return 'never';
  if (seconds < 90) return Math.round(seconds) + ' s ago';
  if (seconds < 5400) return Math.round(seconds / 60) + ' min ago';
  return Math.round(seconds / 3600) + ' h ago';
}
/** @param {string[]} reasons */
const reasonsText = reasons => reasons.map(reason => reason.replaceAll('_', ' ')).join(', ');
