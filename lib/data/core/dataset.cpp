#include "data/core/dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainctl::data {

const Field* Facts::image() const {
  const std::size_t image = find_field(layout, "image");
  return image == layout.size() ? nullptr : &layout[image];
}

std::string ImageStore::name(std::int64_t index) const { return fmt::format("sample {}", index); }

std::string sample_name(const Dataset& dataset, std::int64_t index) {
  const ImageStore* images = dataset.images();
  return images != nullptr ? images->name(index) : fmt::format("sample {}", index);
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
