// What makes a job of a cluster engine an elastic one, or a pipeline that is moved along its frontier: a text in its
// comment.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace flyball {

// "flyball:elastic,kind=NAME,iterations=N,min=1,max=8", with ",shrinks" for a job that can give nodes back while it
// runs, or "flyball:pipeline,kind=NAME,iterations=N". Elastic jobs of one kind cost the same per iteration.
struct ElasticOption {
  std::string kind;
  double iterations = 0.0;
  int min = 1;  // GPUs
  int max = 1;
  bool pipeline = false;  // it keeps its GPUs, whatever their number; min and max say nothing then
  bool shrinks = false;   // it goes on with some of its nodes when it is told to, and says so

  [[nodiscard]] std::string text() const;
  bool operator==(const ElasticOption&) const = default;
};

// Stands in the comment of a job that was submitted held so that the controller starts it.
inline constexpr std::string_view kHeldForUs = "flyball:held";

// Reads the option from a comment, in which other words may stand before and after it, with blanks or semicolons
// between. Returns nothing where the comment has none. Throws InputError where there is one that is wrong.
[[nodiscard]] std::optional<ElasticOption> parse_elastic_option(std::string_view comment);

}  // namespace flyball
