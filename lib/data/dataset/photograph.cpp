#include "data/dataset/photograph.hpp"

#include <algorithm>
#include <array>

namespace trainctl::data {
namespace {

constexpr int kHeight = static_cast<int>(kPhotographShape.height);
constexpr int kWidth = static_cast<int>(kPhotographShape.width);

using Color = std::array<int, 3>;

struct Palette {
  const char* name;
  Color sky;
  Color ground;
  Color objects;
};

constexpr std::array<Palette, 8> kPalettes{{
    {"beach", {130, 190, 235}, {225, 200, 150}, {235, 235, 225}},
    {"desert", {160, 195, 225}, {200, 140, 80}, {140, 90, 55}},
    {"forest", {175, 200, 190}, {60, 95, 45}, {45, 60, 35}},
    {"meadow", {120, 175, 230}, {110, 160, 60}, {215, 190, 70}},
    {"mountain", {150, 180, 215}, {110, 110, 105}, {85, 85, 95}},
    {"ocean", {170, 200, 220}, {35, 85, 120}, {200, 215, 220}},
    {"snow", {190, 205, 225}, {235, 238, 242}, {90, 100, 110}},
    {"sunset", {235, 140, 80}, {80, 50, 60}, {50, 35, 45}},
}};

/// SplitMix64 (Steele et al. 2014).
class RandomBits {
 public:
  explicit RandomBits(const PhotographKey& key)
      : state_((std::uint64_t{key.split} << 48) ^ (key.index * 0xD1B54A32D192ED03ULL)) {}

  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t bits = state_;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9ULL;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBULL;
    return bits ^ (bits >> 31);
  }
  /// Returns a value from `low` to `high`.
  int between(int low, int high) {
    return low + static_cast<int>(next() % static_cast<std::uint64_t>(high - low + 1));
  }

 private:
  std::uint64_t state_;
};

/// One value for each pixel, or for each node of a coarser grid.
struct Plane {
  int height = 0;
  int width = 0;
  std::vector<int> values;

  Plane(int rows, int columns)
      : height(rows),
        width(columns),
        values(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns)) {}
  int& at(int y, int x) {
    return values[static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
                  static_cast<std::size_t>(x)];
  }
  [[nodiscard]] int at(int y, int x) const {
    return values[static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
                  static_cast<std::size_t>(x)];
  }
};

/// The plane at twice the resolution: the old nodes and the means between them.
Plane doubled(const Plane& coarse, int height, int width) {
  Plane fine(height, width);
  for (int y = 0; y < height; ++y) {
    const int above = std::min(y / 2, coarse.height - 1);
    const int below = std::min((y + 1) / 2, coarse.height - 1);
    for (int x = 0; x < width; ++x) {
      const int left = std::min(x / 2, coarse.width - 1);
      const int right = std::min((x + 1) / 2, coarse.width - 1);
      fine.at(y, x) = (coarse.at(above, left) + coarse.at(above, right) + coarse.at(below, left) +
                       coarse.at(below, right)) /
                      4;
    }
  }
  return fine;
}

/// Noise whose amplitude is proportional to its wavelength, as in photographs of nature. The values
/// lie around 0; `amplitude` is that of the finest detail.
Plane fractal_noise(RandomBits& random, int amplitude) {
  constexpr int kLevels = 6;
  Plane plane((kHeight >> kLevels) + 1, (kWidth >> kLevels) + 1);
  for (int level = kLevels; level >= 0; --level) {
    if (level < kLevels) plane = doubled(plane, (kHeight >> level) + 1, (kWidth >> level) + 1);
    const int strength = amplitude << std::min(level, 4);
    for (int& value : plane.values) value += random.between(-strength, strength);
  }
  return plane;
}

/// An ellipse lit from above left.
struct Ellipse {
  int y = 0;
  int x = 0;
  int half_height = 1;
  int half_width = 1;
  Color color{};
};

void paint(const Ellipse& ellipse, std::array<Plane, 3>& scene) {
  constexpr std::int64_t kOne = 1024;
  const int bottom = std::min(kHeight - 1, ellipse.y + ellipse.half_height);
  const int right = std::min(kWidth - 1, ellipse.x + ellipse.half_width);
  for (int y = std::max(0, ellipse.y - ellipse.half_height); y <= bottom; ++y) {
    for (int x = std::max(0, ellipse.x - ellipse.half_width); x <= right; ++x) {
      const std::int64_t dy = kOne * (y - ellipse.y) / ellipse.half_height;
      const std::int64_t dx = kOne * (x - ellipse.x) / ellipse.half_width;
      if (dy * dy + dx * dx > kOne * kOne) continue;
      const int light = static_cast<int>(-(dy + dx) * 60 / kOne);
      for (std::size_t c = 0; c < 3; ++c) scene[c].at(y, x) = ellipse.color[c] + light;
    }
  }
}

std::array<Plane, 3> draw_scene(const Palette& palette, const Plane& texture, RandomBits& random) {
  std::array<Plane, 3> scene{Plane(kHeight, kWidth), Plane(kHeight, kWidth),
                             Plane(kHeight, kWidth)};
  const int horizon = random.between(kHeight / 4, kHeight * 2 / 3);
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      const bool is_sky = y < horizon + texture.at(kHeight / 2, x) / 2;
      const Color& base = is_sky ? palette.sky : palette.ground;
      const int gradient = is_sky ? (horizon - y) / 8 : (y - horizon) / 6;
      for (std::size_t c = 0; c < 3; ++c) scene[c].at(y, x) = base[c] - gradient;
    }
  }
  const int count = random.between(8, 24);
  for (int i = 0; i < count; ++i) {
    Ellipse ellipse{.y = random.between(horizon, kHeight - 1), .x = random.between(0, kWidth - 1)};
    ellipse.half_height = random.between(6, 70);
    ellipse.half_width = random.between(6, 70);
    for (std::size_t c = 0; c < 3; ++c)
      ellipse.color[c] = palette.objects[c] + random.between(-35, 35);
    paint(ellipse, scene);
  }
  return scene;
}

}  // namespace

const std::vector<std::string>& photograph_classes() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Palette& palette : kPalettes) all.emplace_back(palette.name);
    return all;
  }();
  return names;
}

std::size_t photograph_class(const PhotographKey& key) { return key.index % kPalettes.size(); }

std::vector<std::uint8_t> draw_photograph(const PhotographKey& key) {
  RandomBits random(key);
  const Plane texture = fractal_noise(random, 3);
  const Plane tint = fractal_noise(random, 1);
  const int exposure = random.between(-25, 25);
  const std::array<Plane, 3> scene =
      draw_scene(kPalettes.at(photograph_class(key)), texture, random);
  std::vector<std::uint8_t> pixels;
  pixels.reserve(kPhotographShape.bytes());
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      const std::uint64_t grain = random.next();
      for (std::size_t c = 0; c < 3; ++c) {
        const int noise = static_cast<int>((grain >> (8 * c)) & 7U) - 4;
        const int colored = c == 0 ? tint.at(y, x) : c == 2 ? -tint.at(y, x) : 0;
        const int value = scene[c].at(y, x) + texture.at(y, x) / 2 + colored / 2 + exposure + noise;
        pixels.push_back(static_cast<std::uint8_t>(std::clamp(value, 0, 255)));
      }
    }
  }
  return pixels;
}

}  // namespace trainctl::data
