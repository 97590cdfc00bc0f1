// Lines are parsed one by one, so that the place of an error is the file's and a document in memory never more than a
// line.
#include "profile/segment.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/text.h"

namespace flyball {
namespace {

constexpr const char* kRowMend =
    "write one object per line: {\"freq\": 1410, \"overlap_start\": \"norm_0\", \"overlap_end\": \"none\", \"sm\": 12, "
    "\"block\": 1024, \"time_s\": 0.001, \"energy_j\": 0.3}";
constexpr std::array<const char*, 4> kSettingKeys = {"overlap_start", "overlap_end", "sm", "block"};

class SegmentReader {
 public:
  explicit SegmentReader(const std::string& source) : source_(source) {}

  void read_line(std::string_view text, std::size_t line) {
    line_ = line;
    const nlohmann::json row = parsed(text);
    if (!row.is_object()) fail("this is no object", kRowMend);
    SegmentOption option{setting(row), Seconds(number(row, "time_s", 1e-9, 1e6)),
                         Joules(number(row, "energy_j", 1e-12, 1e9))};
    if (rows_ > 0 && option.setting.empty() != no_settings_) {
      fail("some rows have a setting and some have none",
           "give each row all of overlap_start, overlap_end, sm, block, "
           "or none of them");
    }
    no_settings_ = option.setting.empty();
    ++rows_;
    add(Megahertz(number(row, "freq", 0.0, 1e6)), std::move(option));
  }

  Segment segment() && {
    if (rows_ == 0) throw InputError({source_}, "the file has no rows", kRowMend);
    Segment segment{source_};
    for (auto& [clock, sums] : at_) {
      for (Sum& sum : sums.rows) {
        const auto count = static_cast<double>(sum.count);
        segment.at[clock].push_back(
            {std::move(sum.option.setting), sum.option.time / count, sum.option.energy / count});
      }
    }
    return segment;
  }

 private:
  struct Sum {
    SegmentOption option;
    int count = 0;
  };
  struct AtClock {
    std::vector<Sum> rows;
    std::map<std::string, std::size_t> index;  // of settings
  };

  // Errors of the parser name the place within the line.
  nlohmann::json parsed(std::string_view text) const {
    try {
      return parse_json(source_, text, kRowMend);
    } catch (const InputError& error) {
      throw InputError({source_, line_, error.where().column}, "this line is no JSON that can be read", kRowMend);
    }
  }

  void add(Megahertz clock, SegmentOption&& option) {
    AtClock& here = at_[clock];
    const auto [entry, is_new] = here.index.try_emplace(option.setting, here.rows.size());
    if (is_new) here.rows.push_back({{option.setting, Seconds(0), Joules(0)}});
    Sum& sum = here.rows[entry->second];
    sum.option.time += option.time;
    sum.option.energy += option.energy;
    ++sum.count;
  }

  double number(const nlohmann::json& row, const char* key, double least, double most) const {
    const auto found = row.find(key);
    if (found == row.end()) fail(fmt::format("the row has no {}", key), kRowMend);
    if (!found->is_number()) fail(fmt::format("{} is no number", key), kRowMend);
    const double value = found->get<double>();
    if (!(value >= least && value <= most)) {
      fail(fmt::format("{} is {}, it must be from {} to {}", key, value, least, most),
           "write MHz, seconds and joules, or delete the row");
    }
    return value;
  }

  std::string setting(const nlohmann::json& row) const {
    std::string text;
    std::size_t given = 0;
    for (const char* key : kSettingKeys) {
      const auto found = row.find(key);
      if (found == row.end()) continue;
      ++given;
      text += (text.empty() ? "" : "-") + part_of_setting(*found, key);
    }
    if (given == 0 || given == kSettingKeys.size()) return text;
    fail("the row has a part of a setting", "give all of overlap_start, overlap_end, sm, block, or none of them");
  }

  // A name or a whole number; null stands for none, as where nothing runs beside.
  std::string part_of_setting(const nlohmann::json& value, const char* key) const {
    if (value.is_null()) return "none";
    if (value.is_number_integer()) return value.dump();
    if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
      fail(fmt::format("{} is neither a name nor a whole number", key), kRowMend);
    }
    const auto& name = value.get_ref<const std::string&>();
    for (const char c : name) {
      if (c != ',' && c != '"' && static_cast<unsigned char>(c) > ' ') continue;
      fail(fmt::format("{} has a blank, a comma or a quote in it", key),
           "rename the kernel: its name becomes a field of the profile");
    }
    return name;
  }

  [[noreturn]] void fail(const std::string& problem, const std::string& mend) const {
    throw InputError({source_, line_, 1}, problem, mend);
  }

  const std::string& source_;
  std::size_t line_ = 0;
  std::size_t rows_ = 0;
  bool no_settings_ = false;
  std::map<Megahertz, AtClock> at_;
};

}  // namespace

Segment read_segment(const std::string& source, std::string_view text) {
  SegmentReader reader(source);
  std::size_t line = 0;
  for (const std::string_view row : split_at('\n', text)) {
    ++line;
    if (!trim(row).empty()) reader.read_line(row, line);
  }
  return std::move(reader).segment();
}

Segment read_segment_file(const std::filesystem::path& path) {
  return read_segment(path.string(), read_text_file(path));
}

}  // namespace flyball
