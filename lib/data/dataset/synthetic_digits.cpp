#include "data/dataset/synthetic_digits.hpp"

#include "base/machine/machine.hpp"
#include "base/random.hpp"
#include "data/core/parallel.hpp"
#include "data/core/registry.hpp"
#include "spec/options/dataset.hpp"

#include <atomic>

namespace trainctl::data {
namespace {

/// A connected stroke: straight lines from point to point, each point encoded as x * 100 + y in a
/// box of 100 x 100 units, with y pointing down.
using Stroke = std::vector<int>;

/// One way to write a digit.
using Glyph = std::vector<Stroke>;

/// Returns the ways to write `digit` (0 to 9), at least two.
const std::vector<Glyph>& glyphs_of(int digit) {
  static const std::array<std::vector<Glyph>, 10> kDigits{{
      {{{5010, 6815, 7832, 8050, 7868, 6885, 5090, 3285, 2268, 2050, 2232, 3215, 5010}},
       {{5610, 6820, 7240, 6864, 5884, 4690, 3482, 3062, 3338, 4218, 5610}}},
      {{{5010, 5090}}, {{3428, 5210, 5290}}, {{3626, 5211, 5290}, {3490, 7090}}},
      {{{2430, 3016, 4510, 6212, 7424, 7438, 6652, 4868, 2490, 7890}},
       {{2622, 4210, 6213, 7028, 6248, 4668, 3084, 2478, 3674, 5686, 7886}}},
      {{{2418, 4010, 6011, 7422, 7336, 6246, 4649, 6452, 7763, 7678, 6289, 4290, 2482}},
       {{2412, 7412, 4844, 6650, 7764, 7480, 5890, 3890, 2380}}},
      {{{6290, 6210, 2066, 8266}}, {{2812, 2454, 7854}, {6814, 6590}}},
      {{{7412, 3412, 3046, 4840, 6644, 7758, 7674, 6288, 4290, 2482}},
       {{3012, 2846, 5442, 7456, 7376, 5690, 2685}, {3012, 7210}}},
      {{{6612, 4622, 3042, 2464, 3082, 4890, 6686, 7672, 7256, 5648, 3852, 2664}},
       {{5610, 3836, 2666, 3688, 5890, 7276, 6658, 4654, 2866}}},
      {{{2212, 7812, 4690}}, {{2212, 7812, 4690}, {3650, 7050}}, {{2422, 2613, 7613, 6046, 5090}}},
      {{{5048, 3442, 2630, 3216, 5010, 6816, 7430, 6642, 5048, 3056, 2270, 3085, 5090, 7085, 7870,
         7056, 5048}},
       {{7020, 5210, 3216, 3032, 5046, 7262, 7480, 5290, 2882, 2764, 5046, 6832, 7020}}},
      {{{7434, 6648, 4852, 3044, 2528, 3414, 5210, 6816, 7532, 7260, 6090}},
       {{7230, 6046, 3846, 2630, 3614, 5810, 7220, 7330, 7090}}},
  }};
  return kDigits[static_cast<std::size_t>(digit)];
}

using spec::dataset::SyntheticDigits;

constexpr std::int64_t kTrainSamples = 60'000;
constexpr std::int64_t kTestSamples = 10'000;
constexpr std::int64_t kSamplesPerThread = 5'000;  // fewer do not justify a thread
constexpr std::int64_t kMostThreads = 16;
constexpr std::size_t kDigitsAtOnce = 500;

Facts facts_of(const SyntheticDigits& options) {
  const std::int64_t whole = options.split == spec::Split::train ? kTrainSamples : kTestSamples;
  return MemoryDataset::facts(options.samples.value_or(whole), 10, {kDigitSide, kDigitSide, 1});
}

// Lengths are in 1/256 pixel, factors in 1/4096.
constexpr std::int64_t kPixel = 256;
constexpr std::int64_t kFixedOne = 4096;
constexpr std::uint64_t kKey = 0x64696769747331ULL;  // "digits1"; changes with the rendering
constexpr std::uint16_t kShapeDraws = 0;
constexpr std::uint16_t kNoiseDraws = 1;

// These ranges are chosen so that a small perceptron learns the digits in two epochs and a linear
// model does not.
constexpr std::int64_t kUnit = 60;  // of the glyph's box, in 1/256 pixel
constexpr int kJitter = 8;          // of each point, in box units
constexpr int kTurn = 1100;         // in 1/4096 radian
constexpr int kShear = 900;
constexpr int kStretch = 700;
constexpr int kShift = 640;
constexpr int kThin = 170;  // half of the stroke width
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

/// The affine map of a glyph's box onto the image: rotation, shear, scale and shift.
struct Placement {
  std::int64_t xx, xy, yx, yy;
  Point shift;

