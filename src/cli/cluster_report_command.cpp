// flyball cluster report: what jobs took, from the tables that the epilog of packaging/slurm writes on the nodes.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "base/time_text.h"
#include "base/token_file.h"
#include "cli/cluster_options.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "cli/tariff_options.h"
#include "client/plan_server.h"
#include "draw/text_table.h"
#include "forecast/job_bill.h"

namespace flyball {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kShownNotes = 10;

struct ReportOptions {
  std::vector<std::string> files;
  JobPeriod period;
  std::optional<std::string> by;
  TariffOptions tariff;
  std::optional<std::string> server;
  std::optional<std::string> ca_file;
  std::optional<std::string> token_file;
  std::optional<std::string> format;
};

// "2026-11-01", "2026-11-01T18:00", in local time unless a zone follows.
Nanoseconds parse_date(std::string_view option, std::string_view text) {
  constexpr std::size_t kDay = 10;
  const std::string whole = std::string(text) + (text.size() == kDay ? "T00:00" : "");
  const auto utc = parse_date_time(whole, Seconds(0));
  if (!utc)
    throw UsageError(fmt::format("{} takes a date such as 2026-11-01 or 2026-11-01T18:00, not '{}'", option, text));
  if (parse_date_time(whole, Seconds(1)) == utc) return *utc;  // a zone was given
  const auto shown = static_cast<std::time_t>(*utc / kSecond);
  std::tm local{};
  ::gmtime_r(&shown, &local);
  local.tm_isdst = -1;
  return std::mktime(&local) * kSecond + *utc % kSecond;
}

JobTable read_tables(const std::vector<std::string>& files) {
  const InterruptGuard guard;
  ProgressBar bar("reading");
  JobTable table;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto progress = [&](double share) {
      guard.throw_if_interrupted();
      bar.update((static_cast<double>(i) + share) / static_cast<double>(files.size()));
    };
    progress(0.0);
    ByteSource bytes(files[i] == "-" ? "/dev/stdin" : files[i]);
    read_job_table(bytes, table, progress);
  }
  tidy_job_table(table);
  return table;
}

// The number of Slurm's job in the id of a job of the planning server: "slurm-1041", "slurm-1041.second".
std::optional<std::int64_t> job_in(std::string_view id) {
  constexpr std::string_view kPrefix = "slurm-";
  if (!id.starts_with(kPrefix)) return std::nullopt;
  id = id.substr(kPrefix.size());
  std::int64_t job = 0;
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), job);
  const bool whole = end == id.data() + id.size() || *end == '.';
  return error == std::errc() && whole && job > 0 ? std::optional(job) : std::nullopt;
}

// What the planning server says that jobs have saved, by Slurm's number.
std::map<std::int64_t, Joules> savings_of(const ReportOptions& options, const std::set<std::int64_t>& wanted) {
  PlanServer server(*options.server, options.token_file ? read_token_file(*options.token_file) : std::string(),
                    Seconds(0), options.ca_file.value_or(""));
  std::map<std::int64_t, Joules> saved;
  for (const JobListing& one : server.jobs().jobs) {
    const auto job = job_in(one.job);
    if (!job || !wanted.contains(*job)) continue;
    try {
      const JobSavings savings = server.status(one.job).savings;
      if (savings.iterations > 0) saved[*job] += savings.energy_at_maximum - savings.energy;
    } catch (const ServerRefusal& refusal) {
      if (refusal.status() == 404) continue;  // deleted meanwhile
      throw;
    }
  }
  return saved;
}

// A job whose runs are in several groups, and so its saving, counts where it ran last.
void add_savings(JobBill& bill, const JobBill& by_job, JobGrouping by, const ReportOptions& options) {
  std::set<std::int64_t> wanted;
  for (const JobBillRow& row : by_job.rows) wanted.insert(row.job);
  const std::map<std::int64_t, Joules> saved = savings_of(options, wanted);
  std::map<std::string, JobBillRow*> rows;
  for (JobBillRow& row : bill.rows) rows[row.name] = &row;
  const auto add = [](std::optional<Joules>& to, Joules more) { to = to.value_or(Joules(0)) + more; };
  for (const JobBillRow& job : by_job.rows) {
    const auto found = saved.find(job.job);
    if (found == saved.end()) continue;
    const std::string& group = by == JobGrouping::kJob         ? job.name
                               : by == JobGrouping::kUser      ? job.user
                               : by == JobGrouping::kAccount   ? job.account
                               : by == JobGrouping::kPartition ? job.partition
                                                               : job.kind;
    add(rows.at(group)->saved, found->second);
    add(bill.total.saved, found->second);
  }
}

// ---- output

