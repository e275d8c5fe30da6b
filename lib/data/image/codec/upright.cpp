#include "data/image/codec/upright.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace trainctl::data {
namespace {

/// Where the upright image's first row and first column lie in the stored one.
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
