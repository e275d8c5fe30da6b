#include "data/transform/gaussian_blur.hpp"

#include "base/error.hpp"
#include "base/random.hpp"
#include "data/core/registry.hpp"
#include "data/image/pixel_math.hpp"
#include "data/transform/parameters.hpp"
#include "spec/options/transform.hpp"

namespace trainctl::data {
namespace {

constexpr std::size_t kMostTaps = 511;

/// Draws sigma.
class GaussianBlur final : public Transform {
 public:
  explicit GaussianBlur(const spec::transform::GaussianBlur& options) {
    const std::vector<int>& size = options.kernel_size.values;
    const std::vector<double>& sigma = options.sigma.values;
    ENSURE(config, size.size() == 1 || size.size() == 2,
           "kernel_size must be one number or [width, height], got {} values", size.size());
    ENSURE(config, sigma.size() == 1 || sigma.size() == 2,
           "sigma must be one number or [smallest, largest], got {} values", sigma.size());
    across_ = static_cast<std::size_t>(size.front());
    down_ = static_cast<std::size_t>(size.back());
    ENSURE(config, across_ % 2 == 1 && down_ % 2 == 1, "kernel_size must be odd, got {}x{}",
           across_, down_);
    low_ = sigma.front();
    high_ = sigma.back();
    ENSURE(config, low_ <= high_, "sigma must be [smallest, largest], got [{}, {}]", low_, high_);
  }

  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    if (input.fixed()) check<ErrorKind::config>(input);
    return input;
  }

  [[nodiscard]] bool random() const override { return low_ != high_; }

  [[nodiscard]] std::uint64_t scratch_bytes(const ImageShape& input) const override {
    return gaussian_blur_bytes(input, across_, down_);
  }

  void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const override {
    check<ErrorKind::data>(input.shape);
    thread_local std::vector<float> scratch;
    std::array<float, kMostTaps> across;
    std::array<float, kMostTaps> down;
    const double sigma = draw_between(rng, low_, high_);
    gaussian_weights(sigma, std::span(across).first(across_));
    gaussian_weights(sigma, std::span(down).first(down_));
    gaussian_blur(input, std::span(across).first(across_), std::span(down).first(down_), scratch,
                  output);
  }

 private:
  template <ErrorKind kind>
  void check(const ImageShape& image) const {
    const auto width = static_cast<std::int64_t>(across_) / 2;
    const auto height = static_cast<std::int64_t>(down_) / 2;
    if (width < image.width && height < image.height) return;
    throw Error(
        kind,
        fmt::format("a kernel of {}x{} pixels is too large for an image of {}x{}: half of the "
                    "kernel must fit\nhint: set a smaller kernel_size, or resize first",
                    across_, down_, image.width, image.height));
  }

  std::size_t across_ = 1;
  std::size_t down_ = 1;
  double low_ = 0;
  double high_ = 0;
};

}  // namespace

void register_transform_gaussian_blur(Catalog& catalog) {
  catalog.transforms["gaussian_blur"] = maker<GaussianBlur, spec::transform::GaussianBlur>();
}

namespace {

std::int64_t mirrored(std::int64_t at, std::int64_t extent) {
  if (at < 0) return -at;
  return at < extent ? at : 2 * (extent - 1) - at;
}

/// Converts a row to float, with `radius` mirrored pixels on each side.
void widen_row(const std::uint8_t* from, const ImageShape& shape, std::int64_t radius, float* to) {
  const std::int64_t channels = shape.channels;
  for (std::int64_t x = -radius; x < shape.width + radius; ++x) {
    const std::uint8_t* pixel = from + mirrored(x, shape.width) * channels;
    for (std::int64_t c = 0; c < channels; ++c) *to++ = static_cast<float>(pixel[c]);
  }
}

/// Computes sums += weight * from. The caller fixes the order of additions, so results are
/// bit-identical everywhere.
void add_scaled(const float* __restrict from, float weight, float* __restrict sums,
                std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sums[i] += weight * from[i];
}

/// Computes the sum over k of `row_of(k)` times weight k.
template <class RowOf>
void weighted_sum(std::span<const float> weights, std::int64_t count, float* sums, RowOf&& row_of) {
  std::fill_n(sums, count, 0.0F);
  for (std::int64_t k = 0; k < std::ssize(weights); ++k)
    add_scaled(row_of(k), weights[static_cast<std::size_t>(k)], sums, count);
}

}  // namespace

void gaussian_weights(double sigma, std::span<float> weights) {
  const double middle = (static_cast<double>(weights.size()) - 1) / 2;
  const auto height = [&](std::size_t i) {
    const double distance = (static_cast<double>(i) - middle) / sigma;
    return portable_exp(-0.5 * distance * distance);
  };
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) sum += height(i);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(height(i) / sum);
}

std::uint64_t gaussian_blur_bytes(const ImageShape& shape, std::size_t taps_across,
                                  std::size_t taps_down) {
  const auto channels = static_cast<std::uint64_t>(shape.channels);
  const std::uint64_t row = static_cast<std::uint64_t>(shape.width) * channels;
  return sizeof(float) * (row * (taps_down + 2) + taps_across * channels);
}

void gaussian_blur(const ImageView& input, std::span<const float> across,
                   std::span<const float> down, std::vector<float>& scratch, ImageTarget& output) {
  const auto [height, width, channels] = input.shape;
  const std::int64_t radius = std::ssize(across) / 2;
  const std::int64_t reach = std::ssize(down) / 2;
  ASSERT(radius < width && reach < height);
  const std::int64_t row = width * channels;
  const std::int64_t wide = row + 2 * radius * channels;
  const std::int64_t kept = std::ssize(down);  // horizontally blurred rows in the buffer
  scratch.resize(static_cast<std::size_t>(wide + (kept + 1) * row));
  float* const widened = scratch.data();
  float* const sums = widened + wide;
  float* const rows = sums + row;
  const auto smooth_row = [&](std::int64_t y) { return rows + y % kept * row; };
  output.resize(input.shape);
  std::int64_t next = 0;
  for (std::int64_t y = 0; y < height; ++y) {
    for (; next <= std::min(y + reach, height - 1); ++next) {
      widen_row(input.row(next), input.shape, radius, widened);
      weighted_sum(across, row, smooth_row(next),
                   [&](std::int64_t k) { return widened + k * channels; });
    }
    weighted_sum(down, row, sums,
                 [&](std::int64_t k) { return smooth_row(mirrored(y + k - reach, height)); });
    std::uint8_t* to = output.row(y);
    for (std::int64_t i = 0; i < row; ++i) {
      to[i] = static_cast<std::uint8_t>(std::clamp(round_half_even(sums[i]), 0.0F, 255.0F));
    }
  }
}

}  // namespace trainctl::data
