#include "data/inspect/contact_sheet.hpp"

#include "base/error.hpp"
#include "data/inspect/caption_font.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace trainctl::data {
namespace {

constexpr std::int64_t kSmallest = 96;  // pixels of a tile's longer side
constexpr std::int64_t kGap = 8;
constexpr std::int64_t kDot = 2;  // pixels of a dot of the captions
constexpr std::int64_t kCaption = (kLetterHeight + 2) * kDot;
constexpr std::uint8_t kPaper = 255;
constexpr std::uint8_t kInk = 32;
constexpr std::size_t kMostBytes = std::size_t{1} << 28;

std::int64_t scale_of(const ImageShape& image) {
  return std::max<std::int64_t>(1, kSmallest / std::max(image.height, image.width));
}

std::int64_t columns_of(std::int64_t count) {
  return static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
}

class Canvas {
 public:
  explicit Canvas(const ImageShape& shape)
      : sheet_{shape, std::vector<std::uint8_t>(shape.bytes(), kPaper)} {}

  void draw(const ImageView& image, std::int64_t top, std::int64_t left, std::int64_t scale) {
    const std::int64_t channels = image.shape.channels;
    for (std::int64_t y = 0; y < image.shape.height * scale; ++y) {
      const std::uint8_t* row = image.row(y / scale);
      for (std::int64_t x = 0; x < image.shape.width * scale; ++x) {
        const std::uint8_t* pixel = row + x / scale * channels;
        for (std::int64_t c = 0; c < 3; ++c)
          at(top + y, left + x)[c] = pixel[channels == 3 ? c : 0];
      }
    }
  }

  /// Up to the column `right`.
  void write(const std::string& text, std::int64_t top, std::int64_t left, std::int64_t right) {
    right = std::min(right, sheet_.shape.width);
    for (const char letter : text) {
      if ((static_cast<unsigned char>(letter) & 0xC0) == 0x80) continue;  // within a UTF-8 letter
      const auto dots = letter_dots(letter);
      for (std::int64_t y = 0; y < kLetterHeight * kDot; ++y) {
        const int row = dots.at(static_cast<std::size_t>(y / kDot));
        const std::int64_t visible = std::min(kLetterWidth * kDot, right - left);
        for (std::int64_t x = 0; x < visible; ++x) {
          if ((row >> (kLetterWidth - 1 - x / kDot) & 1) != 0)
            std::fill_n(at(top + y, left + x), 3, kInk);
        }
      }
      left += (kLetterWidth + 1) * kDot;
    }
  }

  Sheet take() { return std::move(sheet_); }

 private:
  std::uint8_t* at(std::int64_t y, std::int64_t x) {
    return sheet_.pixels.data() + (y * sheet_.shape.width + x) * 3;
  }

  Sheet sheet_;
};

}  // namespace

ImageShape sheet_shape(std::int64_t count, const ImageShape& image) {
  const std::int64_t scale = scale_of(image);
  const std::int64_t columns = columns_of(count);
  const std::int64_t rows = (count + columns - 1) / columns;
  const ImageShape sheet{rows * (image.height * scale + kCaption + kGap) + kGap,
                         columns * (image.width * scale + kGap) + kGap, 3};
  ENSURE(config, sheet.bytes() <= kMostBytes,
         "a picture of {} images of {}x{} would take {}x{} pixels; show fewer with --samples, or "
         "smaller ones with a transform",
         count, image.height, image.width, sheet.height, sheet.width);
  return sheet;
}

Sheet contact_sheet(std::span<const Exhibit> exhibits) {
  ASSERT(!exhibits.empty());
  const ImageShape& shape = exhibits.front().image.shape;
  const auto count = std::ssize(exhibits);
  Canvas canvas(sheet_shape(count, shape));
  const std::int64_t scale = scale_of(shape);
  const std::int64_t columns = columns_of(count);
  const std::int64_t step_x = shape.width * scale + kGap;
  const std::int64_t step_y = shape.height * scale + kCaption + kGap;
  for (std::int64_t i = 0; i < count; ++i) {
    const Exhibit& exhibit = exhibits[static_cast<std::size_t>(i)];
    const std::int64_t top = kGap + i / columns * step_y;
    const std::int64_t left = kGap + i % columns * step_x;
    canvas.draw(exhibit.image, top, left, scale);
    canvas.write(exhibit.caption, top + shape.height * scale + kDot, left, left + step_x - kDot);
  }
  return canvas.take();
}

}  // namespace trainctl::data