struct Field {
  const char* name;
  std::optional<double> value;
  int decimals;
};

std::vector<Field> fields_of(const JobBillRow& row) {
  const auto known = [](const auto& quantity) {
    return quantity ? std::optional(quantity->value()) : std::optional<double>();
  };
  const auto if_metered = [&row](double value) {
    return row.unmetered < row.lines ? std::optional(value) : std::optional<double>();
  };
  return {{"jobs", static_cast<double>(row.jobs), 0},
          {"lines", static_cast<double>(row.lines), 0},
          {"unmetered_lines", static_cast<double>(row.unmetered), 0},
          {"run_s", row.time.value(), 3},
          {"node_s", row.node_time.value(), 3},
          {"gpu_s", row.gpu_time.value(), 3},
          {"energy_j", if_metered(row.energy.value()), 1},
          {"energy_kwh", if_metered(kilowatt_hours(row.energy)), 6},
          {"mean_w", known(row.power), 1},
          {"saved_j", known(row.saved), 1},
          {"co2_kg", row.co2_kg, 6},
          {"cost", row.cost, 6}};
}

Json row_json(const JobBillRow& row, JobGrouping by, bool total) {
  Json json = Json::object();
  const auto name = [&json](std::string_view key, const std::string& text) {
    json[std::string(key)] = text.empty() ? Json() : Json(text);
  };
  if (!total) name(name_of(by), row.name);
  if (!total && by == JobGrouping::kJob) {
    json["job"] = row.job;
    name("user", row.user);
    name("account", row.account);
    name("partition", row.partition);
    name("kind", row.kind);
  }
  for (const Field& field : fields_of(row)) {
    if (!field.value) {
      json[field.name] = nullptr;
    } else if (field.decimals == 0) {
      json[field.name] = std::llround(*field.value);
    } else {
      json[field.name] = *field.value;
    }
  }
  return json;
}

std::string csv_of(const JobBill& bill, JobGrouping by) {
  std::string text(name_of(by));
  if (by == JobGrouping::kJob) text += ",user,account,partition,kind";
  for (const Field& field : fields_of({})) text += fmt::format(",{}", field.name);
  text += '\n';
  for (const JobBillRow& row : bill.rows) {
    text += row.name;
    if (by == JobGrouping::kJob) text += fmt::format(",{},{},{},{}", row.user, row.account, row.partition, row.kind);
    for (const Field& field : fields_of(row)) {
      text += field.value ? fmt::format(",{:.{}f}", *field.value, field.decimals) : ",";
    }
    text += '\n';
  }
  return text;
}

std::string text_of(const JobBill& bill, JobGrouping by, const Tariff& tariff, bool with_savings) {
  if (bill.rows.empty()) return "no job ended in this time\n";
  std::vector<std::string> headings{fmt::format("<{}", name_of(by))};
  if (by == JobGrouping::kJob) {
    headings.insert(headings.end(), {"<user", "<account", "<kind"});
  } else {
    headings.emplace_back("jobs");
  }
  headings.insert(headings.end(), {"ran s", "node s", "GPU s", "energy J", "kWh", "mean W"});
  if (with_savings) headings.emplace_back("saved J");
  if (tariff.carbon) headings.emplace_back("CO2 kg");
  if (tariff.has_price()) headings.emplace_back("cost");
  TextTable table(headings);
  const auto add = [&](const JobBillRow& row, bool total) {
    const auto or_dash = [](const std::string& name) { return name.empty() ? std::string("-") : name; };
    const auto shown = [](const std::optional<double>& value, int decimals) {
      return value ? format_fixed(*value, decimals) : std::string("-");
    };
    std::map<std::string_view, std::optional<double>> value;
    for (const Field& field : fields_of(row)) value[field.name] = field.value;
    std::vector<std::string> cells{or_dash(row.name)};
    if (by != JobGrouping::kJob) {
      cells.push_back(fmt::to_string(row.jobs));
    } else if (total) {
      cells.insert(cells.end(), 3, "");
    } else {
      cells.insert(cells.end(), {or_dash(row.user), or_dash(row.account), or_dash(row.kind)});
    }
    cells.insert(cells.end(), {shown(value["run_s"], 1), shown(value["node_s"], 1), shown(value["gpu_s"], 1),
                               shown(value["energy_j"], 0), shown(value["energy_kwh"], 3), shown(value["mean_w"], 0)});
    if (with_savings) cells.push_back(shown(value["saved_j"], 0));
    if (tariff.carbon) cells.push_back(shown(row.co2_kg, 3));
    if (tariff.has_price()) cells.push_back(shown(row.cost, 2));
    table.add_row(cells);
  };
  for (const JobBillRow& row : bill.rows) add(row, false);
  add(bill.total, true);
  return table.str();
}

