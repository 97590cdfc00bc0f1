// The timeline that can be zoomed and moved: data written here, drawn by the script below.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <nlohmann/json.hpp>

#include "draw/scale.h"
#include "draw/svg_canvas.h"
#include "draw/text_table.h"
#include "report/timeline_picture.h"

namespace flyball {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

std::int64_t microseconds(Nanoseconds t) { return (t + 500) / 1000; }

// JSON inside a script element must not end it.
std::string json_string(const std::string& text) {
  std::string out = nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  for (std::size_t k = out.find('<'); k != std::string::npos; k = out.find('<', k)) out.replace(k, 1, "\\u003c");
  return out;
}

// "F" of "F12", "BI" of "BI3/1": the part that all operations of a type share.
std::string letters(const std::string& label) { return label.substr(0, label.find_first_of("0123456789/")); }

class ViewData {
 public:
  explicit ViewData(const ReportInput& input) : input_(input), power_(power_scale(input)) {}

  // Times in microseconds. choices: [letters, instruction, MHz, ms, W, J, colour, dark]; stages: columns of choice,
  // microbatch, chunk, start, duration, slack; path: [stage, from, to].
  std::string json() {
    out_ = "{\"plans\":[";
    for (const RealisedPlan* plan : {&input_.baseline, &input_.chosen}) {
      if (plan == &input_.chosen) out_ += ',';
      add_plan(*plan, plan == &input_.chosen ? &input_.baseline : nullptr);
    }
    return std::move(out_) + "]}";
  }

 private:
  void add_plan(const RealisedPlan& plan, const RealisedPlan* than) {
    const Timeline timeline = emulate(*plan.dag, plan.durations);
    std::map<std::pair<int, int>, std::size_t> index_of;  // type and option to choice
    std::string choices;
    std::string stages;
    for (int stage = 0; stage < plan.dag->stages(); ++stage) {
      std::string columns[6];
      for (const int i : plan.dag->stage_order(stage)) {
        const Computation& computation = (*plan.dag)[i];
        const auto [entry, is_new] = index_of.try_emplace({computation.type, plan.plan[at(i)]}, index_of.size());
        if (is_new) choices += (choices.empty() ? "" : ",") + choice(plan, i);
        const std::int64_t values[6] = {static_cast<std::int64_t>(entry->second),
                                        computation.microbatch,
                                        computation.chunk,
                                        microseconds(timeline.start[at(i)]),
                                        microseconds(plan.durations[at(i)]),
                                        microseconds(timeline.latest_start[at(i)] - timeline.start[at(i)])};
        for (std::size_t k = 0; k < 6; ++k) {
          fmt::format_to(std::back_inserter(columns[k]), "{}{}", columns[k].empty() ? "" : ",", values[k]);
        }
      }
      stages += fmt::format("{}[[{}]]", stage > 0 ? "," : "", fmt::join(columns, "],["));
    }
    fmt::format_to(
        std::back_inserter(out_), "{{\"head\":{},\"end\":{},\"choices\":[{}],\"stages\":[{}],\"path\":[{}]}}",
        json_string(plan_heading(plan, than)), microseconds(timeline.makespan), choices, stages, path(plan, timeline));
  }

  std::string choice(const RealisedPlan& plan, int i) const {
    const ClockOption& option = option_of(plan, i);
    const Watts mean = mean_power(option);
    return fmt::format(
        "[{},{},{},{},{},{},\"{}\",{}]", json_string(letters(short_label(*plan.dag, i))),
        json_string(plan.dag->type_of(i).instruction), json_string(short_number(option.frequency.value())),
        json_string(short_number(option.time.value() * 1e3)), json_string(short_number(mean.value())),
        json_string(short_number(option.energy.value())), power_.color(mean), power_.is_dark(mean) ? 1 : 0);
  }

