// The grid of a plot: lines at the round values of its scales, with their labels.
#pragma once

#include "draw/scale.h"
#include "draw/svg_canvas.h"

namespace flyball {

// Draws about `ticks` horizontal lines from `left` to `right`; their labels end `gap` pixels left of them.
void draw_rows(SvgCanvas& svg, const LinearScale& y, double left, double right, int ticks, double gap = 6.0);
// Draws about `ticks` vertical lines from `top` to `bottom`; their labels stand `gap` pixels below them.
void draw_columns(SvgCanvas& svg, const LinearScale& x, double top, double bottom, int ticks, double gap = 16.0);

}  // namespace flyball
