// Writes a footprint as CSV and as one page of HTML.
#include "report/footprint_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "account/rank_footprint.h"
#include "draw/html_page.h"
#include "draw/scale.h"
#include "draw/text_table.h"
#include "report/energy_section.h"
#include "report/footprint_words.h"

namespace flyball {
namespace {

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

// A field of CSV, empty where the number is not known.
std::string known(Joules joules) { return std::isnan(joules.value()) ? "" : fmt::to_string(joules.value()); }

double share_of(Joules part, Joules whole) { return whole > Joules(0) ? 100.0 * (part / whole) : 0.0; }

// Whole joules, but of few joules their digits.
std::string joules_text(Joules joules) {
  return joules < Joules(100) ? short_number(joules.value()) : grouped_number(joules.value(), 0);
}

std::string headline(const FootprintPage& page) {
  const Footprint& footprint = *page.footprint;
  const Joules attributed = footprint.attributed();
  std::string text = fmt::format("{}&nbsp;J measured", joules_text(footprint.measured()));
  if (page.tree != nullptr && !page.tree->nodes.front().children.empty()) {
    const TopPart top = top_part(*page.tree);
    const std::string& path = page.tree->nodes[top.node].path;
    std::string what = fmt::format("<strong>{}</strong>", escape_markup(path));
    if (top.backward) what = path.empty() ? "The backward pass" : "The backward pass of " + what;
    text = fmt::format("{} takes {}&nbsp;% of the attributed {}&nbsp;J; {}", what,
                       format_fixed(share_of(top.energy, attributed), 1), joules_text(attributed), text);
  }
  text += fmt::format(", {}&nbsp;% of it while nothing ran",
                      format_fixed(share_of(footprint.idle(), footprint.measured()), 1));
  if (footprint.outside() > Joules(0)) {
    text += fmt::format(", {}&nbsp;% before and after the profile",
                        format_fixed(share_of(footprint.outside(), footprint.measured()), 1));
  }
  const Trust trust = footprint.trust();
  if (trust.judged) {
    text += fmt::format("; {}&nbsp;% of the attributed energy is known to {:.0f}&nbsp;% row by row",
                        format_fixed(share_of(trust.known_energy, attributed), 1), 100.0 * Trust::kWell);
    if (trust.grouped > 0) {
      text += fmt::format(", {}&nbsp;% in groups only", format_fixed(share_of(trust.grouped_energy, attributed), 1));
    }
  }
  return text + ".";
}

std::string device_table(const Footprint& footprint) {
  std::vector<std::string> headings = {"device", "measured<small>J</small>", "attributed<small>J</small>",
                                       "idle<small>J</small>", "outside<small>J</small>"};
  if (footprint.elsewhere() > Joules(0)) {
    headings.insert(headings.end(),
                    {"other processes<small>J</small>", "system<small>J</small>", "monitor<small>J</small>"});
  }
  headings.insert(headings.end(), {"busy<small>s</small>", "idle<small>s</small>", "outside<small>s</small>",
                                   "without power data<small>s</small>", "method"});
  HtmlTable table(headings);
  for (const FootprintDevice& device : footprint.devices) table.row(device_cells(footprint, device, 2));
  return table.str();
}

std::string rank_table(const std::vector<RankShare>& ranks) {
  HtmlTable table({"rank", "energy<small>J</small>", "idle<small>J</small>", "computing<small>s</small>",
                   "communicating<small>s</small>", "alone<small>s</small>", "processor<small>s</small>", "devices"});
  for (const RankShare& share : ranks) {
    std::string devices;
    for (const std::string& device : share.devices) devices += (devices.empty() ? "" : " ") + device;
    table.row({fmt::to_string(share.rank), format_fixed(share.energy.value(), 2), format_fixed(share.idle.value(), 2),
               format_fixed(share.computing.value(), 3), format_fixed(share.communicating.value(), 3),
               format_fixed(share.exposed.value(), 3), format_fixed(share.processor.value(), 3), devices});
  }
  return fmt::format("<h2>Ranks</h2>\n<p>Rank {} computes for the longest time.</p>\n",
                     ranks[slowest_rank(ranks)].rank) +
         table.str();
}

std::string error_text(Joules error) { return std::isnan(error.value()) ? "-" : short_number(error.value()); }

std::string group_table(const Footprint& footprint) {
  if (footprint.groups.empty()) return "";
  HtmlTable table({"group", "energy<small>J</small>", "90&nbsp;% &plusmn;<small>J</small>", "rows", "device"});
  for (const FootprintGroup& group : footprint.groups) {
    const auto rows = std::count_if(footprint.rows.begin(), footprint.rows.end(),
                                    [&group](const FootprintRow& row) { return row.group == group.number; });
    table.row({fmt::to_string(group.number), short_number(group.energy.value()), short_number(group.error.value()),
               fmt::to_string(rows), group.device});
  }
  return "<h2>Groups</h2>\n<p>Rows that always run together, of which only the sum is known.</p>\n" + table.str();
}

std::string row_table(const Footprint& footprint, std::size_t top) {
  const bool several = footprint.runs > 1 || footprint.ranks.size() > 1;
  const Joules whole = footprint.attributed();
  std::string html = "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th>energy <small>J</small></th>";
  if (several) html += "<th>deviation <small>J</small></th>";
  const bool judged = footprint.trust().judged;
  if (judged) html += "<th>90&nbsp;% &plusmn; <small>J</small></th>";
  if (!footprint.groups.empty()) html += "<th>group</th>";
  html += "<th>share <small>%</small></th><th>busy <small>s</small></th><th>mean power <small>W</small></th>";
  html += "<th class=\"left\">pass</th><th class=\"left\">device</th><th class=\"left\">tensor</th>";
  html += "</tr></thead><tbody>\n";
  for (std::size_t i = 0; i < std::min(top, footprint.rows.size()); ++i) {
    const FootprintRow& row = footprint.rows[i];
    html += fmt::format("<tr><td>{}</td>", short_number(row.energy.value()));
    if (several) html += fmt::format("<td>{}</td>", short_number(row.energy_deviation.value()));
    if (judged) html += fmt::format("<td>{}</td>", error_text(row.error));
    if (!footprint.groups.empty()) html += fmt::format("<td>{}</td>", row.group == 0 ? "" : fmt::to_string(row.group));
    html += fmt::format("<td>{}</td><td>{}</td><td>{}</td>", format_fixed(share_of(row.energy, whole), 2),
                        short_number(row.busy.value()), format_fixed(row.mean_power().value(), 1));
    html += fmt::format("<td class=\"left\">{}</td><td class=\"left\">{}</td><td class=\"left tensor\">{}</td></tr>\n",
                        name_of(row.phase), escape_markup(row.device), escape_markup(row.name));
  }
  html += "</tbody></table></div>\n";
  if (footprint.rows.size() > top) {
    html += fmt::format("<p class=\"note\">The first {} of {}.</p>\n", top, footprint.rows.size());
  }
  return html;
}

constexpr std::string_view kFootprintWords = R"(<h2>Words</h2>
<dl>
<dt>attributed</dt><dd>energy while an operation ran; those that run at once on a device share its power equally</dd>
<dt>idle</dt><dd>a device's energy and time while none of the operations ran on it and the program was profiled, from
the first entry of the event trace to the last</dd>
<dt>outside</dt><dd>before that or after it, where nothing tells what ran; measured = attributed + idle + outside, and
what of a processor was not the program's</dd>
<dt>without power data</dt><dd>time of the profile in which the device's power is not known</dd>
<dt>90 % &plusmn;</dt><dd>the energy is within so much of the number shown in nine of ten cases, by what the readings
tell</dd>
<dt>group</dt><dd>rows that always run together in one ratio, so that readings tell their sum and not the parts</dd>
<dt>mean power</dt><dd>of an operation's share, over the time that it ran</dd>
<dt>*</dt><dd>in a name: layers that are built alike, added up</dd>
</dl>
)";

}  // namespace

