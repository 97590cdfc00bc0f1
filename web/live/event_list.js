'use strict';
// What happened to a job or to a node in the time that is shown, the newest first.

const kEventsShown = 12;

class EventList {
  /**
   * @param {Past} past
   * @param {() => void} changed called when more or fewer are to be shown
   */
  constructor(past, changed) {
    this.past = past;
    this.changed = changed;
    this.all = false;
  }

  shown() {
    const {events} = this.past;
    const all = events.map((_, at) => events[events.length - 1 - at]);
    if (all.length === 0) return make('p', {class: 'note'}, 'Nothing has happened in this time.');
    const shown = this.all ? all : all.slice(0, kEventsShown);
    const items = shown.map(event => make('li', {class: event.event + (isAlarm(event) ? ' alarm' : '')},
      make('time', {datetime: new Date(event.time_s * 1000).toISOString()}, momentText(event.time_s)), ' ',
      (event.event === 'state' || event.event === 'promise' ? event.event + ': ' : '') + event.text));
    const more = () => {
      this.all = !this.all;
      this.changed();
    };
    return make('div', {}, make('ol', {class: 'events'}, items),
      all.length > kEventsShown ? make('button', {type: 'button', 'aria-expanded': String(this.all), onclick: more},
        this.all ? 'Show the newest only' : `Show all ${all.length}`) : null);
  }
}