  // Critical path, neighbours on one stage joined.
  static std::string path(const RealisedPlan& plan, const Timeline& timeline) {
    std::string out;
    int stage = -1;
    Nanoseconds from = 0;
    Nanoseconds to = 0;
    const auto flush = [&] {
      if (stage < 0) return;
      fmt::format_to(std::back_inserter(out), "{}[{},{},{}]", out.empty() ? "" : ",", stage, microseconds(from),
                     microseconds(to));
    };
    for (const int i : critical_path(*plan.dag, timeline)) {
      if (!plan.dag->type_of(i).occupies_stage) continue;
      if (plan.dag->type_of(i).stage != stage || timeline.start[at(i)] != to) {
        flush();
        stage = plan.dag->type_of(i).stage;
        from = timeline.start[at(i)];
      }
      to = timeline.finish[at(i)];
    }
    flush();
    return out;
  }

  const ReportInput& input_;
  PowerScale power_;
  std::string out_;
};

std::string legend(const ReportInput& input) {
  const PowerScale power = power_scale(input);
  constexpr int kStops = 8;
  std::string stops;
  for (int k = 0; k <= kStops; ++k) {
    stops += (k > 0 ? "," : "") + power.color(power.least() + (power.most() - power.least()) * (k / 8.0));
  }
  return fmt::format(
      "<div class=\"legend\"><span>mean power: {} W <i class=\"bar\" "
      "style=\"background:linear-gradient(90deg,{})\"></i> "
      "{} W</span><span><i class=\"swatch\"></i>{}</span><span><i class=\"rule\"></i>critical path</span></div>\n",
      short_number(power.least().value()), stops, short_number(power.most().value()),
      escape_markup(blocking_label(*input.problem)));
}

constexpr std::string_view kTools = R"(<div class="tools" hidden>
<button type="button" data-go="start">Start</button>
<button type="button" data-go="middle">Steady state</button>
<button type="button" data-go="end">End</button>
<button type="button" data-go="all">Whole iteration</button>
<button type="button" data-zoom="1.6" aria-label="Zoom out">&#8722;</button>
<button type="button" data-zoom="0.625" aria-label="Zoom in">+</button>
<input type="range" min="0" max="1000" value="0" aria-label="Position in the iteration">
</div>
<div class="view" tabindex="0" role="group" hidden
 aria-label="Timelines; arrow keys move, plus and minus zoom, Home and End jump"></div>
)";

constexpr std::string_view kScript = R"JS('use strict';
(() => {
const tip = document.getElementById('tip');
const showTip = (text, event) => {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 4)) + 'px';
  tip.style.top = (event.clientY + 18 + box.height < innerHeight ? event.clientY + 18
    : Math.max(4, event.clientY - box.height - 12)) + 'px';
};
const hideTip = () => { tip.hidden = true; };

// Hover texts of the still pictures, shown at once instead of after the browser's delay.
document.querySelectorAll('svg title').forEach(title => {
  const shape = title.parentNode;
  shape.dataset.tip = title.textContent;
  title.remove();
});
document.addEventListener('pointerover', event => {
  const shape = event.target.closest && event.target.closest('[data-tip]');
  if (shape) showTip(shape.dataset.tip, event);
  else if (!event.target.closest || !event.target.closest('.view')) hideTip();
});
document.addEventListener('keydown', event => { if (event.key === 'Escape') hideTip(); });
addEventListener('scroll', hideTip, {passive: true});

const root = document.getElementById('timeline');
if (!root) return;
const data = JSON.parse(document.getElementById('timeline-data').textContent);
const view = root.querySelector('.view'), tools = root.querySelector('.tools');
const slider = tools.querySelector('input');
root.querySelector('.still').remove();
view.hidden = tools.hidden = false;

const longest = Math.max(...data.plans.map(plan => plan.end)) * 1.004;
const durations = [].concat(...data.plans[0].stages.map(columns => columns[4])).sort((a, b) => a - b);
const median = durations[durations.length >> 1] || longest;
let from = 0, to = longest, lit = null;

const rowHeight = 28, rowGap = 4, axisHeight = 26;
const escapeText = text => text.replace(/[&<>"]/g, c => '&#' + c.charCodeAt(0) + ';');
const ticksOf = (low, high, count) => {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= raw * 0.999);
  const out = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; ++k) out.push(k * step);
  return [out, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9))];
};

