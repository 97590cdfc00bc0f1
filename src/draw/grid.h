// The grid of a plot: lines at the round values of its scales, with their labels.
#pragma once

#include "draw/scale.h"
#include "draw/svg_canvas.h"

namespace flyball {

// Across, from `left` to `right`, about `ticks` of them; labels end `gap` pixels before.
void draw_rows(SvgCanvas& svg, const LinearScale& y, double left, double right, int ticks, double gap = 6.0);
// Upright; labels are `gap` pixels below `bottom`.
void draw_columns(SvgCanvas& svg, const LinearScale& x, double top, double bottom, int ticks, double gap = 16.0);

}  // namespace flyball
