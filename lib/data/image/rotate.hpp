#pragma once

#include "data/image/warp.hpp"

#include <array>
#include <optional>

namespace trainctl::data {

/// How a rotation treats what leaves the frame.
enum class Frame { kept, expanded };

struct Rotation {
  double degrees = 0;  // counter-clockwise
  Frame frame = Frame::kept;
  std::optional<std::array<double, 2>> center;  // x and y from the upper left; none: the middle
};

/// torchvision's rotate; right angles about the middle are moves of pixels where the frame allows
/// it. `output` must lie elsewhere.
void rotate(const ImageView& input, const Rotation& rotation, const Sampling& sampling,
            ImageTarget& output);

}  // namespace trainctl::data
