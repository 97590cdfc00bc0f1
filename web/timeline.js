// <plan-timeline>: moves and zooms the pictures of a plan's timelines that it holds (src/report/timeline_view.cpp), and
// tells what each operation is. It draws nothing: zooming sets --zoom, the width of the pictures over what they were
// drawn for. Works on whatever is put into a page, when it is put there.

/**
 * Times in microseconds. `choices`: instruction, clock, power and energy as text. `stages`: for each stage columns of
 * choice, microbatch (-1: none), chunk, the time since the operation before, duration, slack.
 * @typedef {{choices: string[][], stages: number[][][]}} TimelinePlan
 * `pixel`: microseconds per pixel at zoom 1. In pixels: `pitch` from row to row, `stretch` what groups with data-x are
 * shown for. `most`: the greatest zoom.
 * @typedef {{pixel: number, pitch: number, stretch: number, most: number, plans: TimelinePlan[]}} TimelineData
 */

class Timeline {
  /** @param {HTMLElement} host */
  constructor(host) {
    this.host = host;
    /** @type {TimelineData} */
    this.data = JSON.parse(part(host, 'script').textContent || '');
    this.view = part(host, '.view');
    this.names = part(host, '.names');
    this.pictures = [...this.view.querySelectorAll('svg.bars')];
    const drawn = [...this.view.querySelectorAll('svg.bars > svg')].map(svg => /** @type {SVGSVGElement} */ (svg));
    this.natural = Math.max(...drawn.map(svg => svg.viewBox.baseVal.width));
    this.groups = [...this.view.querySelectorAll('[data-from]')].map(group => /** @type {SVGElement} */ (group));
    this.shapes = [...this.view.querySelectorAll('[data-border]')].map(group => /** @type {SVGElement} */ (group));
    this.zoom = 1;
    this.whole = false;
    /** @type {{x: number, left: number, moved: boolean} | null} */
    this.grip = null;
    this.listening = new AbortController();
    this.listen(part(host, '.tools'), this.listening.signal);
    this.go(this.fit() > 0.75 ? 'all' : 'start');
    this.resized = new ResizeObserver(() => {
      if (this.whole) this.go('all');
      else this.setZoom(this.zoom, 0);
    });
    this.resized.observe(this.view);
  }

  // Forgets the page; what it is about may be given to another.
  close() {
    this.listening.abort();
    this.resized.disconnect();
    this.release();
    this.light(null);
  }

