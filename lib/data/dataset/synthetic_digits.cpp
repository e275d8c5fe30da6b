#include "data/dataset/synthetic_digits.hpp"

#include "base/machine/machine.hpp"
#include "base/random.hpp"
#include "data/core/registry.hpp"
#include "spec/dataset/synthetic_digits.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

namespace trainctl::data {
namespace {

struct GlyphPoint {
  std::int8_t x;
  std::int8_t y;
};

/// A connected stroke: straight lines from point to point.
using Stroke = std::span<const GlyphPoint>;

/// One way to write a digit, in a box of 100 x 100 units, y downwards.
using Glyph = std::span<const Stroke>;

/// The ways to write `digit` (0 to 9), at least two.
std::span<const Glyph> glyphs_of(int digit);

constexpr GlyphPoint kZeroA[] = {{50, 10}, {68, 15}, {78, 32}, {80, 50}, {78, 68},
                                 {68, 85}, {50, 90}, {32, 85}, {22, 68}, {20, 50},
                                 {22, 32}, {32, 15}, {50, 10}};
constexpr GlyphPoint kZeroB[] = {{56, 10}, {68, 20}, {72, 40}, {68, 64}, {58, 84}, {46, 90},
                                 {34, 82}, {30, 62}, {33, 38}, {42, 18}, {56, 10}};
constexpr Stroke kZeroAStrokes[] = {kZeroA};
constexpr Stroke kZeroBStrokes[] = {kZeroB};
constexpr Glyph kZero[] = {kZeroAStrokes, kZeroBStrokes};

constexpr GlyphPoint kOneA[] = {{50, 10}, {50, 90}};
constexpr GlyphPoint kOneB[] = {{34, 28}, {52, 10}, {52, 90}};
constexpr GlyphPoint kOneC1[] = {{36, 26}, {52, 11}, {52, 90}};
constexpr GlyphPoint kOneC2[] = {{34, 90}, {70, 90}};
constexpr Stroke kOneAStrokes[] = {kOneA};
constexpr Stroke kOneBStrokes[] = {kOneB};
constexpr Stroke kOneCStrokes[] = {kOneC1, kOneC2};
constexpr Glyph kOne[] = {kOneAStrokes, kOneBStrokes, kOneCStrokes};

constexpr GlyphPoint kTwoA[] = {{24, 30}, {30, 16}, {45, 10}, {62, 12}, {74, 24},
                                {74, 38}, {66, 52}, {48, 68}, {24, 90}, {78, 90}};
constexpr GlyphPoint kTwoB[] = {{26, 22}, {42, 10}, {62, 13}, {70, 28}, {62, 48}, {46, 68},
                                {30, 84}, {24, 78}, {36, 74}, {56, 86}, {78, 86}};
constexpr Stroke kTwoAStrokes[] = {kTwoA};
constexpr Stroke kTwoBStrokes[] = {kTwoB};
constexpr Glyph kTwo[] = {kTwoAStrokes, kTwoBStrokes};

constexpr GlyphPoint kThreeA[] = {{24, 18}, {40, 10}, {60, 11}, {74, 22}, {73, 36},
                                  {62, 46}, {46, 49}, {64, 52}, {77, 63}, {76, 78},
                                  {62, 89}, {42, 90}, {24, 82}};
constexpr GlyphPoint kThreeB[] = {{24, 12}, {74, 12}, {48, 44}, {66, 50}, {77, 64},
                                  {74, 80}, {58, 90}, {38, 90}, {23, 80}};
constexpr Stroke kThreeAStrokes[] = {kThreeA};
constexpr Stroke kThreeBStrokes[] = {kThreeB};
constexpr Glyph kThree[] = {kThreeAStrokes, kThreeBStrokes};

constexpr GlyphPoint kFourA[] = {{62, 90}, {62, 10}, {20, 66}, {82, 66}};
constexpr GlyphPoint kFourB1[] = {{28, 12}, {24, 54}, {78, 54}};
constexpr GlyphPoint kFourB2[] = {{68, 14}, {65, 90}};
constexpr Stroke kFourAStrokes[] = {kFourA};
constexpr Stroke kFourBStrokes[] = {kFourB1, kFourB2};
constexpr Glyph kFour[] = {kFourAStrokes, kFourBStrokes};

constexpr GlyphPoint kFiveA[] = {{74, 12}, {34, 12}, {30, 46}, {48, 40}, {66, 44},
                                 {77, 58}, {76, 74}, {62, 88}, {42, 90}, {24, 82}};
constexpr GlyphPoint kFiveB1[] = {{30, 12}, {28, 46}, {54, 42}, {74, 56},
                                  {73, 76}, {56, 90}, {26, 85}};
constexpr GlyphPoint kFiveB2[] = {{30, 12}, {72, 10}};
constexpr Stroke kFiveAStrokes[] = {kFiveA};
constexpr Stroke kFiveBStrokes[] = {kFiveB1, kFiveB2};
constexpr Glyph kFive[] = {kFiveAStrokes, kFiveBStrokes};

constexpr GlyphPoint kSixA[] = {{66, 12}, {46, 22}, {30, 42}, {24, 64}, {30, 82}, {48, 90},
                                {66, 86}, {76, 72}, {72, 56}, {56, 48}, {38, 52}, {26, 64}};
constexpr GlyphPoint kSixB[] = {{56, 10}, {38, 36}, {26, 66}, {36, 88}, {58, 90},
                                {72, 76}, {66, 58}, {46, 54}, {28, 66}};
constexpr Stroke kSixAStrokes[] = {kSixA};
constexpr Stroke kSixBStrokes[] = {kSixB};
constexpr Glyph kSix[] = {kSixAStrokes, kSixBStrokes};

constexpr GlyphPoint kSevenA[] = {{22, 12}, {78, 12}, {46, 90}};
constexpr GlyphPoint kSevenB1[] = {{22, 12}, {78, 12}, {46, 90}};
constexpr GlyphPoint kSevenB2[] = {{36, 50}, {70, 50}};
constexpr GlyphPoint kSevenC[] = {{24, 22}, {26, 13}, {76, 13}, {60, 46}, {50, 90}};
constexpr Stroke kSevenAStrokes[] = {kSevenA};
constexpr Stroke kSevenBStrokes[] = {kSevenB1, kSevenB2};
constexpr Stroke kSevenCStrokes[] = {kSevenC};
constexpr Glyph kSeven[] = {kSevenAStrokes, kSevenBStrokes, kSevenCStrokes};

constexpr GlyphPoint kEightA[] = {{50, 48}, {34, 42}, {26, 30}, {32, 16}, {50, 10}, {68, 16},
                                  {74, 30}, {66, 42}, {50, 48}, {30, 56}, {22, 70}, {30, 85},
                                  {50, 90}, {70, 85}, {78, 70}, {70, 56}, {50, 48}};
constexpr GlyphPoint kEightB[] = {{70, 20}, {52, 10}, {32, 16}, {30, 32}, {50, 46},
                                  {72, 62}, {74, 80}, {52, 90}, {28, 82}, {27, 64},
                                  {50, 46}, {68, 32}, {70, 20}};
constexpr Stroke kEightAStrokes[] = {kEightA};
constexpr Stroke kEightBStrokes[] = {kEightB};
constexpr Glyph kEight[] = {kEightAStrokes, kEightBStrokes};

constexpr GlyphPoint kNineA[] = {{74, 34}, {66, 48}, {48, 52}, {30, 44}, {25, 28}, {34, 14},
                                 {52, 10}, {68, 16}, {75, 32}, {72, 60}, {60, 90}};
constexpr GlyphPoint kNineB[] = {{72, 30}, {60, 46}, {38, 46}, {26, 30}, {36, 14},
                                 {58, 10}, {72, 20}, {73, 30}, {70, 90}};
constexpr Stroke kNineAStrokes[] = {kNineA};
constexpr Stroke kNineBStrokes[] = {kNineB};
constexpr Glyph kNine[] = {kNineAStrokes, kNineBStrokes};

constexpr std::array<std::span<const Glyph>, 10> kDigits{kZero, kOne, kTwo,   kThree, kFour,
                                                         kFive, kSix, kSeven, kEight, kNine};

std::span<const Glyph> glyphs_of(int digit) { return kDigits[static_cast<std::size_t>(digit)]; }

using spec::dataset::SyntheticDigits;

constexpr std::int64_t kTrainSamples = 60'000;
constexpr std::int64_t kTestSamples = 10'000;
constexpr std::int64_t kSamplesPerThread = 5'000;  // fewer are not worth starting one
constexpr std::int64_t kMostThreads = 16;

Facts facts_of(const SyntheticDigits& options) {
  const std::int64_t whole = options.split == spec::Split::train ? kTrainSamples : kTestSamples;
  return MemoryDataset::facts(options.samples.value_or(whole), 10, {kDigitSide, kDigitSide, 1});
}

class Renderer {
 public:
  explicit Renderer(const SyntheticDigits& options)
      : options_(options),
        facts_(facts_of(options)),
        pixels_(image_memory(facts_)),
        labels_(static_cast<std::size_t>(facts_.samples)) {}

