#pragma once

#include "data/image/image.hpp"
#include "spec/transform/padding.hpp"

#include <cstdint>
#include <vector>

namespace trainctl::data {

/// The colour of pixels that come from nowhere: one value for all channels, or one for each.
class Fill {
 public:
  Fill() : values_{0} {}
  explicit Fill(const std::vector<int>& values);

  /// Throws Error(config) where there is neither one value nor one for each channel.
  void check(std::int64_t channels) const;
  [[nodiscard]] bool uniform() const { return values_.size() == 1; }
  [[nodiscard]] std::uint8_t operator[](std::int64_t channel) const {
    return values_[uniform() ? 0 : static_cast<std::size_t>(channel)];
  }
  /// Writes `count` pixels of that colour.
  void paint(std::uint8_t* to, std::int64_t count, std::int64_t channels) const;

 private:
  std::vector<std::uint8_t> values_;
};

/// What stands outside an image.
struct Outside {
  spec::transform::PaddingMode mode = spec::transform::PaddingMode::constant;
  Fill fill;  // for `constant`
};

/// torchvision's pad followed by its crop: `window` of an image that goes on outside as `outside`
/// says; it may lie outside altogether. `reflect` and `symmetric` mirror once: not farther out than
/// the image is wide and high.
void crop_padded(const ImageView& input, const Box& window, const Outside& outside,
                 ImageTarget& output);

}  // namespace trainctl::data
