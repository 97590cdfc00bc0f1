'use strict';
// Looks for operations in timelines: "B13", "backward stage 2", "microbatch 7". What does not fit is drawn faint.

class OperationSearch {
  /** @param {Timelines} timelines */
  constructor(timelines) {
    this.timelines = timelines;
    this.field = /** @type {HTMLInputElement} */ (make('input', {type: 'search', 'aria-label': 'Look for operations',
      placeholder: 'F12, backward, stage 3', spellcheck: 'false', oninput: () => this.renew(),
      onkeydown: event => this.key(/** @type {KeyboardEvent} */ (event))}));
    this.said = make('span', {class: 'said', role: 'status'});
    this.element = make('span', {class: 'search'}, this.field, this.said);
    /** @type {string[]} */
    this.terms = [];
    /** @type {number[]} of the last iteration, by start */
    this.found = [];
    this.at = -1;
  }

  get active() {
    return this.terms.length > 0;
  }

  renew() {
    this.terms = this.field.value.toLowerCase().replace(/\b(stage|microbatch|chunk)\s+(?=\d)/g, '$1:')
      .split(/[\s,]+/).filter(Boolean);
    const row = this.timelines.rows[this.timelines.rows.length - 1];
    const {start} = row.iteration.timing;
    this.found = row.stages.flat().filter(i => this.active && this.matches(row, i)).sort((a, b) => start[a] - start[b]);
    this.at = -1;
    this.say();
    this.timelines.redraw();
  }

  /**
   * Whether an operation has all that is looked for.
   * @param {TimelineRow} row
   * @param {number} i
   */
  matches(row, i) {
    const {order} = row.iteration;
    const {stage, instruction} = row.set.types[order.type[i]];
    const label = operationLabel(row.set, order, i).toLowerCase();
    return this.terms.every(term => {
      const [what, number] = term.split(':');
      if (what === 'stage' && number) return stage === Number(number);
      if (what === 'microbatch' && number) return order.microbatch[i] === Number(number);
      if (what === 'chunk' && number) return order.chunk[i] === Number(number);
      return label === term || instruction.toLowerCase().startsWith(term);
    });
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.key === 'Escape') {
      this.field.value = '';
      this.renew();
    }
    if (event.key !== 'Enter' || this.found.length === 0) return;
    event.preventDefault();
    const {length} = this.found;
    this.at = event.shiftKey ? (Math.max(this.at, 0) + length - 1) % length : (this.at + 1) % length;
    this.timelines.reveal(this.found[this.at]);
    this.say();
  }

  say() {
    this.said.textContent = !this.active ? '' : this.found.length === 0 ? 'none' :
      this.at < 0 ? `${this.found.length} found, Enter shows them` : `${this.at + 1} of ${this.found.length}`;
  }
}
