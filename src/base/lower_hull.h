// The lower convex hull of points that come in order, by Andrew's monotone chain.
#pragma once

#include <vector>

namespace flyball {

// Appends the point, and drops those before it that are no longer strictly below the chord of their neighbours.
// `slope(a, b)` is the slope of the line from a to b, where b comes later. A hull of n points takes O(n) in all.
template <class Point, class Slope>
void push_lower_hull(std::vector<Point>& hull, const Point& next, const Slope& slope) {
  while (hull.size() >= 2 && slope(hull[hull.size() - 2], hull.back()) >= slope(hull.back(), next)) hull.pop_back();
  hull.push_back(next);
}

}  // namespace flyball