  std::shared_ptr<const Dataset> render() {
    const std::int64_t wished = (facts_.samples + kSamplesPerThread - 1) / kSamplesPerThread;
    const std::int64_t threads = std::min<std::int64_t>({wished, usable_cores(), kMostThreads});
    {
      std::vector<std::jthread> helpers;
      std::int64_t started = 1;
      try {
        for (; started < threads; ++started)
          helpers.emplace_back([this, started, threads] { render_share(started, threads); });
      } catch (const std::system_error&) {  // no further thread is to be had
      }
      render_share(0, threads);
      for (std::int64_t i = started; i < threads; ++i) render_share(i, threads);
    }
    return std::make_shared<const MemoryDataset>(facts_, std::move(pixels_), std::move(labels_));
  }

 private:
  void render_share(std::int64_t share, std::int64_t shares) {
    const auto split = static_cast<std::uint32_t>(options_.split);
    const auto all =
        std::span(reinterpret_cast<std::uint8_t*>(pixels_.bytes().data()), pixels_.bytes().size());
    for (std::int64_t i = facts_.samples * share / shares;
         i < facts_.samples * (share + 1) / shares; ++i) {
      const auto index = static_cast<std::size_t>(i);
      const auto image = all.subspan(index * kDigitPixels).first<kDigitPixels>();
      labels_[index] = render_digit({options_.seed, split, index}, image);
    }
  }

