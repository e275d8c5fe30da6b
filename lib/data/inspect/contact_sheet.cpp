#include "data/inspect/contact_sheet.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "spec/sample.hpp"

#include <algorithm>
#include <cmath>

namespace trainctl::data {
namespace {

constexpr std::int64_t kLetterWidth = 3;
constexpr std::int64_t kLetterHeight = 5;

// Each entry is a letter and its five rows as octal digits.
constexpr std::array<std::string_view, 45> kLetters{
    "075557", "126227", "271747", "371317", "455711", "574717", "674757", "771222", "875757",
    "975717", "A25755", "B65656", "C34443", "D65556", "E74647", "F74644", "G34553", "H55755",
    "I72227", "J11152", "K55655", "L44447", "M57755", "N57775", "O25552", "P65644", "Q25563",
    "R65655", "S34216", "T72222", "U55557", "V55552", "W55775", "X55255", "Y55222", "Z71247",
    " 00000", "-00700", "_00007", ".00002", ",00024", "/11244", "(12221", ")42224", "+02720",
};
constexpr std::string_view kUnknown = "?71202";

/// Returns five rows of three dots; the left dot is the highest bit. Lowercase letters are drawn as
/// capitals, unknown letters as a question mark.
std::array<std::uint8_t, kLetterHeight> letter_dots(char letter) {
  if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  const auto found = std::ranges::find(kLetters, letter, [](auto text) { return text[0]; });
  const std::string_view text = found == kLetters.end() ? kUnknown : *found;
  std::array<std::uint8_t, kLetterHeight> rows{};
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = static_cast<std::uint8_t>(text[i + 1] - '0');
  return rows;
}

constexpr std::int64_t kSmallest = 96;  // minimum pixels of a tile's longer side
constexpr std::int64_t kGap = 8;
constexpr std::int64_t kDot = 2;  // pixels per dot of a caption
constexpr std::int64_t kCaption = (kLetterHeight + 2) * kDot;
constexpr std::uint8_t kPaper = 255;
constexpr std::uint8_t kInk = 32;
constexpr std::size_t kMostBytes = std::size_t{1} << 28;

std::int64_t scale_of(const ImageShape& image) {
  return std::max<std::int64_t>(1, kSmallest / std::max(image.height, image.width));
}

/// Returns the size of a tile with the gap after it.
Extents step_of(const ImageShape& image) {
  const std::int64_t scale = scale_of(image);
  const std::int64_t pictures = image.channels % 2 == 0 ? 2 : 1;  // the second one is a mask
  return {image.height * scale + kCaption + kGap, pictures * image.width * scale + kGap};
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
    const std::int64_t width = image.shape.width * scale;
    for (std::int64_t y = 0; y < image.shape.height * scale; ++y) {
      const std::uint8_t* row = image.row(y / scale);
      for (std::int64_t x = 0; x < width; ++x) {
        const std::uint8_t* pixel = row + x / scale * channels;
        for (std::int64_t c = 0; c < 3; ++c) at(top + y, left + x)[c] = pixel[channels < 3 ? 0 : c];
        if (channels % 2 == 0)
          std::ranges::copy(class_color(pixel[channels - 1]), at(top + y, left + width + x));
      }
    }
  }

  /// Writes up to the column `right`.
  void write(const std::string& text, std::int64_t top, std::int64_t left, std::int64_t right) {
    right = std::min(right, sheet_.shape.width);
    for (const char letter : text) {
      if ((static_cast<unsigned char>(letter) & 0xC0) == 0x80)
        continue;  // a UTF-8 continuation byte
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

/// The colors are the series of report pages in the light theme (report/html/page.cpp), again from
/// the start after the last.
std::array<std::uint8_t, 3> class_color(std::uint8_t label) {
  constexpr std::array kColors{0x0072b2, 0xd55e00, 0x009e73, 0xb8608f, 0xe69f00,
                               0x56b4e9, 0x1c2024, 0xb3a500, 0x8a929c, 0x6f4fb0};
  const int color = label == spec::kIgnoredPixel ? 0xffffff : kColors.at(label % kColors.size());
  const auto byte = [&](int shift) { return static_cast<std::uint8_t>(color >> shift); };
  return {byte(16), byte(8), byte(0)};
}

ImageShape sheet_shape(std::int64_t count, const ImageShape& image) {
  const Extents step = step_of(image);
  const std::int64_t columns = columns_of(count);
  const std::int64_t rows = (count + columns - 1) / columns;
  const ImageShape sheet{rows * step.height + kGap, columns * step.width + kGap, 3};
  ENSURE(config, sheet.bytes() <= kMostBytes,
         "a picture of {} images of {}x{} would have {}x{} pixels, more than the limit of {} "
         "pixels\nhint: lower --samples, or make the images smaller with a transform",
         count, image.height, image.width, sheet.height, sheet.width,
         with_thousands(static_cast<long long>(kMostBytes / 3)));
  return sheet;
}

Sheet contact_sheet(std::span<const SheetImage> images) {
  ASSERT(!images.empty());
  const ImageShape& shape = images.front().image.shape;
  const auto count = std::ssize(images);
  Canvas canvas(sheet_shape(count, shape));
  const std::int64_t scale = scale_of(shape);
  const std::int64_t columns = columns_of(count);
  const Extents step = step_of(shape);
  for (std::int64_t i = 0; i < count; ++i) {
    const SheetImage& image = images[static_cast<std::size_t>(i)];
    const std::int64_t top = kGap + i / columns * step.height;
    const std::int64_t left = kGap + i % columns * step.width;
    canvas.draw(image.image, top, left, scale);
    canvas.write(image.caption, top + shape.height * scale + kDot, left, left + step.width - kDot);
  }
  return canvas.take();
}

}  // namespace trainctl::data
