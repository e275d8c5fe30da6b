#include "data/core/dataset.hpp"

#include <algorithm>
#include <cmath>

namespace trainctl::data {

const Field* Facts::image() const {
  const std::size_t image = find_field(layout, "image");
  return image == layout.size() ? nullptr : &layout[image];
}

void ColumnStats::learn(double value) {
  ++count;
  const double before = value - mean;
  mean += before / static_cast<double>(count);
  squares += before * (value - mean);
  least = std::min(least, value);
  most = std::max(most, value);
}

double ColumnStats::deviation() const {
  return count > 0 ? std::sqrt(squares / static_cast<double>(count)) : 0;
}

}  // namespace trainctl::data