  SyntheticDigits options_;
  Facts facts_;
  Arena pixels_;
  std::vector<std::uint8_t> labels_;
};

}  // namespace

void register_dataset_synthetic_digits(Catalogue& catalogue) {
  catalogue.datasets["synthetic_digits"] = [](const config::Stage& stage) {
    return Renderer(stage.as<SyntheticDigits>()).render();
  };
  catalogue.facts["synthetic_digits"] = [](const config::Stage& stage) {
    return facts_of(stage.as<SyntheticDigits>());
  };
}

namespace {

// Lengths are in 1/256 pixel, factors in 1/4096.
constexpr std::int64_t kPixel = 256;
constexpr std::int64_t kFixedOne = 4096;
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

struct RenderPoint {
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
  RenderPoint shift;

  explicit Placement(Draws& draws) {
    const std::int64_t turn = draws.within(kTurn);
    const std::int64_t cosine =
        kFixedOne - turn * turn / (2 * kFixedOne);  // as good as the range of angles needs
    const std::int64_t shear = draws.within(kShear);
    const std::int64_t wide = kFixedOne + draws.within(kStretch);
    const std::int64_t high = kFixedOne + draws.within(kStretch);
    xx = cosine * wide / kFixedOne;
    xy = (cosine * shear / kFixedOne - turn) * high / kFixedOne;
    yx = turn * wide / kFixedOne;
    yy = (turn * shear / kFixedOne + cosine) * high / kFixedOne;
    shift.x = kDigitSide * kPixel / 2 + draws.within(kShift);
    shift.y = kDigitSide * kPixel / 2 + draws.within(kShift);
  }

  [[nodiscard]] RenderPoint of(std::int64_t x, std::int64_t y) const {
    x = (x - 50) * kUnit;
    y = (y - 50) * kUnit;
    return {(xx * x + xy * y) / kFixedOne + shift.x, (yx * x + yy * y) / kFixedOne + shift.y};
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
  void line(RenderPoint a, RenderPoint b, const Pen& pen) {
    const RenderPoint along{b.x - a.x, b.y - a.y};
    const std::int64_t square = along.x * along.x + along.y * along.y;
    const std::int64_t length = std::max<std::int64_t>(root(square), 1);
    const std::int64_t outer = pen.radius + kPixel / 2;
    const std::int64_t inner = std::max<std::int64_t>(pen.radius - kPixel / 2, 0);
    const std::int64_t fade = outer * outer - inner * inner;
    const auto rows = covered(a.y, b.y, outer);
    const auto columns = covered(a.x, b.x, outer);
    for (int row = rows[0]; row <= rows[1]; ++row) {
      for (int column = columns[0]; column <= columns[1]; ++column) {
        const RenderPoint to{column * kPixel + kPixel / 2 - a.x, row * kPixel + kPixel / 2 - a.y};
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
    RenderPoint last;
    for (std::size_t i = 0; i < stroke.size(); ++i) {
      // Two statements: the order of a call's arguments is the compiler's choice.
      const std::int64_t x = stroke[i].x + draws.within(kJitter);
      const std::int64_t y = stroke[i].y + draws.within(kJitter);
      const RenderPoint point = placement.of(x, y);
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
  const RenderPoint from{anywhere(), anywhere()};
  const RenderPoint to{from.x + draws.within(6 * 256), from.y + draws.within(6 * 256)};
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
