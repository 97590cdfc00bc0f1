// What docs/man/ has for a page stands behind its options. A footer's paragraphs are filled anew, except where a line
// is set in: there, examples and tables keep their lines.
#include "cli/manual_pages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "base/embedded.h"
#include "base/text.h"

namespace flyball {
namespace {

constexpr std::array<std::string_view, 3> kServices = {"flyball agent", "flyball serve", "flyball cluster run"};
constexpr std::string_view kExamples = "Examples:\n";

int section_of(const CommandDescription& command) {
  return std::find(kServices.begin(), kServices.end(), command.name) == kServices.end() ? 1 : 8;
}

std::string page_name(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

// Characters that roff would read as its own, or print as others than those that one types.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\': out += "\\e"; break;
      case '-': out += "\\-"; break;
      case '\'': out += "\\(aq"; break;
      case '"': out += "\\(dq"; break;
      case '`': out += "\\(ga"; break;
      case '^': out += "\\(ha"; break;
      case '~': out += "\\(ti"; break;
      default: out += c;
    }
  }
  // A dot at the begin of a line would be a request.
  return out.starts_with('.') ? "\\&" + out : out;
}

// The names of options and values in a usage, in the fonts of manual pages: what is typed is bold.
std::string roff_usage(const std::string& usage) {
  std::string text;
  bool begins = true;
  for (const std::string_view word : split_at(' ', usage)) {
    const bool typed = begins && word.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ[") == std::string_view::npos;
    begins = typed;
    text +=
        fmt::format("{}{}", text.empty() ? "" : " ", typed || word == "--" ? "\\fB" + roff(word) + "\\fR" : roff(word));
  }
  return text + "\n";
}

std::string roff_paragraphs(std::string_view text) {
  std::string out;
  bool filled = true;
  bool gap = true;
  for (const std::string_view line : split_at('\n', text)) {
    if (line.empty()) {
      gap = true;
      continue;
    }
    const bool fills = !line.starts_with("  ");
    if (fills != filled) {
      out += fills ? ".EE\n.RE\n" : std::string(gap ? ".PP\n" : "") + ".RS 4\n.EX\n";
      if (fills) out += ".PP\n";
    } else if (gap) {
      out += fills ? ".PP\n" : "\n";
    }
    filled = fills;
    gap = false;
    out += roff(fills ? line : line.substr(2)) + "\n";
  }
  return out + (filled ? "" : ".EE\n.RE\n");
}

std::string roff_argument(const ArgumentDescription& one) {
  std::vector<std::string> names;
  const bool is_option = one.names.front().starts_with('-');
  for (const std::string& name : one.names) {
    names.push_back(fmt::format("\\f{}{}\\fR", is_option ? 'B' : 'I', roff(name)));
  }
  std::string text = fmt::format(".TP\n{}", fmt::join(names, ", "));
  if (is_option && !one.value.empty()) text += " \\fI" + roff(one.value) + "\\fR";
  return text + "\n" + roff(one.text) + "\n";
}

std::string roff_commands(const CommandDescription& command) {
  std::string text;
  std::string group;
  for (const CommandDescription& sub : command.subcommands) {
    // Below the program the commands have headings; below a command they have one and the same.
    if (sub.group != group && command.subcommands.back().group != command.subcommands.front().group) {
      text += ".SS " + roff(sub.group) + "\n";
    }
    group = sub.group;
    text += fmt::format(".TP\n\\fB{}\\fR({})\n{}\n", roff(page_name(sub.name)), section_of(sub), roff(sub.text));
  }
  return text;
}

// The pages that a reader may want next: the command above, and those beside or below this one.
std::string roff_see_also(const CommandDescription& command, const CommandDescription* parent) {
  std::vector<std::string> pages;
  const auto add = [&](const CommandDescription& one) {
    pages.push_back(fmt::format("\\fB{}\\fR({})", roff(page_name(one.name)), section_of(one)));
  };
  if (parent != nullptr) {
    add(*parent);
    for (const CommandDescription& beside : parent->subcommands) {
      if (beside.name != command.name && beside.group == command.group) add(beside);
    }
  }
  for (const CommandDescription& below : command.subcommands) add(below);
  return fmt::format("{}\n", fmt::join(pages, ",\n"));
}

constexpr const char* kStatuses =
    R"(.TP
\fB0\fR
success
.TP
\fB1\fR
failure: of a driver, a network, a disk, or because a limit cannot be kept
.TP
\fB2\fR
wrong usage: the command line cannot be understood, or asks for what does not go together
.TP
\fB3\fR
bad input: a file or a stream is not what it should be; the message says where, and how to mend it
.TP
\fB130\fR
interrupted by SIGINT or SIGTERM before the end
)";

constexpr const char* kProgramStatus =
    ".PP\nWhere a program was run, the status is the program\\(aqs own; 128 and the number of the signal if one killed "
    "it.\n";

void add_pages(const CommandDescription& command, const CommandDescription* parent, const std::string& version,
               std::vector<ManualPage>& pages) {
  const int section = section_of(command);
  const std::string name = page_name(command.name);
  std::string upper = name;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](char c) { return c >= 'a' && c <= 'z' ? c - 32 : c; });
  const std::size_t at = command.footer.find(kExamples);
  const std::string explained = command.footer.substr(0, at);
  // The text breaks lines in the program's own description.
  std::string summary = command.text;
  std::replace(summary.begin(), summary.end(), '\n', ' ');

  std::string text = fmt::format(".TH {} {} \"\" \"flyball {}\" \"Flyball\"\n.nh\n.ad l\n", upper, section, version);
  text += fmt::format(".SH NAME\n{} \\- {}\n", roff(name),
                      roff(parent == nullptr ? "energy control plane for deep-network training" : summary));
  text += ".SH SYNOPSIS\n" + roff_usage(command.usage);
  if (parent == nullptr || !explained.empty()) text += ".SH DESCRIPTION\n";
  if (parent == nullptr) text += roff(summary) + "\n";
  text += roff_paragraphs(explained);
  if (!command.positionals.empty() || command.runs_program) {
    text += ".SH ARGUMENTS\n";
    for (const ArgumentDescription& one : command.positionals) text += roff_argument(one);
    if (command.runs_program)
      text += fmt::format(".TP\n\\fI{}\\fR\nthe program and its arguments, after \\-\\-\n", kProgramArgument);
  }
  text += ".SH OPTIONS\n";
  for (const ArgumentDescription& one : command.options) text += roff_argument(one);
  if (!command.subcommands.empty()) text += ".SH COMMANDS\n" + roff_commands(command);
  for (const EmbeddedFile& sections : manual_sections()) {
    if (sections.path == name + ".man") text += sections.contents;
  }
  text += std::string(".SH EXIT STATUS\n") + kStatuses + (command.runs_program ? kProgramStatus : "");
  if (at != std::string::npos) text += ".SH EXAMPLES\n" + roff_paragraphs(command.footer.substr(at + kExamples.size()));
  text += ".SH SEE ALSO\n" + roff_see_also(command, parent);
  pages.push_back({fmt::format("{}.{}", name, section), text});
  for (const CommandDescription& sub : command.subcommands) add_pages(sub, &command, version, pages);
}

}  // namespace

std::vector<ManualPage> manual_pages(const CommandDescription& program, const std::string& version) {
  std::vector<ManualPage> pages;
  add_pages(program, nullptr, version, pages);
  return pages;
}

}  // namespace flyball