function drawPlan(plan, width, index) {
  const narrow = width < 560, left = narrow ? 22 : 58, plot = width - left - 8;
  const x = t => left + (t - from) / (to - from) * plot;
  const height = plan.stages.length * (rowHeight + rowGap) + axisHeight;
  const out = [`<h3>${escapeText(plan.head)}</h3><svg width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">`];
  plan.stages.forEach((columns, stage) => {
    const [choice, microbatch, chunk, start, duration] = columns, y = stage * (rowHeight + rowGap);
    out.push(`<text x="${left - 7}" y="${y + 18}" text-anchor="end" class="small soft">${narrow ? stage : 'stage ' + stage}</text>`);
    const idleTo = Math.min(x(plan.end), left + plot);
    if (idleTo > left) out.push(`<rect class="bubble" x="${left}" y="${y}" width="${idleTo - left}" height="${rowHeight}"/>`);
    let low = 0, high = start.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (start[middle] + duration[middle] <= from) low = middle + 1; else high = middle;
    }
    let drawn = -1;
    for (let i = low; i < start.length && start[i] < to; ++i) {
      const x0 = Math.max(left, x(start[i])), x1 = Math.min(left + plot, x(start[i] + duration[i]));
      if (x1 - drawn < 0.6) continue;
      drawn = x1;
      const c = plan.choices[choice[i]];
      out.push(`<rect class="${x1 - x0 > 3 ? 'op' : ''}" x="${x0.toFixed(2)}" y="${y}" width="${(x1 - x0).toFixed(2)}" ` +
        `height="${rowHeight}" fill="${c[6]}" data-op="${index},${stage},${i}"/>`);
      const number = microbatch[i] < 0 ? '' : microbatch[i] + (chunk[i] > 0 ? '/' + chunk[i] : '');
      const label = [c[0] + number, number].find(text => text && text.length * 6.2 + 4 < x1 - x0);
      if (label) {
        out.push(`<text x="${((x0 + x1) / 2).toFixed(1)}" y="${y + 15.5}" text-anchor="middle" pointer-events="none" ` +
          `class="tiny ${c[7] ? 'on-dark' : 'on-light'}">${escapeText(label)}</text>`);
      }
    }
  });
  const lines = [];
  let line = [];
  for (const [stage, begin, end] of plan.path) {
    if (end <= from || begin >= to) { if (line.length) lines.push(line); line = []; continue; }
    const y = stage * (rowHeight + rowGap) + rowHeight - 4.5;
    line.push(x(Math.max(begin, from)).toFixed(1) + ',' + y, x(Math.min(end, to)).toFixed(1) + ',' + y);
  }
  if (line.length) lines.push(line);
  for (const points of lines) {
    for (const css of ['under', 'critical']) {
      out.push(`<polyline pointer-events="none" class="${css}" points="${points.join(' ')}"/>`);
    }
  }
  const foot = height - axisHeight + 2;
  out.push(`<line class="axis" x1="${left}" x2="${left + plot}" y1="${foot}" y2="${foot}"/>`);
  const [ticks, decimals] = ticksOf(from / 1e6, to / 1e6, Math.max(2, Math.floor(plot / 90)));
  ticks.forEach((t, k) => {
    const px = x(t * 1e6);
    out.push(`<line class="axis" x1="${px}" x2="${px}" y1="${foot}" y2="${foot + 4}"/><text class="small soft" x="${px}" ` +
      `y="${foot + 17}" text-anchor="${px < left + 12 ? 'start' : px > left + plot - 14 ? 'end' : 'middle'}">` +
      `${t.toFixed(decimals)}${k + 1 === ticks.length ? '\u00a0s' : ''}</text>`);
  });
  out.push('</svg>');
  return out.join('');
}

