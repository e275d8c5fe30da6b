#pragma once

#include "data/core/transform.hpp"

namespace trainctl::data {

/// Returns `layout` with two more fields for mixed batches: `label_b`, the partner's label, and
/// `lambda`, the weight of the row's original label. Throws Error(config) when samples have no
/// image or no class label, or when `batch_size` is odd.
Layout mixed_layout(Layout layout, std::int64_t batch_size);

/// Applies batch transforms. Row i is paired with the row half a batch away. On every rank with an
/// even batch size that row is half a global batch away, so batches do not depend on the number of
/// ranks. A row without a partner, in the last batch of an epoch, is not mixed.
class Mixer {
 public:
  /// `offsets`: the byte offset in a slot of each field of `layout`, which is a mixed_layout().
  Mixer(std::vector<std::shared_ptr<const BatchTransform>> transforms, std::uint64_t seed,
        const Layout& layout, const std::vector<std::size_t>& offsets);

  /// Picks one of the transforms with equal probability and draws how it mixes the batch. RNG
  /// order: the choice first, then the draws of the transform.
  [[nodiscard]] Mix draw(std::int64_t epoch, std::int64_t batch) const;

  /// Rows first ... first + count - 1 of a slot; the partner of each is `half` rows further.
  struct Pairs {
    std::int64_t first = 0;
    std::int64_t count = 0;
    std::int64_t half = 0;
    std::int64_t rows = 0;   // rows of the batch
    std::int64_t valid = 0;  // rows of the batch that are not padding
  };
  /// Mixes the images of those rows in place and sets their `label_b` and `lambda`.
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

/// Returns the CutMix box around pixel (x, y), which covers 1 - lambda of the image before it is
/// clipped at the border.
Box cutmix_box(double lambda, std::int64_t x, std::int64_t y, const ImageShape& image);

/// Mixes two images of the same shape in place. Values halfway between two levels are rounded up.
void mix_images(const Mix& mix, const ImageShape& image, std::uint8_t* one, std::uint8_t* other);

/// Returns one draw of Beta(alpha, alpha), made from two uniform numbers and a coin flip. The
/// result has the same bits on every machine.
double draw_beta(CounterRng& rng, double alpha);

}  // namespace trainctl::data
