#include "data/image/tone.hpp"

#include "base/error.hpp"
#include "data/image/table.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace trainctl::data {
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

/// Applies to each channel the table that `table_of` makes of its histogram.
template <class TableOf>
void by_histogram(const ImageView& input, ImageTarget& output, TableOf&& table_of) {
  const auto channels = static_cast<std::size_t>(input.shape.channels);
  ASSERT(channels <= kMostChannels);
  std::array<Table, kMostChannels> tables;
  for (std::size_t c = 0; c < channels; ++c)
    tables[c] = table_of(histogram_of(input, static_cast<std::int64_t>(c)));
  apply_tables(input, std::span(tables).first(channels), output);
}

std::int64_t first_used(const Histogram& counts) {
  return std::find_if(counts.begin(), counts.end(), [](std::int64_t count) { return count > 0; }) -
         counts.begin();
}

std::int64_t last_used(const Histogram& counts) {
  return counts.rend() -
         std::find_if(counts.rbegin(), counts.rend(),
                      [](std::int64_t count) { return count > 0; }) -
         1;
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

// Pillow's rule: entry k counts what is darker than k, in steps that leave out the brightest value.
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

}  // namespace trainctl::data