// Says what was left out and why, the first few line by line.
void print_notes(const JobTable& table, const JobBill& bill) {
  for (std::size_t i = 0; i < table.notes.size() && i < kShownNotes; ++i) {
    const JobTableNote& note = table.notes[i];
    print_warning(fmt::format("{}:{}: {}", table.files[note.file], note.line, note.what));
  }
  if (table.notes.size() > kShownNotes) {
    print_warning(fmt::format("{} more lines like these", table.notes.size() - kShownNotes));
  }
  if (table.repeated > 0) {
    print_warning(table.repeated == 1 ? "1 line is a copy of another, and does not count"
                                      : fmt::format("{} lines are copies of others, and do not count", table.repeated));
  }
  if (bill.total.unmetered > 0) {
    print_warning(fmt::format("the energy of {} of {} lines is not known: the sums are without it",
                              bill.total.unmetered, bill.total.lines));
  }
}

void run_report(const ReportOptions& options) {
  const auto& [from, until] = options.period;
  if (from && until && *from >= *until) throw UsageError("--until must be after --from");
  if (!options.server && (options.ca_file || options.token_file)) {
    throw UsageError("--ca-file and --token-file are for --server");
  }
  const JobGrouping by = value_named<JobGrouping>(options.by.value_or("user")).value();
  const Tariff tariff = tariff_of(options.tariff);
  const JobTable table = read_tables(options.files);
  JobBill bill = bill_of_jobs(table, by, options.period, tariff);
  if (options.server) {
    add_savings(bill, bill_of_jobs(table, JobGrouping::kJob, options.period, Tariff{}), by, options);
  }
  print_notes(table, bill);
  if (options.format == "csv") return print_data(csv_of(bill, by));
  if (options.format != "json") return print_result(text_of(bill, by, tariff, options.server.has_value()));
  Json rows = Json::array();
  for (const JobBillRow& row : bill.rows) rows.push_back(row_json(row, by, false));
  Json notes = Json::array();
  for (const JobTableNote& note : table.notes) {
    notes.push_back({{"file", table.files[note.file]}, {"line", note.line}, {"note", note.what}});
  }
  print_result(Json{{"by", name_of(by)},
                    {"rows", std::move(rows)},
                    {"total", row_json(bill.total, by, true)},
                    {"repeated_lines", table.repeated},
                    {"notes", std::move(notes)}}
                   .dump(2, ' ', false, Json::error_handler_t::replace) +
               "\n");
}

}  // namespace

void add_cluster_report_command(const Command& parent) {
  const Command command = parent.add_subcommand("report", "what jobs took on a real cluster, by user, account or job");
  const auto options = std::make_shared<ReportOptions>();
  command.add_option("FILE", options->files, "tables that the epilog wrote, also as .gz; - is standard input")
      .type_name("FILE")
      .required();
  add_choice(command, "--by", options->by, names_of<JobGrouping>(), "NAME",
             "user (default), account, partition, kind or job: what a row is about");
  add_value(command, "--from", options->period.from, parse_date, "DATE",
            "count what ended at this time or later, in local time: 2026-11-01 or 2026-11-01T18:00");
  add_value(command, "--until", options->period.until, parse_date, "DATE", "count what ended before this time");
  add_tariff_options(command, options->tariff);
  add_value(command, "--server", options->server, parse_path, "ADDRESS",
            "planning server to ask for saved joules, of jobs whose id there is slurm-NUMBER");
  add_value(command, "--ca-file", options->ca_file, parse_path, "FILE",
            "PEM file of the authorities from which an https:// server's certificate may come");
  add_value(command, "--token-file", options->token_file, parse_path, "FILE",
            "file with the planning server's administrator's token");
  add_choice(command, "--format", options->format, {"text", "csv", "json"}, "NAME", "text (default), csv or json");
  command.footer(
      "\"ran\" is the time in which a job ran on at least one node; \"node\" and \"GPU\" are\n"
      "the times of all its nodes and GPUs; \"mean W\" is that of a job while it ran. What\n"
      "cannot be read is left out, and named on standard error.\n\n"
      "Examples:\n"
      "  flyball cluster report /var/log/flyball-jobs.csv\n"
      "  flyball cluster report --by account --from 2026-11-01 --until 2026-12-01 \\\n"
      "    --carbon 380 --price 0.25 /shared/flyball/jobs-*.csv\n"
      "  ssh n1 cat /var/log/flyball-jobs.csv |\n"
      "    flyball cluster report --by job --format csv -");
  command.callback([options] { run_report(*options); });
}

}  // namespace flyball
