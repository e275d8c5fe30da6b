#pragma once

#include "data/loader/loader.hpp"

#include <cstdint>

namespace trainctl::data {

/// What up to 256 images, spread over the data set, tell of all. Those that cannot be read are left
/// out.
struct ImageLook {
  std::int64_t images = 0;   // that were looked at
  std::uint64_t stored = 0;  // bytes of all images of the set as they are stored; with a tenth more
                             // if not all were seen
  std::uint64_t pixels = 0;  // the same of their pixels behind the fixed transforms
  bool files = false;        // some must be decoded
  std::uint64_t largest_stored = 0;
  ImageShape largest;  // before the transforms
};
/// The i-th of `wanted` indices that are spread over `size` samples, one from each stretch, at
/// another place of it each time: sizes may repeat in the order.
std::int64_t spread_index(std::int64_t i, std::int64_t wanted, std::int64_t size);

ImageLook look_at_images(const Pipeline& pipeline);

}  // namespace trainctl::data
