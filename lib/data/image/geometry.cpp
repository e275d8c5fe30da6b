#include "data/image/geometry.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"

namespace trainctl::data {
namespace {

using spec::transform::PaddingMode;

/// Returns the source index of pixel `at` along one axis, or -1 for the fill color.
std::int64_t source_of(std::int64_t at, std::int64_t extent, PaddingMode mode) {
  if (at >= 0 && at < extent) return at;
  switch (mode) {
    case PaddingMode::constant: return -1;
    case PaddingMode::edge: return std::clamp<std::int64_t>(at, 0, extent - 1);
    case PaddingMode::reflect: return at < 0 ? -at : 2 * (extent - 1) - at;
    case PaddingMode::symmetric: return at < 0 ? -at - 1 : 2 * extent - 1 - at;
  }
  return -1;
}

}  // namespace

Fill::Fill(const std::vector<int>& values) : values_(values.begin(), values.end()) {
  ENSURE(config, !values.empty(),
         "fill must not be an empty list\nhint: set one value, or one per channel");
}

void Fill::check(std::int64_t channels) const {
  ENSURE(config, uniform() || std::ssize(values_) == channels,
         "fill has {} value{}, but the images have {} channel{}\nhint: set one value, or one per "
         "channel",
         values_.size(), plural(values_.size()), channels, plural(channels));
}

void Fill::paint(std::uint8_t* to, std::int64_t count, std::int64_t channels) const {
  if (uniform()) {
    std::memset(to, values_[0], static_cast<std::size_t>(count * channels));
    return;
  }
  const auto bytes = static_cast<std::size_t>(count * channels);
  std::size_t painted = std::min(values_.size(), bytes);
  std::copy_n(values_.begin(), painted, to);
  for (std::size_t more = 0; painted < bytes; painted += more) {
    more = std::min(painted, bytes - painted);
    std::memcpy(to + painted, to, more);
  }
}

void crop_padded(const ImageView& input, const Box& window, const Outside& outside,
                 ImageTarget& output) {
  const auto [height, width, channels] = input.shape;
  output.resize({window.height, window.width, channels});
  const std::int64_t begin =
      std::clamp<std::int64_t>(-window.left, 0, window.width);  // first image column
  const std::int64_t end =
      std::clamp<std::int64_t>(width - window.left, begin, window.width);  // and its end
  const auto inner = static_cast<std::size_t>((end - begin) * channels);
  const bool paints = outside.mode == PaddingMode::constant;
  const bool sticks_out =
      window.top < 0 || window.top + window.height > height || begin > 0 || end < window.width;
  // Filling all of it is faster than filling the margins of each row at common image sizes.
  if (paints && sticks_out)
    outside.fill.paint(output.pixels(), window.height * window.width, channels);
  for (std::int64_t y = 0; y < window.height; ++y) {
    std::uint8_t* to = output.row(y);
    const std::int64_t row = source_of(window.top + y, height, outside.mode);
    if (row < 0) continue;
    const std::uint8_t* from = input.row(row);
    if (inner > 0)
      std::memcpy(to + begin * channels, from + (window.left + begin) * channels, inner);
    if (paints) continue;
    for (std::int64_t x = 0; x < window.width; ++x) {
      if (x == begin) x = end;
      if (x == window.width) break;
      std::copy_n(from + source_of(window.left + x, width, outside.mode) * channels, channels,
                  to + x * channels);
    }
  }
}

void erase(const ImageView& input, const Box& box, const Fill& value, ImageTarget& output) {
  ASSERT(box.height >= 0 && box.width >= 0);
  output.copy(input);
  const std::int64_t channels = input.shape.channels;
  for (std::int64_t y = box.top; y < box.top + box.height; ++y) {
    value.paint(output.row(y) + box.left * channels, box.width, channels);
  }
}

namespace {

void mirror_one(const std::uint8_t* from, std::int64_t width, std::uint8_t* to) {
  std::reverse_copy(from, from + width, to);
}

void mirror_three(const std::uint8_t* from, std::int64_t width, std::uint8_t* to) {
  for (const std::uint8_t* pixel = from + 3 * (width - 1); pixel >= from; pixel -= 3, to += 3) {
    to[0] = pixel[0];
    to[1] = pixel[1];
    to[2] = pixel[2];
  }
}

std::vector<MirrorKernels> usable_kernels() {
  std::vector<MirrorKernels> kernels;
  add_vector_kernels(kernels);
  kernels.push_back({"scalar", mirror_one, mirror_three});
  return kernels;
}

}  // namespace

std::span<const MirrorKernels> mirror_kernels() {
  static const std::vector<MirrorKernels> kernels = usable_kernels();
  return kernels;
}

void horizontal_flip(const ImageView& input, ImageTarget& output) {
  static const MirrorKernels kernels = mirror_kernels().front();
  output.resize(input.shape);
  const auto [height, width, channels] = input.shape;
  if (channels != 1 && channels != 3)
    return copy_upright(input, 2, {0, 0, height, width}, output.pixels());
  const MirrorRow mirror = channels == 1 ? kernels.one : kernels.three;
  for (std::int64_t y = 0; y < height; ++y) mirror(input.row(y), width, output.row(y));
}

void vertical_flip(const ImageView& input, ImageTarget& output) {
  output.resize(input.shape);
  copy_upright(input, 4, {0, 0, input.shape.height, input.shape.width}, output.pixels());
}

namespace {

/// The position of the upright image's first row and column in the stored image.
struct Turn {
  bool from_right;
  bool from_below;
  bool swaps_axes;
};

constexpr std::array kTurns{Turn{false, false, false}, Turn{true, false, false},
                            Turn{true, true, false},   Turn{false, true, false},
                            Turn{false, false, true},  Turn{false, true, true},
                            Turn{true, true, true},    Turn{true, false, true}};

const Turn& turn_of(int orientation) {
  ASSERT(orientation >= 1 && orientation <= 8);
  return kTurns[static_cast<std::size_t>(orientation - 1)];
}

}  // namespace

Extents upright_extents(const Extents& stored, int orientation) {
  return turn_of(orientation).swaps_axes ? Extents{stored.width, stored.height} : stored;
}

void copy_upright(const ImageView& stored, int orientation, const Box& box, std::uint8_t* out) {
  const Turn& turn = turn_of(orientation);
  const auto [height, width, channels] = stored.shape;
  std::int64_t right = turn.from_right ? -channels : channels;
  std::int64_t down = turn.from_below ? -stored.stride : stored.stride;
  const std::uint8_t* first =
      stored.row(turn.from_below ? height - 1 : 0) + (turn.from_right ? (width - 1) * channels : 0);
  if (turn.swaps_axes) std::swap(right, down);
  for (std::int64_t y = box.top; y < box.top + box.height; ++y) {
    const std::uint8_t* from = first + y * down + box.left * right;
    if (right == channels) {
      std::memcpy(out, from, static_cast<std::size_t>(box.width * channels));
      out += box.width * channels;
      continue;
    }
    for (std::int64_t x = 0; x < box.width; ++x, from += right, out += channels)
      std::copy_n(from, channels, out);
  }
}

}  // namespace trainctl::data
