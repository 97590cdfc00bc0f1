'use strict';
// Which view is shown, by the address after '#', and the state of the connection. Views ask once a second, while the
// tab can be seen.

/**
 * @typedef {object} View
 * @property {() => (Node | string)[]} shown
 * @property {() => Promise<void>} [ask] what is asked each second, besides what the source is told
 * @property {() => void} [drawn] after the page shows what shown() gave
 * @property {() => void} [close]
 * @property {string} title
 * @property {boolean} [asksByItself] it says itself what it was refused
 */

const kAskEvery = 1000;  // ms

class Page {
  /**
   * @param {Asker} source
   * @param {[string, string][]} kinds of views and their names; an address without a kind shows the first
   * @param {(kind: string, name: string) => View} views
   * @param {string} rights what a token gives
   */
  constructor(source, kinds, views, rights) {
    this.source = source;
    this.first = kinds[0][0];
    this.views = views;
    document.querySelector('nav')?.replaceChildren(...kinds.map(([kind, name]) =>
      make('a', {href: kind === this.first ? '#/' : '#/' + kind, 'data-view': kind}, name)));
    document.querySelector('.rights')?.replaceChildren(rights);
    this.main = /** @type {HTMLElement} */ (document.getElementById('main'));
    this.link = /** @type {HTMLElement} */ (document.querySelector('.link'));
    this.dialog = /** @type {HTMLDialogElement} */ (document.querySelector('dialog'));
    /** @type {View} */
    this.view = {title: '', shown: () => []};
    this.drawing = false;
    this.asking = false;
    this.later = 0;
    this.source.addEventListener('change', () => this.draw());
    this.source.addEventListener('news', () => {
      this.later ||= setTimeout(() => this.draw(), kAskEvery);
    });
    addEventListener('hashchange', () => this.go(true));
    document.addEventListener('visibilitychange', () => this.ask());
    document.querySelector('.key')?.addEventListener('click', () => this.dialog.showModal());
    this.dialog.addEventListener('close', () => this.takeToken());
    this.go(false);
    this.source.begin();
    setInterval(() => this.ask(), kAskEvery);
  }

  takeToken() {
    const input = /** @type {HTMLInputElement} */ (this.dialog.querySelector('input'));
    if (this.dialog.returnValue === 'use' && input.value) this.source.setToken(input.value.trim());
    if (this.dialog.returnValue === 'forget') this.source.setToken('');
    input.value = '';
  }

  /** @returns {View} */
  viewOfAddress() {
    const [kind, name] = location.hash.replace(/^#\/?/, '').split('/');
    let decoded = '';
    try {
      decoded = decodeURIComponent(name || '');
    } catch {
      decoded = name;
    }
    return this.views(kind || this.first, decoded);
  }

  /** @param {boolean} focus whether a reader has gone there */
  go(focus) {
    this.view.close?.();
    this.view = this.viewOfAddress();
    this.main.replaceChildren();
    document.title = `${this.view.title} – Flyball`;
    const kind = location.hash.replace(/^#\/?/, '').split('/')[0] || this.first;
    for (const link of document.querySelectorAll('nav a')) {
      if (link.getAttribute('data-view') === kind) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
    this.draw();
    this.ask();
    if (!focus) return;
    this.main.focus();
    scrollTo(0, 0);
  }

  async ask() {
    if (this.asking || document.hidden || !this.view.ask) return;
    this.asking = true;
    const view = this.view;
    try {
      await view.ask?.();
    } catch {
      // The source says that nobody answers; what was drawn stays.
    } finally {
      this.asking = false;
    }
    if (view === this.view) this.draw();
    else this.ask();
  }

  draw() {
    clearTimeout(this.later);
    this.later = 0;
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      this.showLink();
      renew(this.main, [...this.refusal(), ...this.view.shown()]);
      this.view.drawn?.();
    });
  }

  showLink() {
    const {state, trouble} = this.source;
    const text = {waiting: 'connecting', live: 'live', lost: 'no connection, trying again', refused: 'needs a token'}[state];
    if (this.link.dataset.state !== state) this.link.dataset.state = state;
    if (this.link.textContent !== text) this.link.textContent = text;
    this.link.title = trouble;
  }

  refusal() {
    if (this.source.state === 'lost') {
      return [make('p', {class: 'alarm banner'}, `The ${this.source.asked} does not answer (${this.source.trouble}). ` +
        'What stands here is what it said last.')];
    }
    if (this.source.state !== 'refused' || this.view.asksByItself) return [];
    return [make('p', {class: 'alarm banner'}, `The ${this.source.asked} says: ${this.source.trouble}. `,
      make('button', {type: 'button', onclick: () => this.dialog.showModal()}, 'Give a token'))];
  }
}
