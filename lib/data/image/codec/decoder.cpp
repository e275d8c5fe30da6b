#include "data/image/codec/decoder.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "data/image/codec/jpeg.hpp"
#include "data/image/codec/opencv.hpp"
#include "data/image/codec/png.hpp"

#include <algorithm>

namespace trainctl::data {
namespace {

using namespace std::string_view_literals;

/// '?' matches any byte.
struct Format {
  std::string_view first_bytes;
  std::unique_ptr<FormatDecoder> (*make)(const DecodeLimits& limits);
};

constexpr std::array kFormats{
    Format{"\xFF\xD8\xFF"sv, make_jpeg_decoder},   Format{"\x89PNG\r\n\x1A\n"sv, make_png_decoder},
    Format{"RIFF????WEBP"sv, make_opencv_decoder}, Format{"BM"sv, make_opencv_decoder},
    Format{"II*\0"sv, make_opencv_decoder},        Format{"MM\0*"sv, make_opencv_decoder},
};

bool begins(std::span<const std::byte> file, std::string_view first_bytes) {
  return file.size() >= first_bytes.size() &&
         std::equal(first_bytes.begin(), first_bytes.end(), file.begin(),
                    [](char expected, std::byte found) {
                      return expected == '?' || static_cast<std::byte>(expected) == found;
                    });
}

}  // namespace

void check_extents(std::int64_t height, std::int64_t width, const DecodeLimits& limits) {
  ENSURE(data, height > 0 && width > 0, "the image has no pixels: the size in its header is {}x{}",
         width, height);
  ENSURE(data, width <= limits.pixels / height,
         "the image has {}x{} pixels, more than the limit of {} pixels\nhint: resize the image, or "
         "skip it with dataset.on_error: skip",
         width, height, with_thousands(limits.pixels));
}

ImageDecoder::ImageDecoder(const DecodeLimits& limits)
    : limits_(limits), decoders_(kFormats.size()) {}

ImageShape ImageDecoder::open(std::span<const std::byte> file) {
  ENSURE(data, !file.empty(), "the image file is empty");
  const auto* found = std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& format) {
    return begins(file, format.first_bytes);
  });
  ENSURE(data, found != kFormats.end(),
         "the file must be a JPEG, PNG, WebP, BMP or TIFF, but begins with the bytes {:02x}",
         fmt::join(reinterpret_cast<const std::uint8_t*>(file.data()),
                   reinterpret_cast<const std::uint8_t*>(file.data()) +
                       std::min<std::size_t>(file.size(), 8),
                   " "));
  auto& decoder = decoders_[static_cast<std::size_t>(found - kFormats.begin())];
  if (!decoder) decoder = found->make(limits_);
  open_ = decoder.get();
  return open_->open(file);
}

void ImageDecoder::decode(const Box& box, Reading reading, std::uint8_t* out) {
  ASSERT(open_ != nullptr);
  open_->decode(box, reading, out);
}

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
