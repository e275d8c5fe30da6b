#include "data/dataset/digit_renderer.hpp"

#include "base/random.hpp"
#include "data/dataset/glyphs.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace trainctl::data {
namespace {

// Lengths are in 1/256 pixel, factors in 1/4096.
constexpr std::int64_t kPixel = 256;
constexpr std::int64_t kOne = 4096;
constexpr std::uint64_t kKey =
    0x64696769747331ULL;  // "digits1"; change it with the look of the digits
constexpr std::uint16_t kShapeDraws = 0;
constexpr std::uint16_t kNoiseDraws = 1;

// How much the digits vary: a small perceptron learns them in two epochs, a linear model does not.
constexpr std::int64_t kUnit = 60;  // of the glyph's box, in 1/256 pixel
constexpr int kJitter = 8;          // of each point, in units of the box
constexpr int kTurn = 1100;         // radians
constexpr int kShear = 900;
constexpr int kStretch = 700;
constexpr int kShift = 640;
constexpr int kThin = 170;  // half the width of a stroke
constexpr int kThick = 400;
constexpr int kFaint = 120;  // peak brightness
constexpr int kNoise = 56;
constexpr int kClutterBrightness = 190;

struct Point {
  std::int64_t x = 0;
  std::int64_t y = 0;
};

class Draws {
 public:
  Draws(const DigitKey& key, std::uint16_t operation)
      : rng_(key.seed ^ kKey, key.split, key.index, operation) {}

  int below(int bound) {
    return static_cast<int>((std::uint64_t{rng_.next_u32()} * static_cast<std::uint64_t>(bound)) >>
                            32);
  }
  int between(int low, int high) { return low + below(high - low + 1); }
  int within(int reach) { return between(-reach, reach); }
  std::uint32_t word() { return rng_.next_u32(); }

 private:
  CounterRng rng_;
};

/// Turn, shear, stretch and shift of a glyph's box onto the picture.
struct Placement {
  std::int64_t xx, xy, yx, yy;
  Point shift;

  explicit Placement(Draws& draws) {
    const std::int64_t turn = draws.within(kTurn);
    const std::int64_t cosine =
        kOne - turn * turn / (2 * kOne);  // as good as the range of angles needs
    const std::int64_t shear = draws.within(kShear);
    const std::int64_t wide = kOne + draws.within(kStretch);
    const std::int64_t high = kOne + draws.within(kStretch);
    xx = cosine * wide / kOne;
    xy = (cosine * shear / kOne - turn) * high / kOne;
    yx = turn * wide / kOne;
    yy = (turn * shear / kOne + cosine) * high / kOne;
    shift.x = kDigitSide * kPixel / 2 + draws.within(kShift);
    shift.y = kDigitSide * kPixel / 2 + draws.within(kShift);
  }

  [[nodiscard]] Point of(std::int64_t x, std::int64_t y) const {
    x = (x - 50) * kUnit;
    y = (y - 50) * kUnit;
    return {(xx * x + xy * y) / kOne + shift.x, (yx * x + yy * y) / kOne + shift.y};
  }
};

struct Pen {
  std::int64_t radius = 256;
  int brightness = 255;
};

std::int64_t root(std::int64_t square) {
  std::int64_t low = 0;
  for (std::int64_t bit = std::int64_t{1} << 20; bit > 0; bit >>= 1) {
    if ((low + bit) * (low + bit) <= square) low += bit;
  }
  return low;
}

class Canvas {
 public:
  explicit Canvas(std::span<std::uint8_t, kDigitPixels> pixels) : pixels_(pixels) {
    std::fill(pixels_.begin(), pixels_.end(), std::uint8_t{0});
  }

