// Numbered layers stand in the order in which the model runs them; a gap or a jump is a row lost or misplaced.
#include "pipeline/layer_times.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace flyball {
namespace {

// Whether both names are numbers, and the second does not follow the first.
bool breaks_the_count(std::string_view before, std::string_view name) {
  const std::optional<long> last = parse_integer(before);
  const std::optional<long> next = parse_integer(name);
  return last && next && (*next <= *last || *next - 1 != *last);
}

}  // namespace

LayerTimes read_layer_times(const std::string& source, std::string_view text) {
  CsvReader rows(source, text, {"layer", "time"});
  LayerTimes layers;
  while (rows.next()) {
    const double time = rows.number("time");
    if (time <= 0.0) {
      throw InputError(rows.where("time"), fmt::format("a layer's time must be above 0, not {}", rows.text("time")),
                       "give the forward time of one microbatch in seconds");
    }
    std::string name(rows.text("layer"));
    if (!layers.names.empty() && breaks_the_count(layers.names.back(), name)) {
      throw InputError(rows.where("layer"), fmt::format("layer {} follows layer {}", name, layers.names.back()),
                       "give one row per layer, in the order of the model");
    }
    layers.names.push_back(std::move(name));
    layers.times.emplace_back(time);
  }
  if (layers.times.empty()) throw InputError({source}, "the file has no layers", "give one row layer,time per layer");
  return layers;
}

LayerTimes read_layer_times_file(const std::filesystem::path& path) {
  return read_layer_times(path.string(), read_text_file(path));
}

}  // namespace flyball
