'use strict';
// A job's frontier: what an iteration may take and what energy it costs then, with what the ranks measure.

/** @typedef {{time_s: number, energy_j: number, lower_bound_j: Figure}} FrontierPoint */
/**
 * @typedef {object} Frontier
 * @property {number} base_point
 * @property {number} max_clock_time_s
 * @property {number} max_clock_energy_j
 * @property {string} limited_by
 * @property {FrontierPoint[]} points
 */

/**
 * @param {{time_s: number}[]} points at least one
 * @param {number} time in s
 */
function nearestPoint(points, time) {
  const away = points.map(point => Math.abs(point.time_s - time));
  return away.indexOf(Math.min(...away));
}

/**
 * Where a point is drawn, if there is one.
 * @param {FrontierPoint | undefined} point
 * @returns {[number, number][]}
 */
const placeOfPoint = point => point ? [[point.time_s, point.energy_j]] : [];

class FrontierChart extends EnergyChart {
  /** @param {(point: number) => void} choose what becomes of a click */
  constructor(choose) {
    super('Energy of an iteration of one pipeline over its time', 'frontier', time => {
      if (this.points.length > 0) choose(nearestPoint(this.points, time));
    });
    /** @type {FrontierPoint[]} */
    this.points = [];
  }

  /**
   * @param {Frontier} frontier
   * @param {number} inForce a point; -1: none of them
   * @param {number | null} chosen a point
   * @param {{time: number, energy: number} | null} measured
   */
  show(frontier, inForce, chosen, measured) {
    this.points = frontier.points;
    this.draw([
      {name: 'planned', color: '--p0', points: this.points.flatMap(placeOfPoint)},
      {name: 'in force', color: '--p2', points: placeOfPoint(this.points[inForce]), size: 6},
      {name: 'maximum clocks', color: '--p6', points: [[frontier.max_clock_time_s, frontier.max_clock_energy_j]], size: 6},
      {name: 'measured', color: '--p5', points: measured ? [[measured.time, measured.energy]] : [], size: 6},
      {name: 'chosen', color: '--p1', points: chosen === null ? [] : placeOfPoint(this.points[chosen]), size: 8},
    ], under => this.tell(frontier, this.points[inForce], measured, under));
  }

  /**
   * @param {Frontier} frontier
   * @param {FrontierPoint | undefined} inForce
   * @param {{time: number, energy: number} | null} measured
   * @param {{name: string, xval: number, yval: number}} [under] the pointer
   */
  tell(frontier, inForce, measured, under) {
    this.say(`Frontier of ${countText(frontier.points.length, 'point')}`, [
      under && under.name === 'planned' ? pointText('this point', 'c-p0', under.xval, under.yval) : null,
      inForce ? pointText('in force', 'c-p2', inForce.time_s, inForce.energy_j) : null,
      pointText('maximum clocks', 'c-p6', frontier.max_clock_time_s, frontier.max_clock_energy_j),
      measured ? pointText('measured', 'c-p5', measured.time, measured.energy) : null]);
  }
}