let pending = false;
function draw() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => {
    pending = false;
    const width = Math.max(280, view.clientWidth);
    view.innerHTML = data.plans.map((plan, index) => drawPlan(plan, width, index)).join('');
    const span = to - from;
    slider.value = longest > span ? Math.round(1000 * from / (longest - span)) : 0;
    slider.disabled = longest - span < 1;
    slider.setAttribute('aria-valuetext', (from / 1e6).toFixed(3) + ' to ' + (to / 1e6).toFixed(3) + ' s');
  });
}
function show(begin, span) {
  span = Math.min(longest, Math.max(span, median * 2));
  from = Math.max(0, Math.min(begin, longest - span));
  to = from + span;
  hideTip();
  draw();
}
const zoom = (factor, at = 0.5) => {
  const pivot = from + at * (to - from);
  show(pivot - at * (to - from) * factor, (to - from) * factor);
};
const stretch = () => Math.min(longest, median * Math.max(10, view.clientWidth / 27));
const places = {
  start: () => show(0, stretch()),
  middle: () => show(longest / 2 - stretch() / 2, stretch()),
  end: () => show(longest, stretch()),
  all: () => show(0, longest),
};
tools.addEventListener('click', event => {
  const button = event.target.closest('button');
  if (!button) return;
  if (button.dataset.go) places[button.dataset.go](); else zoom(Number(button.dataset.zoom));
});
slider.addEventListener('input', () => show(slider.value / 1000 * (longest - (to - from)), to - from));
view.addEventListener('keydown', event => {
  const step = (to - from) * 0.2;
  const action = {ArrowRight: () => show(from + step, to - from), ArrowLeft: () => show(from - step, to - from),
    '+': () => zoom(0.625), '=': () => zoom(0.625), '-': () => zoom(1.6), Home: places.start, End: places.end}[event.key];
  if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  action();
});
view.addEventListener('wheel', event => {
  const box = view.getBoundingClientRect();
  if (event.ctrlKey) {
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2, (event.clientX - box.left) / box.width);
  } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    event.preventDefault();
    show(from + (event.deltaX || event.deltaY) / box.width * (to - from), to - from);
  }
}, {passive: false});
let grip = null;
view.addEventListener('pointerdown', event => {
  if (event.button !== 0) return;
  grip = {x: event.clientX, from, span: to - from, moved: false};
});
addEventListener('pointerup', () => { grip = null; view.classList.remove('dragging'); });
addEventListener('pointercancel', () => { grip = null; view.classList.remove('dragging'); });
view.addEventListener('pointermove', event => {
  if (grip) {
    if (Math.abs(event.clientX - grip.x) > 3) grip.moved = true;
    if (grip.moved) {
      view.classList.add('dragging');
      show(grip.from - (event.clientX - grip.x) / view.clientWidth * grip.span, grip.span);
      return;
    }
  }
  const rect = event.target.closest('[data-op]');
  if (lit && lit !== rect) lit.classList.remove('lit');
  lit = rect;
  if (!rect) { hideTip(); return; }
  rect.classList.add('lit');
  const [p, stage, i] = rect.dataset.op.split(',').map(Number);
  const plan = data.plans[p], column = plan.stages[stage], c = plan.choices[column[0][i]];
  const rows = [`${c[1]}${column[1][i] < 0 ? '' : ', microbatch ' + column[1][i]}` +
    `${column[2][i] > 0 ? ', chunk ' + column[2][i] : ''}, stage ${stage}`];
  if (c[2] !== '0') rows.push(c[2] + ' MHz');
  rows.push(`start ${(column[3][i] / 1e6).toFixed(4)} s, ${(column[4][i] / 1e3).toFixed(2)} ms`, `${c[4]} W, ${c[5]} J`,
    column[5][i] === 0 ? 'critical' : `slack ${(column[5][i] / 1e3).toFixed(2)} ms`);
  showTip(rows.join('\n'), event);
});
view.addEventListener('pointerleave', hideTip);
new ResizeObserver(draw).observe(view);
if (longest > stretch() * 1.35) {
  places.start();
} else {
  tools.querySelectorAll('[data-go]').forEach(button => { button.hidden = button.dataset.go !== 'all'; });
  places.all();
}
})();
)JS";

}  // namespace

std::string timeline_view(const ReportInput& input) {
  std::string out = "<div id=\"timeline\">\n";
  out += legend(input);
  out += kTools;
  out += "<div class=\"still scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Timeline\">\n" +
         timeline_canvas(input, 1140).inlined("still-picture") + "</div>\n";
  out += "<script type=\"application/json\" id=\"timeline-data\">" + ViewData(input).json() + "</script>\n</div>\n";
  return out;
}

std::string_view timeline_script() { return kScript; }

}  // namespace flyball
