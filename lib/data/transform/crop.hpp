#pragma once

#include "data/core/transform.hpp"

#include <cstring>

namespace trainctl::data {

/// The center of one axis: the pixels [first, first + count), after `before` pixels of padding.
struct CenterSpan {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t before = 0;
};

/// Computes like torchvision: the crop starts at half of the excess, rounded to even; if the
/// padding is odd, the end gets the extra pixel.
inline CenterSpan center_span(std::int64_t extent, std::int64_t crop) {
  if (crop > extent) return {0, extent, (crop - extent) / 2};
  const std::int64_t over = extent - crop;
  const std::int64_t half = over / 2;
  return {half + (over % 2) * (half % 2), crop, 0};
}

/// torchvision's CenterCrop: pads with 0, or another value, when the image is smaller than `size`.
class CenterCrop final : public CropTransform {
 public:
  explicit CenterCrop(const Extents& size, std::uint8_t outside = 0)
      : size_(size), outside_(outside) {}

  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    return {size_.height, size_.width, input.channels};
  }
  [[nodiscard]] bool random() const override { return false; }

  [[nodiscard]] Box box(const ImageShape& input, CounterRng&) const override {
    const CenterSpan rows = center_span(input.height, size_.height);
    const CenterSpan columns = center_span(input.width, size_.width);
    return {rows.first, columns.first, rows.count, columns.count};
  }
  void apply_to_box(const ImageView& window, const ImageShape& whole, ImageTarget& output,
                    CounterRng&) const override {
    const CenterSpan rows = center_span(whole.height, size_.height);
    const CenterSpan columns = center_span(whole.width, size_.width);
    output.resize({size_.height, size_.width, window.shape.channels});
    if (rows.count < size_.height || columns.count < size_.width)
      std::memset(output.pixels(), outside_, output.shape().bytes());
    for (std::int64_t y = 0; y < rows.count; ++y)
      std::memcpy(output.row(rows.before + y) + columns.before * window.shape.channels,
                  window.row(y), window.row_bytes());
  }

  [[nodiscard]] std::optional<Paint> paints(const ImageShape& input) const override {
    const bool pads = size_.height > input.height || size_.width > input.width;
    return pads ? Paint{.outside = Fill({outside_})} : Paint();
  }
  void apply_to_plan(PlannedImage& image, CounterRng&) const override {
    const CenterSpan rows = center_span(image.shape().height, size_.height);
    const CenterSpan columns = center_span(image.shape().width, size_.width);
    image.crop(
        {rows.first - rows.before, columns.first - columns.before, size_.height, size_.width});
  }

 private:
  Extents size_;
  std::uint8_t outside_;
};

}  // namespace trainctl::data
