#include "data/image/codec/pixel_reader.hpp"

namespace trainctl::data {

ImageShape PixelReader::shape(const StoredImage& image) {
  return image.raw.fixed() ? image.raw : decoder_.open(image.bytes);
}

ImageView PixelReader::read(const StoredImage& image) {
  if (image.raw.fixed())
    return {reinterpret_cast<const std::uint8_t*>(image.bytes.data()), image.raw};
  const ImageShape shape = decoder_.open(image.bytes);
  ImageTarget out(decoded_);
  out.resize(shape);
  decoder_.decode({0, 0, shape.height, shape.width}, Reading::whole_file, out.pixels());
  return out.view();
}

}  // namespace trainctl::data
