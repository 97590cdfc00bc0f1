// The style sheets of pictures and page: colours for light and dark, system fonts, tabular numerals.
#pragma once

#include <string_view>

namespace flyball {

// Classes of the pictures; enough for an SVG file that stands alone.
[[nodiscard]] std::string_view chart_css();

// The page around them; needs chart_css().
[[nodiscard]] std::string_view page_css();

}  // namespace flyball
