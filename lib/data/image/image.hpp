#pragma once

#include "data/core/batch.hpp"

namespace trainctl::data {

/// The pixel limit of an image, whether a file claims it or a transform makes it.
constexpr std::int64_t kMostPixels = std::int64_t{1} << 26;

/// Height and width of one image.
struct Extents {
  std::int64_t height = 0;
  std::int64_t width = 0;
  bool operator==(const Extents&) const = default;
};

/// Shape of a uint8 HWC image. A height or width of 0 in a layout means that samples differ in
/// size.
struct ImageShape {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;

  [[nodiscard]] bool fixed() const { return height > 0 && width > 0; }
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(height * width * channels);
  }
  bool operator==(const ImageShape&) const = default;
};

/// Converts between the field and the shape of an image.
ImageShape image_shape(const Field& image);
Field image_field(const ImageShape& shape);

/// A rectangle of pixels.
struct Box {
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  bool operator==(const Box&) const = default;
};

/// A view of pixels with rows `stride` bytes apart; may be a window of a larger image.
struct ImageView {
  const std::uint8_t* pixels = nullptr;
  ImageShape shape;
  std::int64_t stride = 0;

  ImageView() = default;
  ImageView(const std::uint8_t* first, const ImageShape& extents)
      : pixels(first), shape(extents), stride(extents.width * extents.channels) {}

  [[nodiscard]] const std::uint8_t* row(std::int64_t y) const { return pixels + y * stride; }
  [[nodiscard]] std::size_t row_bytes() const {
    return static_cast<std::size_t>(shape.width * shape.channels);
  }
  /// `box` must lie within the image.
  [[nodiscard]] ImageView window(const Box& box) const;
};

/// The destination of a transform: a scratch buffer that grows to any shape, or a row of a batch
/// slot with a fixed shape. Rows are contiguous.
class ImageTarget {
 public:
  explicit ImageTarget(std::vector<std::uint8_t>& scratch) : scratch_(&scratch) {}
  ImageTarget(std::span<std::byte> row, const ImageShape& fixed);

  /// Returns memory for an image of that shape and discards the previous content.
  std::uint8_t* resize(const ImageShape& shape);
  void copy(const ImageView& image);

  [[nodiscard]] ImageView view() const { return {pixels_, shape_}; }
  [[nodiscard]] const ImageShape& shape() const { return shape_; }
  [[nodiscard]] std::uint8_t* row(std::int64_t y) {
    return pixels_ + y * shape_.width * shape_.channels;
  }
  [[nodiscard]] std::uint8_t* pixels() { return pixels_; }

 private:
  std::vector<std::uint8_t>* scratch_ = nullptr;  // null for a row of a slot
  std::uint8_t* pixels_ = nullptr;
  ImageShape shape_;
};

}  // namespace trainctl::data
