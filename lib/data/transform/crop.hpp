#pragma once

#include "data/core/transform.hpp"

namespace trainctl::data {

/// The middle of one axis: the pixels [first, first + count) of the image, with `before` pixels of
/// margin in front.
struct Middle {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t before = 0;
};

/// torchvision's arithmetic: the crop begins at the half of what is left over, rounded to even; a
/// margin that is odd is wider behind.
Middle middle_of(std::int64_t extent, std::int64_t crop);

class CenterCrop final : public CropTransform {
 public:
  explicit CenterCrop(const Extents& size) : size_(size) {}

  [[nodiscard]] const Extents& size() const { return size_; }
  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    return {size_.height, size_.width, input.channels};
  }
  [[nodiscard]] bool random() const override { return false; }
  [[nodiscard]] Box box(const ImageShape& input, CounterRng& rng) const override;
  void apply_to_box(const ImageView& window, const ImageShape& whole, ImageTarget& output,
                    CounterRng& rng) const override;
  [[nodiscard]] std::optional<Paint> paints(const ImageShape& input) const override;
  void apply_to_plan(PlannedImage& image, CounterRng& rng) const override;

 private:
  Extents size_;
};

}  // namespace trainctl::data
