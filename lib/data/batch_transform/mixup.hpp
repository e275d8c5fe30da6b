#pragma once

#include "base/random.hpp"
#include "data/core/transform.hpp"

#include <cstddef>
#include <span>

namespace trainctl::data {

/// The layout of mixed batches: `label_b`, the partner's label, and `lambda`, the share of the
/// row's own, are added. Throws Error(config) where samples have no image or no class as label, or
/// batches cannot be halved.
Layout mixed_layout(Layout layout, std::int64_t batch_size);

/// Applies batch transforms. Row i's partner is the row half a batch away: on any rank whose batch
/// is even that is the position half a global batch away, so the batches are the same however they
/// are split. A row whose partner is missing, in an epoch's last batch, stays as it is.
class Mixer {
 public:
  /// `offsets`: where in a slot the fields of `layout`, a mixed_layout(), begin.
  Mixer(std::vector<std::shared_ptr<const BatchTransform>> transforms, std::uint64_t seed,
        const Layout& layout, const std::vector<std::size_t>& offsets);

  /// How a batch is mixed, by one of the transforms, each with the same chance. Draws: which one;
  /// then its own.
  [[nodiscard]] Mix draw(std::int64_t epoch, std::int64_t batch) const;

  /// Rows of a slot: `first` ... `first + count - 1`, and their partners `half` rows below.
  struct Pairs {
    std::int64_t first = 0;
    std::int64_t count = 0;
    std::int64_t half = 0;
    std::int64_t rows = 0;   // in the batch
    std::int64_t valid = 0;  // of them
  };
  void mix(const Mix& mix, const Pairs& pairs, std::span<std::byte> slot) const;

 private:
  std::vector<std::shared_ptr<const BatchTransform>> transforms_;
  std::uint64_t seed_;
  ImageShape image_;
  std::size_t image_at_ = 0;
  std::size_t label_at_ = 0;
  std::size_t label_b_at_ = 0;
  std::size_t lambda_at_ = 0;
};

/// CutMix's box about a pixel: 1 - lambda of the image, less what is cut off at the border.
Box cutmix_box(double lambda, std::int64_t x, std::int64_t y, const ImageShape& image);

/// Mixes two images of one shape into each other, in place. Halves of a level are rounded up.
void mix_images(const Mix& mix, const ImageShape& image, std::uint8_t* one, std::uint8_t* other);

/// One draw of Beta(alpha, alpha) from two uniform numbers and a coin: the same bits everywhere.
double draw_beta(CounterRng& rng, double alpha);

}  // namespace trainctl::data