  /// A line with round ends whose edge fades over one pixel; where lines cross, the brighter one
  /// shows.
  void line(Point a, Point b, const Pen& pen) {
    const Point along{b.x - a.x, b.y - a.y};
    const std::int64_t square = along.x * along.x + along.y * along.y;
    const std::int64_t length = std::max<std::int64_t>(root(square), 1);
    const std::int64_t outer = pen.radius + kPixel / 2;
    const std::int64_t inner = std::max<std::int64_t>(pen.radius - kPixel / 2, 0);
    const std::int64_t fade = outer * outer - inner * inner;
    const auto rows = covered(a.y, b.y, outer);
    const auto columns = covered(a.x, b.x, outer);
    for (int row = rows[0]; row <= rows[1]; ++row) {
      for (int column = columns[0]; column <= columns[1]; ++column) {
        const Point to{column * kPixel + kPixel / 2 - a.x, row * kPixel + kPixel / 2 - a.y};
        const std::int64_t dot = to.x * along.x + to.y * along.y;
        std::int64_t distance = 0;  // squared
        if (dot <= 0) {
          distance = to.x * to.x + to.y * to.y;
        } else if (dot >= square) {
          distance = (to.x - along.x) * (to.x - along.x) + (to.y - along.y) * (to.y - along.y);
        } else {
          const std::int64_t across = (to.x * along.y - to.y * along.x) / length;
          distance = across * across;
        }
        const std::int64_t left = outer * outer - distance;
        if (left <= 0) continue;
        const std::int64_t value = left >= fade ? pen.brightness : left * pen.brightness / fade;
        std::uint8_t& pixel = pixels_[static_cast<std::size_t>(row * kDigitSide + column)];
        pixel = std::max(pixel, static_cast<std::uint8_t>(value));
      }
    }
  }

  void add_noise(Draws& draws, int amplitude) {
    for (std::size_t i = 0; i < pixels_.size(); i += 4) {
      const std::uint32_t word = draws.word();
      for (std::size_t k = 0; k < 4; ++k) {
        const int byte = static_cast<int>(word >> (8 * k) & 255) - 128;
        pixels_[i + k] =
            static_cast<std::uint8_t>(std::clamp(pixels_[i + k] + byte * amplitude / 128, 0, 255));
      }
    }
  }

 private:
  /// First and last pixel that a line from `a` to `b` can touch.
  static std::array<int, 2> covered(std::int64_t a, std::int64_t b, std::int64_t reach) {
    const std::int64_t first = (std::min(a, b) - reach) / kPixel;
    const std::int64_t last = (std::max(a, b) + reach) / kPixel;
    return {static_cast<int>(std::max<std::int64_t>(first, 0)),
            static_cast<int>(std::min<std::int64_t>(last, kDigitSide - 1))};
  }

  std::span<std::uint8_t, kDigitPixels> pixels_;
};

void draw_glyph(Canvas& canvas, const Glyph& glyph, Draws& draws) {
  const Placement placement(draws);
  const Pen pen{draws.between(kThin, kThick), draws.between(kFaint, 255)};
  for (const Stroke& stroke : glyph) {
    Point last;
    for (std::size_t i = 0; i < stroke.size(); ++i) {
      // Two statements: the order of a call's arguments is the compiler's choice.
      const std::int64_t x = stroke[i].x + draws.within(kJitter);
      const std::int64_t y = stroke[i].y + draws.within(kJitter);
      const Point point = placement.of(x, y);
      if (i > 0) canvas.line(last, point, pen);
      last = point;
    }
  }
}

/// A short faint line that belongs to no digit.
void draw_clutter(Canvas& canvas, Draws& draws) {
  const auto anywhere = [&] {
    return std::int64_t{draws.below(kDigitSide * static_cast<int>(kPixel))};
  };
  const Point from{anywhere(), anywhere()};
  const Point to{from.x + draws.within(6 * 256), from.y + draws.within(6 * 256)};
  canvas.line(from, to,
              {draws.between(kThin, kThick) / 2 + 64, draws.between(40, kClutterBrightness)});
}

}  // namespace

std::uint8_t render_digit(const DigitKey& key, std::span<std::uint8_t, kDigitPixels> pixels) {
  Draws draws(key, kShapeDraws);
  const int digit = draws.below(10);
  const std::span<const Glyph> ways = glyphs_of(digit);
  Canvas canvas(pixels);
  draw_clutter(canvas, draws);
  draw_glyph(canvas, ways[static_cast<std::size_t>(draws.below(static_cast<int>(ways.size())))],
             draws);
  Draws noise(key, kNoiseDraws);
  canvas.add_noise(noise, draws.below(kNoise + 1));
  return static_cast<std::uint8_t>(digit);
}

}  // namespace trainctl::data
