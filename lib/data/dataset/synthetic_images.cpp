#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/random.hpp"
#include "data/core/registry.hpp"
#include "spec/options/dataset.hpp"

#include <cstring>

namespace trainctl::data {
namespace {

using spec::dataset::SyntheticImages;

constexpr std::int64_t kTilePixels = 1 << 20;  // per work item of a thread: about a millisecond

Facts facts_of(const SyntheticImages& options) {
  const ImageShape shape{options.height, options.width, options.channels};
  return {options.samples, options.classes, {image_field(shape), {"label", Dtype::i64, {}}}};
}

class SyntheticImageDataset final : public Dataset, public ImageStore {
 public:
  explicit SyntheticImageDataset(const SyntheticImages& options)
      : options_(options), facts_(facts_of(options)), shape_(image_shape(*facts_.image())) {}

  [[nodiscard]] std::int64_t size() const override { return facts_.samples; }
  [[nodiscard]] const Layout& layout() const override { return facts_.layout; }
  [[nodiscard]] std::int64_t classes() const override { return facts_.classes; }
  [[nodiscard]] const ImageStore* images() const override { return this; }
  [[nodiscard]] std::int64_t tile_rows() const override {
    return std::max<std::int64_t>(1, kTilePixels / static_cast<std::int64_t>(shape_.bytes()));
  }

  void fill(std::span<const std::int64_t> indices, Rows rows) const override {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (!rows[0].empty()) draw(indices[i], rows[0].subspan(i * shape_.bytes(), shape_.bytes()));
      const std::int64_t label = label_of(indices[i]);
      std::memcpy(rows[1].data() + i * sizeof label, &label, sizeof label);
    }
  }

  [[nodiscard]] StoredImage read(std::int64_t index,
                                 std::vector<std::byte>& scratch) const override {
    if (scratch.size() < shape_.bytes()) scratch.resize(shape_.bytes());
    const auto pixels = std::span(scratch).first(shape_.bytes());
    draw(index, pixels);
    return {pixels, shape_};
  }

  [[nodiscard]] std::string fingerprint() const override {
    Hasher hasher;
    for (const std::int64_t value :
         {shape_.height, shape_.width, shape_.channels, facts_.classes, facts_.samples}) {
      hasher.add(static_cast<std::uint64_t>(value));
    }
    hasher.add(options_.seed);
    hasher.add(static_cast<std::uint64_t>(options_.split));
    return hasher.hex();
  }

 private:
  /// Block 0 of a sample's counters holds its label, the other blocks its pixels.
  [[nodiscard]] PhiloxBlock block(std::int64_t index, std::uint32_t number) const {
    const auto sample = static_cast<std::uint64_t>(index);
    return philox(options_.seed,
                  {number, static_cast<std::uint32_t>(options_.split),
                   static_cast<std::uint32_t>(sample), static_cast<std::uint32_t>(sample >> 32U)});
  }

  [[nodiscard]] std::int64_t label_of(std::int64_t index) const {
    const PhiloxBlock bits = block(index, 0);
    return static_cast<std::int64_t>((std::uint64_t{bits[1]} << 32U | bits[0]) %
                                     static_cast<std::uint64_t>(facts_.classes));
  }

  void draw(std::int64_t index, std::span<std::byte> pixels) const {
    ASSERT(index >= 0 && index < facts_.samples);
    std::uint32_t number = 0;
    for (std::size_t at = 0; at < pixels.size(); at += sizeof(PhiloxBlock)) {
      const PhiloxBlock bits = block(index, ++number);
      std::memcpy(pixels.data() + at, bits.data(), std::min(sizeof bits, pixels.size() - at));
    }
  }

  SyntheticImages options_;
  Facts facts_;
  ImageShape shape_;
};

}  // namespace

void register_dataset_synthetic_images(Catalog& catalog) {
  catalog.datasets["synthetic_images"] = maker<SyntheticImageDataset, SyntheticImages>();
  catalog.facts["synthetic_images"] = [](const config::Stage& stage) {
    return facts_of(stage.as<SyntheticImages>());
  };
}

}  // namespace trainctl::data
