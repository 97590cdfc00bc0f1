#include "report/energy_diagram.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <nlohmann/json.hpp>

#include "draw/scale.h"

namespace flyball {
namespace {

constexpr std::string_view kCss = R"(
.edd{position:relative;margin:.5rem 0 1rem}
.edd .crumbs{display:flex;flex-wrap:wrap;gap:.15rem .3rem;align-items:center;margin:.25rem 0}
.edd .crumbs button{padding:.1rem .5rem;min-height:1.7rem}
.edd .what{margin:.25rem 0 .5rem}
.edd .field{position:relative;padding:.5rem 0}
.edd .rank{display:flex;flex-wrap:wrap;justify-content:center;gap:.6rem 1rem;margin:0 0 1.9rem;position:relative}
.edd .rank:last-of-type{margin-bottom:0}
.edd .part{position:relative;z-index:1;max-width:15rem;min-width:5.5rem;padding:.35rem .7rem;text-align:center;
font-size:.82rem;line-height:1.3;border:1.5px solid var(--line);overflow-wrap:anywhere;color:var(--ink);
background:var(--paper);background:color-mix(in srgb,var(--p5) calc(var(--share)*55%),var(--paper))}
.edd .part b{display:block;font-size:.95rem}
.edd button.part{border-radius:1.1rem;border-color:var(--soft)}
.edd div.part{border-radius:0}
.edd button.part:hover{border-color:var(--ink)}
.edd svg{position:absolute;left:0;top:0;width:100%;height:100%;max-width:none;pointer-events:none;overflow:visible}
.edd path{fill:none;stroke:var(--soft);stroke-width:1.25}
.edd path.order{stroke-dasharray:4 3}
.edd path.far{opacity:.45}
.edd marker path{fill:var(--soft);stroke:none}
)";

constexpr std::string_view kScript = R"((() => {
const box = document.getElementById('edd');
if (!box) return;
const data = JSON.parse(document.getElementById('edd-data').textContent);
const names = data.names, parents = data.parents, energy = data.energy, ranks = data.ranks;
const inside = names.map(() => []);
parents.forEach((p, i) => { if (i) inside[p].push(i); });
const arrows = names.map(() => []);
data.edges.forEach(e => arrows[e[0]].push(e));
const PHASES = ['other', 'forward', 'backward', 'optimizer'];
const MOST = 30;
let node = 0, phase = -1, all = false;
const joules = i => phase < 0 ? energy[i].reduce((a, b) => a + b, 0) : energy[i][phase];
const make = (tag, css, text) => {
  const e = document.createElement(tag);
  if (css) e.className = css;
  if (text !== undefined) e.textContent = text;
  return e;
};
const number = x => x >= 100 ? Math.round(x).toLocaleString('en').replace(/,/g, '\u202f') : Number(x.toPrecision(3)).toString();
const wayTo = i => { const way = []; for (;; i = parents[i]) { way.unshift(i); if (!i) return way; } };
const pathOf = i => wayTo(i).slice(1).map(k => names[k]).join('/');
const go = i => { node = i; all = false; draw(); try { history.replaceState(null, '', '#' + encodeURI(pathOf(i))); } catch (e) {} };
function draw() {
  box.textContent = '';
  const tools = make('div', 'tools');
  const used = [1, 2, 3, 0].filter(p => energy[0][p] > 0);
  if (used.length > 1) [-1, ...used].forEach(p => {
    const b = make('button', '', p < 0 ? 'all' : PHASES[p]);
    b.setAttribute('aria-pressed', p === phase);
    b.onclick = () => { phase = p; draw(); };
    tools.append(b);
  });
  box.append(tools);
  const crumbs = make('div', 'crumbs');
  wayTo(node).forEach((k, i) => {
    if (i) crumbs.append('/');
    const b = make('button', '', i ? names[k] : 'model');
    b.onclick = () => go(k);
    b.disabled = k === node;
    crumbs.append(b);
  });
  box.append(crumbs);
  const whole = joules(node), model = joules(0);
  box.append(make('p', 'what note', number(whole) + ' J' + (node && model > 0 ?
    ', ' + (100 * whole / model).toFixed(1) + ' % of the model' : '')));
  let parts = inside[node].filter(i => joules(i) > 0).sort((a, b) => joules(b) - joules(a));
  const rest = all ? [] : parts.slice(MOST);
  parts = parts.slice(0, parts.length - rest.length);
  const most = parts.length ? joules(parts[0]) : 1;
  const rows = new Map();
  parts.forEach(i => { if (!rows.has(ranks[i])) rows.set(ranks[i], []); rows.get(ranks[i]).push(i); });
  const field = make('div', 'field');
  const at = new Map();
  [...rows.keys()].sort((a, b) => a - b).forEach(r => {
    const row = make('div', 'rank');
    rows.get(r).forEach(i => {
      const part = make(inside[i].length ? 'button' : 'div', 'part');
      part.append(make('span', '', names[i]), make('b', '', (100 * joules(i) / whole).toFixed(1) + ' %'));
      part.style.setProperty('--share', (joules(i) / most).toFixed(3));
      part.title = pathOf(i) + '\n' + number(joules(i)) + ' J';
      if (inside[i].length) part.onclick = () => go(i);
      row.append(part);
      at.set(i, part);
    });
    field.append(row);
  });
  box.append(field);
  if (rest.length) {
    const more = make('button', '', rest.length + ' more, ' +
      (100 * rest.reduce((a, i) => a + joules(i), 0) / whole).toFixed(1) + ' %');
    more.onclick = () => { all = true; draw(); };
    box.append(more);
  }
  join(field, at);
}
function join(field, at) {
  const NS = 'http://www.w3.org/2000/svg';
  const svg = document.createElementNS(NS, 'svg');
  svg.setAttribute('aria-hidden', 'true');
  svg.innerHTML = '<defs><marker id="edd-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" ' +
    'orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>';
  const origin = field.getBoundingClientRect();
  const shown = arrows[node].filter(e => at.has(e[1]) && at.has(e[2]) && (phase < 0 ? e[3] & 11 : e[3] >> phase & 1));
  shown.forEach(e => {
    const a = at.get(e[1]).getBoundingClientRect(), b = at.get(e[2]).getBoundingClientRect();
    const down = b.top >= a.bottom - 1;
    if (!down && a.top < b.bottom - 1) return;
    const x1 = a.left + a.width / 2 - origin.left, x2 = b.left + b.width / 2 - origin.left;
    const y1 = (down ? a.bottom : a.top) - origin.top, y2 = (down ? b.top : b.bottom) - origin.top;
    const far = Math.abs(y2 - y1) > 90;
    const side = far ? Math.max(a.width, b.width) / 2 + 18 : 0;
    const bend = (y2 - y1) / 2;
    const path = document.createElementNS(NS, 'path');
    path.setAttribute('d', `M${x1} ${y1}C${x1 + side} ${y1 + bend} ${x2 + side} ${y2 - bend} ${x2} ${y2}`);
    path.setAttribute('class', (e[4] ? 'order' : '') + (far ? ' far' : ''));
    path.setAttribute('marker-end', 'url(#edd-head)');
    svg.append(path);
  });
  field.prepend(svg);
}
const wanted = decodeURI(location.hash.slice(1));
if (wanted) names.forEach((n, i) => { if (pathOf(i) === wanted && inside[i].length) node = i; });
let width = innerWidth;
addEventListener('resize', () => { if (innerWidth !== width) { width = innerWidth; draw(); } });
draw();
})();
)";