std::vector<std::string> device_cells(const Footprint& footprint, const FootprintDevice& device, int decimals) {
  std::vector<Joules> energies = {device.measured, device.attributed, device.idle, device.outside};
  if (footprint.elsewhere() > Joules(0)) {
    energies.insert(energies.end(), {device.other_processes, device.system, device.monitor});
  }
  std::vector<std::string> cells = {device.device};
  for (const Joules joules : energies) cells.push_back(format_fixed(joules.value(), decimals));
  for (const Seconds time : {device.busy, device.idle_time, device.outside_time, device.unmeasured}) {
    cells.push_back(format_fixed(time.value(), 3));
  }
  cells.emplace_back(device.method && device.events > 0 ? name_of(*device.method) : "-");
  return cells;
}

std::string footprint_csv(const Footprint& footprint) {
  std::string csv =
      "name,device,phase,energy_j,busy_s,mean_power_w,energy_std_j,energy_error_j,group,static_j,dynamic_j\n";
  for (const FootprintRow& row : footprint.rows) {
    csv += fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", csv_field(row.name), csv_field(row.device),
                       name_of(row.phase), row.energy.value(), row.busy.value(), row.mean_power().value(),
                       row.energy_deviation.value(), known(row.error), row.group == 0 ? "" : fmt::to_string(row.group),
                       known(row.static_energy), known(row.energy - row.static_energy));
  }
  for (const FootprintDevice& device : footprint.devices) {
    csv += fmt::format("(idle),{},,{},{},,,,,,\n", csv_field(device.device), device.idle.value(),
                       device.idle_time.value());
    csv += fmt::format("(outside),{},,{},{},,,,,,\n", csv_field(device.device), device.outside.value(),
                       device.outside_time.value());
  }
  return csv;
}

