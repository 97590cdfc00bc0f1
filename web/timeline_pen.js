'use strict';
// Draws a timeline's parts on a canvas, in CSS pixels and in the page's colours.

const kLabelFont = 9.5;  // px
const kBordered = 6;     // px; narrower operations would show little but their borders

/** @type {Map<string, number>} the widths of labels, px */
const kLabelWidths = new Map();

class TimelinePen {
  /**
   * Clears the canvas and gives it this size, in pixels.
   * @param {HTMLCanvasElement} canvas
   * @param {number} width
   * @param {number} height
   */
  constructor(canvas, width, height) {
    const dense = window.devicePixelRatio || 1;
    const size = [Math.round(width * dense), Math.round(height * dense)];
    if (canvas.width !== size[0] || canvas.height !== size[1]) {
      [canvas.width, canvas.height] = size;
      canvas.style.width = width + 'px';
      canvas.style.height = height + 'px';
    }
    this.width = width;
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
    this.context.setTransform(dense, 0, 0, dense, 0, 0);
    this.context.clearRect(0, 0, width, height);
    const style = getComputedStyle(document.documentElement);
    const colour = (/** @type {string} */ name) => style.getPropertyValue('--' + name).trim();
    this.bubble = colour('bubble');
    this.paper = colour('paper');
    this.ink = colour('ink');
    this.soft = colour('soft');
    this.line = colour('line');
    this.critical = colour('critical');
    this.font = colour('font');
    this.context.lineJoin = 'round';
  }

  /**
   * @param {number} x
   * @param {number} y
   * @param {number} width
   * @param {number} height
   * @param {string} fill
   */
  box(x, y, width, height, fill) {
    // A canvas no longer draws what is many thousand pixels wide.
    const left = Math.max(x, -10);
    const right = Math.min(x + width, this.width + 10);
    if (right <= left) return;
    this.context.fillStyle = fill;
    this.context.fillRect(left, y, right - left, height);
  }

  /**
   * @param {number} x
   * @param {number} y
   * @param {number} width
   * @param {number} height
   * @param {string} fill
   * @param {boolean} faint
   */
  operation(x, y, width, height, fill, faint) {
    this.context.globalAlpha = faint ? 0.2 : 1;
    const border = width < kBordered ? 0 : 0.75;
    this.box(x + border / 2, y, Math.max(width, 0.5) - border, height, fill);
    this.context.globalAlpha = 1;
  }

  /**
   * An operation's name, or its number alone, where there is room for it.
   * @param {string} name
   * @param {number} x
   * @param {number} y
   * @param {number} width
   * @param {boolean} dark whether what is below is
   */
  label(name, x, y, width, dark) {
    if (width < kBordered) return;
    this.context.font = `${kLabelFont}px ${this.font}`;
    const fits = (/** @type {string} */ text) => {
      let wide = kLabelWidths.get(text);
      if (wide === undefined) kLabelWidths.set(text, wide = this.context.measureText(text).width);
      return wide + 3 <= width;
    };
    const text = [name, name.replace(/^\D+/, '')].find(one => one !== '' && fits(one));
    if (!text) return;
    this.context.fillStyle = dark ? '#fff' : '#000';
    this.context.textAlign = 'center';
    this.context.fillText(text, x + width / 2, y);
  }

  /** @param {[number, number][]} points */
  path(points) {
    if (points.length === 0) return;
    this.context.beginPath();
    for (const [x, y] of points) this.context.lineTo(x, y);
    this.context.lineCap = 'round';
    for (const [colour, width] of /** @type {[string, number][]} */ ([[this.paper, 5], [this.critical, 2.5]])) {
      this.context.strokeStyle = colour;
      this.context.lineWidth = width;
      this.context.stroke();
    }
  }

  /**
   * @param {number} x
   * @param {number} y
   * @param {number} width
   * @param {number} height
   */
  frame(x, y, width, height) {
    this.context.strokeStyle = this.ink;
    this.context.lineWidth = 2;
    this.context.strokeRect(x, y, Math.max(width, 1), height);
  }

  /**
   * @param {(time: number) => number} x
   * @param {number} from ns
   * @param {number} until ns
   * @param {number} least ns between ticks
   * @param {number} y
   * @param {number} end ns
   */
  axis(x, from, until, least, y, end) {
    const {context} = this;
    const power = 10 ** Math.floor(Math.log10(least));
    const step = power * ([1, 2, 5].find(one => one * power >= least) || 10);
    const digits = Math.max(0, Math.ceil(9 - Math.log10(step) - 1e-9));
    context.strokeStyle = this.line;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x(from), y);
    context.lineTo(this.width, y);
    context.font = `11px ${this.font}`;
    context.fillStyle = this.soft;
    context.textAlign = 'center';
    for (let k = Math.ceil(from / step - 1e-9); k * step <= until; ++k) {
      context.moveTo(x(k * step), y);
      context.lineTo(x(k * step), y + 4);
      context.fillText((k * step / 1e9).toFixed(digits), x(k * step), y + 16);
    }
    if (end >= from) context.moveTo(x(end), 0);
    if (end >= from) context.lineTo(x(end), y);
    context.stroke();
  }

  /**
   * The column of the stages' names, over whatever was drawn there.
   * @param {number} stages
   * @param {number} height
   */
  names(stages, height) {
    const {context} = this;
    context.fillStyle = this.paper;
    context.fillRect(0, 0, kNames - 0.5, height);
    context.font = `11px ${this.font}`;
    context.fillStyle = this.soft;
    context.textAlign = 'right';
    for (let stage = 0; stage < stages; ++stage) context.fillText('stage ' + stage, kNames - 8, stage * kPitch + 17);
    context.fillText('time (s)', kNames - 8, stages * kPitch + 16);
  }
}