  /**
   * @param {HTMLElement} tools
   * @param {AbortSignal} signal
   */
  listen(tools, signal) {
    tools.hidden = false;
    for (const button of tools.querySelectorAll('button')) {
      const {go, zoom} = button.dataset;
      button.addEventListener('click', () => {
        if (zoom) this.setZoom(this.zoom * Number(zoom));
        else this.go(go || '');
      }, {signal});
      // A short iteration is seen whole at once.
      button.hidden = this.fit() > 0.75 && go !== undefined && go !== 'all';
    }
    const view = this.view;
    view.addEventListener('scroll', () => this.showGroups(), {passive: true, signal});
    view.addEventListener('keydown', event => this.key(event), {signal});
    view.addEventListener('wheel', event => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.setZoom(this.zoom * (event.deltaY > 0 ? 1 / 1.2 : 1.2), event.clientX - view.getBoundingClientRect().left);
    }, {passive: false, signal});
    view.addEventListener('pointerdown', event => {
      if (event.button !== 0 || event.pointerType !== 'mouse') return;
      // What is below is the view's own scroll bar.
      if (event.clientY - view.getBoundingClientRect().top >= view.clientTop + view.clientHeight) return;
      this.grip = {x: event.clientX, left: view.scrollLeft, moved: false};
    }, {signal});
    view.addEventListener('pointermove', event => this.point(event), {signal});
    view.addEventListener('pointerleave', () => this.light(null), {signal});
    for (const end of ['pointerup', 'pointercancel']) addEventListener(end, () => this.release(), {signal});
  }

  release() {
    this.grip = null;
    this.view.classList.remove('dragging');
  }

  // The zoom at which the whole iteration is in view, beside the names and the pictures' margins.
  fit() {
    return Math.max(1, this.view.clientWidth - this.names.getBoundingClientRect().width - 29) / this.natural;
  }

  /**
   * @param {number} zoom
   * @param {number} [at] pixels from the left edge of what is seen; what is there stays there
   */
  setZoom(zoom, at) {
    const view = this.view;
    const names = this.names.getBoundingClientRect().width;
    const fit = this.fit();
    const before = this.zoom;
    const pivot = (at === undefined ? (view.clientWidth + names) / 2 : Math.max(at, names)) - names;
    this.zoom = Math.max(fit, Math.min(zoom, Math.max(this.data.most, fit)));
    this.whole = this.zoom === fit;
    this.host.style.setProperty('--zoom', String(this.zoom));
    for (const group of this.shapes) group.classList.toggle('far', this.zoom < Number(group.dataset.border));
    view.scrollLeft = (view.scrollLeft + pivot) * this.zoom / before - pivot;
    this.showGroups();
    this.light(null);
  }

  // What is for this zoom and, of labels, near: a browser lays out some thousand texts a second.
  showGroups() {
    const left = this.view.scrollLeft / this.zoom - this.data.stretch;
    const right = (this.view.scrollLeft + this.view.clientWidth) / this.zoom;
    for (const group of this.groups) {
      const {from, to, x} = group.dataset;
      const near = x === undefined || (Number(x) > left && Number(x) < right);
      const shown = near && this.zoom >= Number(from) && this.zoom < Number(to || Infinity);
      if (shown === !group.hasAttribute('display')) continue;
      if (shown) group.removeAttribute('display');
      else group.setAttribute('display', 'none');
    }
  }

  /** @param {string} place */
  go(place) {
    const view = this.view;
    this.setZoom(place === 'all' ? 0 : 1);
    const room = view.scrollWidth - view.clientWidth;
    view.scrollLeft = place === 'middle' ? room / 2 : place === 'end' ? room : 0;
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    /** @type {Record<string, () => void>} */
    const actions = {
      '+': () => this.setZoom(this.zoom * 1.6),
      '=': () => this.setZoom(this.zoom * 1.6),
      '-': () => this.setZoom(this.zoom / 1.6),
      Home: () => this.go('start'),
      End: () => this.go('end'),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }

  /** @param {PointerEvent} event */
  point(event) {
    const view = this.view;
    // A button that is let go outside of the window is not told.
    if (!(event.buttons & 1)) this.release();
    if (this.grip) {
      const moved = event.clientX - this.grip.x;
      if (Math.abs(moved) > 3) this.grip.moved = true;
      if (this.grip.moved) {
        view.classList.add('dragging');
        view.scrollLeft = this.grip.left - moved;
        return;
      }
    }
    const index = this.pictures.findIndex(svg => svg.contains(/** @type {Node} */ (event.target)));
    if (index < 0) return this.light(null);
    const svg = this.pictures[index];
    const box = svg.getBoundingClientRect();
    const plan = this.data.plans[index];
    const stage = Math.floor((event.clientY - box.top) / this.data.pitch);
    const time = (event.clientX - box.left) / this.zoom * this.data.pixel;
    if (!plan.stages[stage]) return this.light(null);
    const [choice, microbatch, chunk, gap, duration, slack] = plan.stages[stage];
    let start = 0;
    for (let i = 0; i < gap.length; ++i) {
      start += gap[i];
      if (start > time) break;
      if (time < start + duration[i]) {
        const [instruction, clock, cost] = plan.choices[choice[i]];
        const rows = [`${instruction}${microbatch[i] < 0 ? '' : ', microbatch ' + microbatch[i]}` +
          `${chunk[i] > 0 ? ', chunk ' + chunk[i] : ''}, stage ${stage}`];
        if (clock) rows.push(clock);
        rows.push(`start ${(start / 1e6).toFixed(4)} s, ${(duration[i] / 1e3).toFixed(2)} ms`, cost,
          slack[i] === 0 ? 'critical' : `slack ${(slack[i] / 1e3).toFixed(2)} ms`);
        this.light(svg, start / this.data.pixel, stage * this.data.pitch, duration[i] / this.data.pixel);
        return showTip(rows.join('\n'), event);
      }
      start += duration[i];
    }
    this.light(null);
  }

  /**
   * Frames the operation that is pointed at, or none.
   * @param {Element | null} svg
   */
  light(svg, x = 0, y = 0, width = 0) {
    for (const picture of this.pictures) {
      const frame = part(picture, '.lit');
      if (picture === svg) {
        for (const [name, value] of Object.entries({x, y, width})) frame.setAttribute(name, String(value));
      }
      frame.style.display = picture === svg ? 'block' : 'none';
    }
    if (!svg) hideTip();
  }
}

customElements.define('plan-timeline', class extends HTMLElement {
  connectedCallback() {
    this.timeline = new Timeline(this);
  }

  disconnectedCallback() {
    if (this.timeline) this.timeline.close();
  }
});
