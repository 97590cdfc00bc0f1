'use strict';
// Asking an HTTP interface of Flyball's for JSON, with the token of this tab.

/**
 * @typedef {object} Gpu
 * @property {number} index
 * @property {string} name
 * @property {string} health
 * @property {string} trouble
 * @property {Figure} power_w
 * @property {Figure} clock_mhz
 * @property {Figure} clock_maximum_mhz
 * @property {Figure} asked_clock_mhz
 * @property {Figure} temperature_c
 * @property {Figure} power_limit_w
 * @property {string[]} throttle_reasons
 * @property {string} lease
 * @property {string} holder
 * @property {string} purpose
 * @property {string} job
 * @property {Figure} rank
 * @property {Figure} cap_w
 * @property {string} cap_holder
 */
/** @typedef {{node: string, address: string, silent: boolean, age_s: Figure, trouble: string, gpus: Gpu[]}} WatchedNode */
class Refused extends Error {
  /**
   * @param {number} status
   * @param {string} detail
   */
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** @param {unknown} error */
const wordsOf = error => error instanceof Error ? error.message : String(error);

/**
 * Whether it is for want of the right token.
 * @param {unknown} error
 */
const lacksToken = error => error instanceof Refused && (error.status === 401 || error.status === 403);

// What the server's clock is ahead of this machine's, in ms.
let clockAhead = 0;

/** The server's time, in ms since 1970. */
const serverTime = () => Date.now() + clockAhead;

/** @param {number} time of the server, in ms since 1970, just now */
function noteServerTime(time) {
  const ahead = time - Date.now();
  if (Math.abs(ahead - clockAhead) > 2000) clockAhead = ahead;  // less is the way from there to here
}

const kTokenKey = 'flyball-token';

/** Tells by the event "change" that it knows something new, and by "news" that it does and that a second is early enough. */
class Asker extends EventTarget {
  /** @param {string} asked what answers, in words */
  constructor(asked) {
    super();
    this.asked = asked;
    /** @type {'waiting' | 'live' | 'lost' | 'refused'} */
    this.state = 'waiting';
    this.trouble = '';
    this.longest = Infinity;  // s of the past that it tells
  }

  changed() {
    this.dispatchEvent(new Event('change'));
  }

  get token() {
    return sessionStorage.getItem(kTokenKey) || '';
  }

  /** @param {string} token */
  setToken(token) {
    if (token) sessionStorage.setItem(kTokenKey, token);
    else sessionStorage.removeItem(kTokenKey);
    this.begin();
  }

  /** Begins to follow what is told, or begins anew with another token. */
  begin() {}

  /**
   * @param {string} job
   * @returns {HTMLElement}
   */
  jobLink(job) {
    return make('bdi', {}, job);
  }

  /**
   * @param {string} path
   * @param {RequestInit} [options]
   */
  async open(path, options = {}) {
    /** @type {Record<string, string>} */
    const headers = this.token ? {Authorization: 'Bearer ' + this.token} : {};
    if (options.body) headers['Content-Type'] = 'application/json';
    const response = await fetch(path, {headers, cache: 'no-store', ...options});
    if (response.ok) return response;
    const problem = await response.json().catch(() => ({}));
    throw new Refused(response.status, problem.detail || response.statusText);
  }

  /**
   * Asks for an object in JSON.
   * @param {string} path
   */
  async ask(path) {
    return (await this.open(path)).json();
  }

  /**
   * Orders something, which may take a token.
   * @param {string} path
   * @param {object} body
   * @param {AbortSignal} [signal]
   */
  async order(path, body, signal) {
    return (await this.open(path, {method: 'POST', body: JSON.stringify(body), signal})).json();
  }

  /**
   * Orders something that takes the place of what was ordered before.
   * @param {string} path
   * @param {object} body
   */
  async put(path, body) {
    return (await this.open(path, {method: 'PUT', body: JSON.stringify(body)})).json();
  }

  /**
   * Ends or takes away something, which takes a token.
   * @param {string} path
   */
  async remove(path) {
    await this.open(path, {method: 'DELETE'});
  }

  /**
   * @param {string} _node
   * @param {string} _lease
   */
  async endLease(_node, _lease) {}

  /** @param {unknown} error of what was asked last */
  lose(error) {
    this.become(lacksToken(error) ? 'refused' : 'lost', wordsOf(error));
  }

  /**
   * @param {Asker['state']} state
   * @param {string} trouble
   */
  become(state, trouble) {
    this.state = state;
    this.trouble = trouble;
    this.changed();
  }
}

/** What was ordered last, and what came of it, in words beside the buttons. */
class Order {
  /** @param {Asker} source */
  constructor(source) {
    this.source = source;
    this.said = '';
    this.alarming = false;
  }

  /**
   * @param {string} words
   * @param {boolean} alarming
   */
  say(words, alarming = false) {
    this.said = words;
    this.alarming = alarming;
    this.source.changed();
  }

  saying() {
    return make('p', {class: this.alarming ? 'alarm' : 'note', role: 'status'}, this.said);
  }
}
