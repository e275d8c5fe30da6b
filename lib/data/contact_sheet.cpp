#include "data/contact_sheet.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace trainctl::data {
namespace {

constexpr std::int64_t kSmallest = 96;  // pixels of a tile's longer side
constexpr std::int64_t kGap = 8;
constexpr std::int64_t kDot = 2;  // pixels of a dot of the digits
constexpr std::int64_t kDigitWidth = 3;
constexpr std::int64_t kDigitHeight = 5;
constexpr std::int64_t kCaption = (kDigitHeight + 2) * kDot;
constexpr std::uint8_t kPaper = 255;
constexpr std::uint8_t kInk = 32;

// Five rows of three dots each, the left one the highest bit.
constexpr std::array<std::array<std::uint8_t, kDigitHeight>, 10> kDigits{{
    {7, 5, 5, 5, 7},
    {2, 6, 2, 2, 7},
    {7, 1, 7, 4, 7},
    {7, 1, 3, 1, 7},
    {5, 5, 7, 1, 1},
    {7, 4, 7, 1, 7},
    {7, 4, 7, 5, 7},
    {7, 1, 2, 2, 2},
    {7, 5, 7, 5, 7},
    {7, 5, 7, 1, 7},
}};

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

  void write(const std::string& number, std::int64_t top, std::int64_t left) {
    for (const char digit : number) {
      for (std::int64_t y = 0; y < kDigitHeight * kDot; ++y) {
        const int dots = kDigits.at(static_cast<std::size_t>(digit - '0'))
                             .at(static_cast<std::size_t>(y / kDot));
        const std::int64_t visible = std::min(kDigitWidth * kDot, sheet_.shape.width - left);
        for (std::int64_t x = 0; x < visible; ++x) {
          if ((dots >> (kDigitWidth - 1 - x / kDot) & 1) != 0)
            std::fill_n(at(top + y, left + x), 3, kInk);
        }
      }
      left += (kDigitWidth + 1) * kDot;
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

Sheet contact_sheet(std::span<const Exhibit> exhibits) {
  ASSERT(!exhibits.empty());
  const ImageShape& shape = exhibits.front().image.shape;
  const std::int64_t scale =
      std::max<std::int64_t>(1, kSmallest / std::max(shape.height, shape.width));
  const auto count = std::ssize(exhibits);
  const auto columns = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  const std::int64_t rows = (count + columns - 1) / columns;
  const std::int64_t step_x = shape.width * scale + kGap;
  const std::int64_t step_y = shape.height * scale + kCaption + kGap;
  Canvas canvas({rows * step_y + kGap, columns * step_x + kGap, 3});
  for (std::int64_t i = 0; i < count; ++i) {
    const Exhibit& exhibit = exhibits[static_cast<std::size_t>(i)];
    const std::int64_t top = kGap + i / columns * step_y;
    const std::int64_t left = kGap + i % columns * step_x;
    canvas.draw(exhibit.image, top, left, scale);
    if (exhibit.label && *exhibit.label >= 0)
      canvas.write(std::to_string(*exhibit.label), top + shape.height * scale + kDot, left);
  }
  return canvas.take();
}

}  // namespace trainctl::data
