// Encodes a footprint as a pprof profile with Protocol Buffers' own streams, without generated code.
#include "report/footprint_pprof.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/gzip_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <string_view>
#include <vector>

#include "base/compensated_sum.h"
#include "report/footprint_stack.h"

namespace flyball {
namespace {

using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::GzipOutputStream;
using google::protobuf::io::StringOutputStream;

// Field numbers of profile.proto.
enum ProfileField : std::uint32_t {
  kSampleType = 1,
  kSample = 2,
  kLocation = 4,
  kFunction = 5,
  kStringTable = 6,
  kDefaultSampleType = 14
};
enum ValueTypeField : std::uint32_t { kType = 1, kUnit = 2 };
enum SampleField : std::uint32_t { kLocationId = 1, kValue = 2, kLabel = 3 };
enum LabelField : std::uint32_t { kKey = 1, kText = 2 };
enum LocationField : std::uint32_t { kLocationNumber = 1, kLine = 4 };
enum LineField : std::uint32_t { kFunctionId = 1 };
enum FunctionField : std::uint32_t { kFunctionNumber = 1, kName = 2 };

constexpr std::uint32_t kVarint = 0;  // wire types
constexpr std::uint32_t kBytes = 2;

// A message that is being written.
class Message {
 public:
  void number(std::uint32_t field, std::uint64_t value) {
    write([&](CodedOutputStream& out) {
      out.WriteTag(field << 3 | kVarint);
      out.WriteVarint64(value);
    });
  }
  void bytes(std::uint32_t field, std::string_view value) {
    write([&](CodedOutputStream& out) {
      out.WriteTag(field << 3 | kBytes);
      out.WriteVarint32(static_cast<std::uint32_t>(value.size()));
      out.WriteRaw(value.data(), static_cast<int>(value.size()));
    });
  }
  void message(std::uint32_t field, const Message& inner) { bytes(field, inner.text_); }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  template <class Write>
  void write(Write write) {
    StringOutputStream stream(&text_);
    CodedOutputStream out(&stream);
    write(out);
  }

  std::string text_;
};

// The profile's tables, which hold each string and each function once. String number 0 is "", functions count from 1.
class Tables {
 public:
  std::uint64_t text(std::string_view value) {
    const auto [at, added] = texts_.try_emplace(std::string(value), order_.size());
    if (added) order_.push_back(at->first);
    return at->second;
  }
  std::uint64_t function(std::string_view name) {
    const std::uint64_t text_number = text(name);
    return functions_.try_emplace(text_number, functions_.size() + 1).first->second;
  }
  [[nodiscard]] const std::vector<std::string>& texts() const { return order_; }
  [[nodiscard]] const std::map<std::uint64_t, std::uint64_t>& functions() const { return functions_; }

 private:
  std::map<std::string, std::uint64_t> texts_{{"", 0}};
  std::vector<std::string> order_{""};
  std::map<std::uint64_t, std::uint64_t> functions_;
};

// The units in which a sample has its energy.
struct EnergyUnit {
  const char* type;
  const char* unit;  // what pprof writes behind each number
  double per_joule;
};
constexpr EnergyUnit kEnergyUnits[] = {
    {"nanojoules", "nJ", 1e9}, {"microjoules", "uJ", 1e6}, {"millijoules", "mJ", 1e3}, {"joules", "J", 1.0}};

// The coarsest unit in which rounding to whole numbers takes no more than a 20,000th of all energy from a row.
const EnergyUnit& shown_unit(const Footprint& footprint) {
  constexpr double kLeast = 1e4;
  double joules = 0.0;
  for (const FootprintRow& row : footprint.rows) joules += std::max(row.energy.value(), 0.0);
  const EnergyUnit* shown = std::begin(kEnergyUnits);
  for (const EnergyUnit& unit : kEnergyUnits) {
    if (joules * unit.per_joule >= kLeast) shown = &unit;
  }
  return *shown;
}

}  // namespace

std::string footprint_pprof(const Footprint& footprint) {
  Tables tables;
  Message profile;
  const auto add_type = [&](std::string_view type, std::string_view unit) {
    Message value;
    value.number(kType, tables.text(type));
    value.number(kUnit, tables.text(unit));
    profile.message(kSampleType, value);
  };
  add_type("busy", "nanoseconds");
  for (const EnergyUnit& unit : kEnergyUnits) add_type(unit.type, unit.unit);
  // A row's value is the difference of two rounded sums, so that the values add up to the energy of all rows.
  CompensatedSum joules;
  std::array<std::int64_t, std::size(kEnergyUnits)> counted{};
  for (const FootprintRow& row : footprint.rows) {
    joules.add(std::max(row.energy.value(), 0.0));
    std::vector<std::uint64_t> stack;
    for (const std::string_view part : stack_of(row)) stack.push_back(tables.function(part));
    Message sample;
    for (auto frame = stack.rbegin(); frame != stack.rend(); ++frame) sample.number(kLocationId, *frame);
    sample.number(kValue, static_cast<std::uint64_t>(std::llround(row.busy.value() * 1e9)));
    for (std::size_t unit = 0; unit < counted.size(); ++unit) {
      const std::int64_t sum = std::llround(joules.value() * kEnergyUnits[unit].per_joule);
      sample.number(kValue, static_cast<std::uint64_t>(std::max<std::int64_t>(sum - counted[unit], 0)));
      counted[unit] = std::max(counted[unit], sum);
    }
    const auto add_label = [&](std::string_view key, std::string_view value) {
      if (value.empty()) return;
      Message label;
      label.number(kKey, tables.text(key));
      label.number(kText, tables.text(value));
      sample.message(kLabel, label);
    };
    add_label("pass", name_of(row.phase));
    add_label("device", row.device);
    profile.message(kSample, sample);
  }
  // Each function has one location, of the same number.
  for (const auto& [text, number] : tables.functions()) {
    Message line;
    line.number(kFunctionId, number);
    Message location;
    location.number(kLocationNumber, number);
    location.message(kLine, line);
    profile.message(kLocation, location);
    Message function;
    function.number(kFunctionNumber, number);
    function.number(kName, text);
    profile.message(kFunction, function);
  }
  profile.number(kDefaultSampleType, tables.text(shown_unit(footprint).type));
  for (const std::string& text : tables.texts()) profile.bytes(kStringTable, text);

  std::string zipped;
  {
    StringOutputStream stream(&zipped);
    GzipOutputStream gzip(&stream);
    CodedOutputStream out(&gzip);
    out.WriteRaw(profile.text().data(), static_cast<int>(profile.text().size()));
  }
  return zipped;
}

}  // namespace flyball
