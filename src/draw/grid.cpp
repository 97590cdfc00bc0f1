// One line and one label for each of the values that round_ticks() finds. The label of a row is set 4 pixels below its
// line's height, which centres it on the line.
#include "draw/grid.h"

namespace flyball {

void draw_rows(SvgCanvas& svg, const LinearScale& y, double left, double right, int ticks, double gap) {
  const Ticks round = round_ticks(y.from, y.to, ticks);
  for (const double value : round.values) {
    svg.line(left, y(value), right, y(value), "grid");
    svg.text(left - gap, y(value) + 4.0, round.label(value), "small soft", Anchor::kEnd);
  }
}

void draw_columns(SvgCanvas& svg, const LinearScale& x, double top, double bottom, int ticks, double gap) {
  const Ticks round = round_ticks(x.from, x.to, ticks);
  for (const double value : round.values) {
    svg.line(x(value), top, x(value), bottom, "grid");
    svg.text(x(value), bottom + gap, round.label(value), "small soft", Anchor::kMiddle);
  }
}

}  // namespace flyball
