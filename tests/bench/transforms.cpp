// Measures nanoseconds per sample of transforms on one thread, compared with a plain copy of the
// same bytes. Rounds are interleaved; only the ratios are meaningful.

#include "base/clock.hpp"
#include "base/statistics.hpp"
#include "data/core/registry.hpp"
#include "data/image/geometry.hpp"
#include "support/stage.hpp"

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

using namespace trainctl;
using namespace trainctl::data;

namespace {

constexpr int kRounds = 41;        // short rounds: most of them are not interrupted
constexpr std::int64_t kSet = 64;  // several images in rotation, which all fit the cache

using Transforms = std::vector<std::shared_ptr<const Transform>>;

std::shared_ptr<const Transform> transform(const std::string& type, const std::string& options) {
  return builtin_catalog().transforms.at(type)(stage_from("transform", type, options));
}

struct Row {
  std::string name;
  std::function<void(std::uint64_t sample)> work;
  std::int64_t samples = 0;
  std::vector<double> seconds;
};

/// Does the loader's work for each sample: runs the transforms through a thread's buffers into the
/// slot.
void chain(const Transforms& transforms, ImageView image, std::uint64_t sample,
           ImageTarget target) {
  static std::vector<std::uint8_t> between[2];
  for (std::size_t op = 0; op < transforms.size(); ++op) {
    ImageTarget out = op + 1 == transforms.size() ? target : ImageTarget(between[op % 2]);
    CounterRng rng(1, 0, sample, static_cast<std::uint16_t>(op));
    transforms[op]->apply(image, out, rng);
    image = out.view();
  }
}

void measure(const ImageShape& shape, const std::vector<std::pair<std::string, Transforms>>& lists,
             std::int64_t samples) {
  std::vector<std::uint8_t> images(shape.bytes() * kSet);
  for (std::size_t i = 0; i < images.size(); ++i)
    images[i] = static_cast<std::uint8_t>(i * 31 >> 3);
  std::vector<std::byte> slot(shape.bytes());
  const auto image = [&](std::uint64_t sample) {
    return ImageView(images.data() + sample % kSet * shape.bytes(), shape);
  };
  std::vector<Row> rows;
  rows.push_back({"copy",
                  [&](std::uint64_t n) { std::memcpy(slot.data(), image(n).pixels, slot.size()); },
                  samples,
                  {}});
  for (const MirrorKernels& kernels : mirror_kernels()) {
    rows.push_back({fmt::format("mirror, {}", kernels.name),
                    [&shape, &slot, image,
                     mirror = shape.channels == 3 ? kernels.three : kernels.one](std::uint64_t n) {
                      const ImageView from = image(n);
                      auto* to = reinterpret_cast<std::uint8_t*>(slot.data());
                      for (std::int64_t y = 0; y < shape.height; ++y, to += from.row_bytes()) {
                        mirror(from.row(y), shape.width, to);
                      }
                    },
                    samples,
                    {}});
  }
  for (const auto& [name, transforms] : lists) {
    rows.push_back({name,
                    [&slot, &shape, image, &transforms](std::uint64_t n) {
                      chain(transforms, image(n), n, ImageTarget(slot, shape));
                    },
                    samples,
                    {}});
  }
  for (int round = 0; round < kRounds; ++round) {
    for (Row& row : rows) {
      const double start = steady_clock().now();
      for (std::int64_t n = 0; n < row.samples; ++n) row.work(static_cast<std::uint64_t>(n));
      row.seconds.push_back((steady_clock().now() - start) / static_cast<double>(row.samples));
    }
  }
  fmt::print("{}x{}x{}\n", shape.height, shape.width, shape.channels);
  const double copy = median(rows[0].seconds);
  for (const Row& row : rows) {
    const double middle = median(row.seconds);
    fmt::print("  {:<44} {:>10.0f} ns {:>8.1f} copies\n", row.name, middle * 1e9, middle / copy);
  }
}

}  // namespace

int main() {
  const auto flip = transform("random_horizontal_flip", "{}");
  measure({32, 32, 3},
          {{"random_crop 32, padding 4", {transform("random_crop", "{size: 32, padding: 4}")}},
           {"random_horizontal_flip", {flip}},
           {"random_crop 32, padding 4; flip",
            {transform("random_crop", "{size: 32, padding: 4}"), flip}},
           {"trivial_augment_wide", {transform("trivial_augment_wide", "{}")}}},
          1'000);
  measure(
      {224, 224, 3},
      {{"random_horizontal_flip", {flip}},
       {"color_jitter 0.4 0.4 0.4",
        {transform("color_jitter", "{brightness: 0.4, contrast: 0.4, saturation: 0.4}")}},
       {"color_jitter 0.4 0.4 0.4, hue 0.1",
        {transform("color_jitter", "{brightness: 0.4, contrast: 0.4, saturation: 0.4, hue: 0.1}")}},
       {"gaussian_blur 23", {transform("gaussian_blur", "{kernel_size: 23}")}},
       {"random_rotation 15, nearest", {transform("random_rotation", "{degrees: 15}")}},
       {"random_rotation 15, bilinear",
        {transform("random_rotation", "{degrees: 15, interpolation: bilinear}")}},
       {"rand_augment", {transform("rand_augment", "{}")}},
       {"random_erasing", {transform("random_erasing", "{p: 1}")}}},
      40);
}
