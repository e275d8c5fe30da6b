#pragma once

#include "data/core/pixel_plan.hpp"
#include "data/image/image.hpp"

namespace trainctl::data {

/// An image that cheap transforms change without touching a pixel: they move, mirror and paint.
class PlannedImage {
 public:
  /// The source as it is; its height and width are known.
  explicit PlannedImage(const ImageShape& source);

  [[nodiscard]] const ImageShape& shape() const { return shape_; }
  /// The part that `window` shows; what it shows outside of the image is filled.
  void crop(const Box& window);
  void mirror_columns();
  void mirror_rows();
  /// Paints over a box within the image; a plan holds one.
  void erase(const Box& box);

  [[nodiscard]] PixelPlan plan(std::int64_t sample) const;

 private:
  ImageShape shape_;
  PixelPlan plan_;
};

}  // namespace trainctl::data
