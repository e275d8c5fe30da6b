#pragma once

#include "data/core/dataset.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace trainctl::data {

/// Some samples of a data set, in the order of `indices`. Throws Error(data) where it has no such
/// sample.
std::shared_ptr<const Dataset> subset(std::shared_ptr<const Dataset> dataset,
                                      std::vector<std::int64_t> indices);

/// A smaller copy of an image of 1 or 3 channels, no side longer than `most`: means of whole
/// blocks. The image itself where it is small enough.
std::vector<std::uint8_t> shrunk(const ImageView& image, std::int64_t most, ImageShape& shape);

}  // namespace trainctl::data
