#include "data/image/image.hpp"

#include "base/error.hpp"

#include <cstring>

namespace trainctl::data {

ImageShape image_shape(const Field& image) {
  ASSERT(image.shape.size() == 3);
  return {image.shape[0], image.shape[1], image.shape[2]};
}

Field image_field(const ImageShape& shape) {
  return {"image", Dtype::u8, {shape.height, shape.width, shape.channels}};
}

ImageView ImageView::window(const Box& box) const {
  ASSERT(box.top >= 0 && box.left >= 0 && box.height > 0 && box.width > 0);
  ASSERT(box.top + box.height <= shape.height && box.left + box.width <= shape.width);
  ImageView view;
  view.pixels = row(box.top) + box.left * shape.channels;
  view.shape = {box.height, box.width, shape.channels};
  view.stride = stride;
  return view;
}

ImageTarget::ImageTarget(std::span<std::byte> row, const ImageShape& fixed)
    : pixels_(reinterpret_cast<std::uint8_t*>(row.data())), shape_(fixed) {
  ASSERT(row.size() == fixed.bytes());
}

std::uint8_t* ImageTarget::resize(const ImageShape& shape) {
  if (scratch_ == nullptr) {
    ASSERT(shape == shape_);
    return pixels_;
  }
  if (scratch_->size() < shape.bytes()) scratch_->resize(shape.bytes());
  pixels_ = scratch_->data();
  shape_ = shape;
  return pixels_;
}

void ImageTarget::copy(const ImageView& image) {
  resize(image.shape);
  if (image.stride == shape_.width * shape_.channels) {
    std::memcpy(pixels_, image.pixels, shape_.bytes());
    return;
  }
  for (std::int64_t y = 0; y < shape_.height; ++y)
    std::memcpy(row(y), image.row(y), image.row_bytes());
}

}  // namespace trainctl::data
