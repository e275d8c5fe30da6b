#include "data/image/color.hpp"

#include "base/error.hpp"
#include "data/image/pixel_math.hpp"

#include <numeric>

namespace trainctl::data {
namespace {

/// A lookup table from byte to byte.
using Table = std::array<std::uint8_t, 256>;

/// Returns a table with the entries `value_of(0)` ... `value_of(255)`.
template <class Function>
Table make_table(Function&& value_of) {
  Table table;
  for (int value = 0; value < 256; ++value) {
    table[static_cast<std::size_t>(value)] = static_cast<std::uint8_t>(value_of(value));
  }
  return table;
}

/// Applies a lookup table to every byte; may run in place.
void apply_table(const ImageView& input, const Table& table, ImageTarget& output) {
  output.resize(input.shape);
  const auto bytes = static_cast<std::int64_t>(input.row_bytes());
  for (std::int64_t y = 0; y < input.shape.height; ++y) {
    const std::uint8_t* from = input.row(y);
    std::uint8_t* to = output.row(y);
    for (std::int64_t i = 0; i < bytes; ++i) to[i] = table[from[i]];
  }
}

/// Applies a separate table to each channel.
void apply_tables(const ImageView& input, std::span<const Table> tables, ImageTarget& output) {
  const auto [height, width, channels] = input.shape;
  ASSERT(std::ssize(tables) == channels);
  output.resize(input.shape);
  for (std::int64_t y = 0; y < height; ++y) {
    const std::uint8_t* from = input.row(y);
    std::uint8_t* to = output.row(y);
    for (std::int64_t x = 0; x < width; ++x) {
      for (const Table& table : tables) *to++ = table[*from++];
    }
  }
}

const BlendKernels& kernels() {
  static const BlendKernels& fastest = blend_kernels().back();
  return fastest;
}

float mean_luma(const ImageView& input) {
  const auto [height, width, channels] = input.shape;
  std::int64_t sum = 0;
  for (std::int64_t y = 0; y < height; ++y) {
    const std::uint8_t* row = input.row(y);
    sum += channels == 1 ? std::accumulate(row, row + width, std::int64_t{0})
                         : kernels().sum_of_luma(row, width);
  }
  return static_cast<float>(sum) / static_cast<float>(height * width);
}

void keep(const ImageView& input, ImageTarget& output) {
  if (output.shape() != input.shape || output.view().pixels != input.pixels) output.copy(input);
}

struct Hsv {
  float h, s, v;
};

Hsv to_hsv(const std::uint8_t* pixel) {
  constexpr auto kScale = static_cast<float>(1.0 / 255);
  const float r = static_cast<float>(pixel[0]) * kScale;
  const float g = static_cast<float>(pixel[1]) * kScale;
  const float b = static_cast<float>(pixel[2]) * kScale;
  const float most = std::max({r, g, b});
  const float range = most - std::min({r, g, b});
  if (range == 0) return {0, 0, most};
  const float rc = (most - r) / range;
  const float gc = (most - g) / range;
  const float bc = (most - b) / range;
  const float sixths = most == r ? bc - gc : most == g ? (rc + 2.0F) - bc : (gc + 4.0F) - rc;
  const float turns = sixths * static_cast<float>(1.0 / 6) + 1.0F;  // between 5/6 and 11/6
  return {turns < 1 ? turns : turns - 1, range / most, most};
}

void from_hsv(const Hsv& color, std::uint8_t* pixel) {
  const float sixths = color.h * 6.0F;
  const int sector = static_cast<int>(sixths);
  const float part = color.s * (sixths - static_cast<float>(sector));
  const float rest = 1.0F - color.s;
  const auto level = [&](float share) {
    return static_cast<std::uint8_t>(std::clamp(share * color.v, 0.0F, 1.0F) *
                                     static_cast<float>(255 + 1.0 - 1e-3));
  };
  const auto v = static_cast<std::uint8_t>(color.v * static_cast<float>(255 + 1.0 - 1e-3));
  const std::uint8_t p = level(rest);
  const std::uint8_t q = level(1.0F - part);
  const std::uint8_t t = level(part + rest);
  const auto set = [&](std::uint8_t r, std::uint8_t g, std::uint8_t b) {
    pixel[0] = r;
    pixel[1] = g;
    pixel[2] = b;
  };
  switch (sector % 6) {
    case 0: return set(v, t, p);
    case 1: return set(q, v, p);
    case 2: return set(p, v, t);
    case 3: return set(p, q, v);
    case 4: return set(t, p, v);
    default: return set(v, p, q);
  }
}

}  // namespace

void check_colors(const ImageShape& image) {
  ENSURE(config, image.channels == 1 || image.channels == 3,
         "color transforms need images with 1 (gray) or 3 (RGB) channels, got {}\nhint: remove "
         "this transform",
         image.channels);
}

void adjust_brightness(const ImageView& input, double factor, ImageTarget& output) {
  const auto scale = static_cast<float>(factor);
  apply_table(input,
              make_table([&](int value) { return clamped(static_cast<float>(value) * scale); }),
              output);
}

void adjust_contrast(const ImageView& input, double factor, ImageTarget& output) {
  const Blend blend(factor);
  const float mean = mean_luma(input);
  const auto blend_value = [&](int value) {
    return blended(static_cast<std::uint8_t>(value), mean, blend);
  };
  apply_table(input, make_table(blend_value), output);
}

void adjust_saturation(const ImageView& input, double factor, ImageTarget& output) {
  if (input.shape.channels == 1) return keep(input, output);
  const Blend blend(factor);
  output.resize(input.shape);
  for (std::int64_t y = 0; y < input.shape.height; ++y)
    kernels().saturate(input.row(y), input.shape.width, blend, output.row(y));
}

void adjust_hue(const ImageView& input, double shift, ImageTarget& output) {
  if (input.shape.channels == 1) return keep(input, output);
  const auto turns = static_cast<float>(shift);
  const auto [height, width, channels] = input.shape;
  output.resize(input.shape);
  for (std::int64_t y = 0; y < height; ++y) {
    const std::uint8_t* from = input.row(y);
    std::uint8_t* to = output.row(y);
    for (std::int64_t x = 0; x < width; ++x, from += channels, to += channels) {
      Hsv color = to_hsv(from);
      color.h += turns;
      if (color.h >= 1) color.h -= 1;
      if (color.h < 0) color.h += 1;
      from_hsv(color, to);
    }
  }
}

void to_grayscale(const ImageView& input, ImageTarget& output) {
  if (input.shape.channels == 1) return keep(input, output);
  output.resize(input.shape);
  for (std::int64_t y = 0; y < input.shape.height; ++y)
    kernels().gray(input.row(y), input.shape.width, output.row(y));
}

namespace {

constexpr std::size_t kMostChannels = 4;
using Histogram = std::array<std::int64_t, 256>;

Histogram histogram_of(const ImageView& input, std::int64_t channel) {
  Histogram counts{};
  for (std::int64_t y = 0; y < input.shape.height; ++y) {
    const std::uint8_t* value = input.row(y) + channel;
    for (std::int64_t x = 0; x < input.shape.width; ++x, value += input.shape.channels)
      ++counts[*value];
  }
  return counts;
}

/// Applies to each channel the table that `table_of` makes from the histogram of the channel.
template <class TableOf>
void by_histogram(const ImageView& input, ImageTarget& output, TableOf&& table_of) {
  const auto channels = static_cast<std::size_t>(input.shape.channels);
  ASSERT(channels <= kMostChannels);
  std::array<Table, kMostChannels> tables;
  for (std::size_t c = 0; c < channels; ++c)
    tables[c] = table_of(histogram_of(input, static_cast<std::int64_t>(c)));
  apply_tables(input, std::span(tables).first(channels), output);
}

bool is_used(std::int64_t count) { return count > 0; }

std::int64_t first_used(const Histogram& counts) {
  return std::find_if(counts.begin(), counts.end(), is_used) - counts.begin();
}

std::int64_t last_used(const Histogram& counts) {
  return counts.rend() - std::find_if(counts.rbegin(), counts.rend(), is_used) - 1;
}

Table stretched(const Histogram& counts) {
  const auto least = static_cast<float>(first_used(counts));
  const auto most = static_cast<float>(last_used(counts));
  const bool flat = least == most;
  const float origin = flat ? 0.0F : least;
  const float scale = flat ? 1.0F : (most - least) * static_cast<float>(1.0 / 255);
  return make_table([&](int value) {
    return std::clamp((static_cast<float>(value) - origin) / scale, 0.0F, 255.0F);
  });
}

// Follows Pillow: entry k is the number of darker pixels in units of `step`, which excludes the
// brightest value.
Table evened(const Histogram& counts) {
  std::int64_t pixels = 0;
  for (const std::int64_t count : counts) pixels += count;
  const std::int64_t step = (pixels - counts[static_cast<std::size_t>(last_used(counts))]) / 255;
  if (step == 0) return make_table([](int value) { return value; });
  std::int64_t darker = step / 2;
  return make_table([&](int value) {
    const std::int64_t level = value == 0 ? 0 : std::min<std::int64_t>(darker / step, 255);
    darker += counts[static_cast<std::size_t>(value)];
    return level;
  });
}

}  // namespace

void invert(const ImageView& input, ImageTarget& output) {
  apply_table(input, make_table([](int value) { return 255 - value; }), output);
}

void posterize(const ImageView& input, int bits, ImageTarget& output) {
  const int mask = 256 - (1 << (8 - bits));
  apply_table(input, make_table([&](int value) { return value & mask; }), output);
}

void solarize(const ImageView& input, double threshold, ImageTarget& output) {
  const auto limit = static_cast<float>(threshold);
  apply_table(input, make_table([&](int value) {
                return static_cast<float>(value) >= limit ? 255 - value : value;
              }),
              output);
}

void autocontrast(const ImageView& input, ImageTarget& output) {
  by_histogram(input, output, stretched);
}

void equalize(const ImageView& input, ImageTarget& output) { by_histogram(input, output, evened); }

void adjust_sharpness(const ImageView& input, double factor, ImageTarget& output) {
  output.copy(input);
  const auto [height, width, channels] = input.shape;
  const auto other = static_cast<float>(1.0 - factor);
  for (std::int64_t y = 1; y + 1 < height && width > 2; ++y) {
    const RowsToSharpen rows{input.row(y - 1) + channels, input.row(y) + channels,
                             input.row(y + 1) + channels, channels};
    kernels().sharpen(rows, (width - 2) * channels, other, output.row(y) + channels);
  }
}

const BlendKernels& portable_blend() {
  static constexpr BlendKernels kPortable{"portable", saturate_row, gray_row, sum_of_luma_row,
                                          sharpen_row};
  return kPortable;
}

}  // namespace trainctl::data