FootprintPage footprint_page(std::string title, const AccountResult& result) {
  FootprintPage page;
  page.title = std::move(title);
  page.footprint = &result.footprint;
  page.summary = &result.summary;
  page.tree = &result.tree;
  page.power = result.picture;
  page.notes = result.notes;
  return page;
}

std::string footprint_html(const FootprintPage& page) {
  std::string body;
  for (const std::string& sentence : {steps_sentence(page.footprint->steps), classes_sentence(*page.footprint),
                                      communication_sentence(*page.footprint), static_sentence(*page.footprint)}) {
    if (!sentence.empty()) body += fmt::format("<p>{}.</p>\n", escape_markup(sentence));
  }
  body += device_table(*page.footprint);
  if (!page.notes.empty()) {
    body += "<ul class=\"note\">";
    for (const std::string& note : page.notes) body += "<li>" + escape_markup(note) + "</li>";
    body += "</ul>\n";
  }
  if (!page.footprint->ranks.empty()) body += rank_table(page.footprint->ranks);
  if (page.tree != nullptr) body += energy_section(*page.tree);
  if (page.power) {
    body += "<h2>Power</h2>\n<p>What the devices drew, and what ran.</p>\n";
    body += in_both_widths([&](int width) { return power_picture_canvas(*page.power, width); });
  }
  if (page.summary != nullptr) {
    body += "<h2>Top consumers, self-similar layers added up</h2>\n" + row_table(*page.summary, page.top);
  }
  body += "<h2>Top consumers</h2>\n" + row_table(*page.footprint, page.top);
  body += group_table(*page.footprint);
  return html_document(
      {.title = page.title,
       .headline = headline(page),
       .body = std::move(body),
       .commands = page.commands,
       .closing = std::string(kFootprintWords),
       .files = {"footprint.css", "energy_section.css", "energy_parts.js", "energy_flame.js", "energy_diagram.js"}});
}

}  // namespace flyball
