#pragma once

#include "data/core/dataset.hpp"
#include "data/loader/host_memory.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace trainctl::data {

/// Labelled uint8 images, all of one shape, in memory. Layout: image u8 HWC, label i64.
class MemoryDataset final : public Dataset, public ImageStore {
 public:
  /// `images` holds facts.samples images one behind the other; `labels` one class number each,
  /// below facts.classes.
  MemoryDataset(Facts facts, Arena images, std::vector<std::uint8_t> labels);

  /// The facts of such a data set.
  static Facts facts(std::int64_t samples, std::int64_t classes, const ImageShape& image);

  [[nodiscard]] std::int64_t size() const override { return facts_.samples; }
  [[nodiscard]] const Layout& layout() const override { return facts_.layout; }
  [[nodiscard]] std::int64_t classes() const override { return facts_.classes; }
  [[nodiscard]] bool in_memory() const override { return true; }
  [[nodiscard]] Footprint footprint() const override {
    return {images_.bytes().size() + labels_.size(), 0};
  }
  void fill(std::span<const std::int64_t> indices, Rows rows) const override;
  [[nodiscard]] const ImageStore* images() const override { return this; }
  [[nodiscard]] std::string fingerprint() const override;

  [[nodiscard]] StoredImage read(std::int64_t index,
                                 std::vector<std::byte>& scratch) const override;
  [[nodiscard]] std::string name(std::int64_t index) const override;
  void prefetch(std::int64_t index) const override;

 private:
  Facts facts_;
  ImageShape image_;
  Arena images_;
  std::vector<std::uint8_t> labels_;
};

/// Memory for facts.samples images. Throws Error(resource) where they would take more than half of
/// what is available.
Arena image_memory(const Facts& facts);

}  // namespace trainctl::data