// Six significant digits are more than any sensor has.
double rounded(double value) {
  if (value == 0.0 || !std::isfinite(value)) return 0.0;
  const double unit = std::pow(10.0, std::floor(std::log10(std::abs(value))) - 5.0);
  return std::round(value / unit) * unit;
}

std::string dot_text(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? ' ' : c;
  }
  return quoted;
}

// From paper to orange, as much as a part has of the largest.
std::string fill_of(double share) {
  const auto mix = [share](int from, int to) {
    return std::lround(from + 0.75 * share * static_cast<double>(to - from));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(255, 0xd5), mix(255, 0x5e), mix(255, 0x00));
}

}  // namespace

std::string energy_diagram_section(const EnergyTree& tree) {
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
  nlohmann::ordered_json parents = nlohmann::ordered_json::array();
  nlohmann::ordered_json energies = nlohmann::ordered_json::array();
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (const EnergyNode& node : tree.nodes) {
    names.push_back(node.name);
    parents.push_back(node.parent);
    nlohmann::ordered_json energy = nlohmann::ordered_json::array();
    for (const Joules joules : node.energy) energy.push_back(rounded(joules.value()));
    energies.push_back(std::move(energy));
    ranks.push_back(node.rank);
  }
  nlohmann::ordered_json edges = nlohmann::ordered_json::array();
  for (const EnergyEdge& edge : tree.edges) {
    edges.push_back({edge.parent, edge.from, edge.to, edge.phases, edge.kind == EdgeKind::kOrder ? 1 : 0});
  }
  const nlohmann::ordered_json data = {{"names", std::move(names)},
                                       {"parents", std::move(parents)},
                                       {"energy", std::move(energies)},
                                       {"ranks", std::move(ranks)},
                                       {"edges", std::move(edges)}};
  // Names may hold anything; "<" must not end the element.
  std::string safe;
  for (const char c : data.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace)) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return fmt::format(
      "<div id=\"edd\" class=\"edd\"><p class=\"note\">The diagrams need JavaScript; the tables below do "
      "not.</p></div>\n<script type=\"application/json\" id=\"edd-data\">{}</script>\n",
      safe);
}

std::string_view energy_diagram_script() { return kScript; }
std::string_view energy_diagram_css() { return kCss; }

std::string energy_diagram_dot(const EnergyTree& tree, std::size_t index) {
  const EnergyNode& diagram = tree.nodes[index];
  const double whole = diagram.total().value();
  std::string dot = fmt::format(
      "digraph energy {{\n  label=\"{}  {} J\"; labelloc=t; fontname=\"sans-serif\"; rankdir=TB;\n"
      "  node [shape=box, fontname=\"sans-serif\", fontsize=11, color=\"#56606c\"];\n"
      "  edge [color=\"#56606c\", arrowsize=0.7];\n",
      diagram.path.empty() ? "model" : dot_text(diagram.path), short_number(whole));
  std::set<std::size_t> drawn;
  const double most = diagram.children.empty() ? 1.0 : tree.nodes[diagram.children.front()].total().value();
  for (const std::size_t child : diagram.children) {
    const EnergyNode& part = tree.nodes[child];
    const double joules = part.total().value();
    if (joules <= 0.0) continue;
    drawn.insert(child);
    dot += fmt::format("  n{} [label=\"{}\\n{:.2f} %\", style=\"filled{}\", fillcolor=\"{}\", tooltip=\"{} J\"];\n",
                       child, dot_text(part.name), 100.0 * joules / whole, part.children.empty() ? "" : ",rounded",
                       fill_of(joules / most), short_number(joules));
  }
  for (const EnergyEdge& edge : tree.edges) {
    if (edge.parent != index || !drawn.contains(edge.from) || !drawn.contains(edge.to)) continue;
    dot += fmt::format("  n{} -> n{}{};\n", edge.from, edge.to, edge.kind == EdgeKind::kOrder ? " [style=dashed]" : "");
  }
  return dot + "}\n";
}

}  // namespace flyball