  explicit Placement(Draws& draws) {
    const std::int64_t turn = draws.within(kTurn);
    const std::int64_t cosine =
        kFixedOne - turn * turn / (2 * kFixedOne);  // accurate enough for this range of angles
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

  [[nodiscard]] Point of(std::int64_t x, std::int64_t y) const {
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

  /// Draws a line with round ends and an edge that fades over one pixel. Where lines cross, the
  /// brighter value wins.
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
  /// Returns the first and last pixel that a line from `a` to `b` can touch.
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
      // These are two statements because C++ does not define the evaluation order of call
      // arguments.
      const std::int64_t x = stroke[i] / 100 + draws.within(kJitter);
      const std::int64_t y = stroke[i] % 100 + draws.within(kJitter);
      const Point point = placement.of(x, y);
      if (i > 0) canvas.line(last, point, pen);
      last = point;
    }
  }
}

/// Draws a short faint line as background clutter.
void draw_clutter(Canvas& canvas, Draws& draws) {
  const auto anywhere = [&] {
    return std::int64_t{draws.below(kDigitSide * static_cast<int>(kPixel))};
  };
  const Point from{anywhere(), anywhere()};
  const Point to{from.x + draws.within(6 * 256), from.y + draws.within(6 * 256)};
  canvas.line(from, to,
              {draws.between(kThin, kThick) / 2 + 64, draws.between(40, kClutterBrightness)});
}

std::shared_ptr<const Dataset> render(const SyntheticDigits& options) {
  const Facts facts = facts_of(options);
  Arena pixels = image_memory(facts);
  std::vector<std::uint8_t> labels(static_cast<std::size_t>(facts.samples));
  const auto split = static_cast<std::uint32_t>(options.split);
  const auto all =
      std::span(reinterpret_cast<std::uint8_t*>(pixels.bytes().data()), pixels.bytes().size());
  std::atomic<std::size_t> next = 0;
  const auto render_some = [&] {
    for (std::size_t first = next.fetch_add(kDigitsAtOnce); first < labels.size();
         first = next.fetch_add(kDigitsAtOnce)) {
      for (std::size_t i = first; i < std::min(first + kDigitsAtOnce, labels.size()); ++i) {
        const auto image = all.subspan(i * kDigitPixels).first<kDigitPixels>();
        labels[i] = render_digit({options.seed, split, i}, image);
      }
    }
  };
  const std::int64_t wanted = (facts.samples + kSamplesPerThread - 1) / kSamplesPerThread;
  run_in_threads(std::min<std::int64_t>({wanted, usable_cores(), kMostThreads}), render_some);
  return std::make_shared<const MemoryDataset>(facts, std::move(pixels), std::move(labels));
}

}  // namespace

void register_dataset_synthetic_digits(Catalog& catalog) {
  catalog.datasets["synthetic_digits"] = [](const config::Stage& stage) {
    return render(stage.as<SyntheticDigits>());
  };
  catalog.facts["synthetic_digits"] = [](const config::Stage& stage) {
    return facts_of(stage.as<SyntheticDigits>());
  };
}

std::uint8_t render_digit(const DigitKey& key, std::span<std::uint8_t, kDigitPixels> pixels) {
  Draws draws(key, kShapeDraws);
  const int digit = draws.below(10);
  const std::vector<Glyph>& ways = glyphs_of(digit);
  Canvas canvas(pixels);
  draw_clutter(canvas, draws);
  draw_glyph(canvas, ways[static_cast<std::size_t>(draws.below(static_cast<int>(ways.size())))],
             draws);
  Draws noise(key, kNoiseDraws);
  canvas.add_noise(noise, draws.below(kNoise + 1));
  return static_cast<std::uint8_t>(digit);
}

}  // namespace trainctl::data
