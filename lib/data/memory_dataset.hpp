#pragma once

#include "data/arena.hpp"
#include "data/dataset.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace trainctl::data {

/// What a data set holds, known from its headers alone.
struct Facts {
  std::int64_t samples = 0;
  std::int64_t classes = 0;
  Field image;  // {"image", u8, {height, width, channels}}
};

/// Labelled uint8 images, all of one shape, in memory. Layout: image u8 HWC, label i64.
class MemoryDataset final : public Dataset {
 public:
  /// `images` holds facts.samples images one behind the other; `labels` one class number each, below facts.classes.
  MemoryDataset(Facts facts, Arena images, std::vector<std::uint8_t> labels);

  [[nodiscard]] std::int64_t size() const override { return facts_.samples; }
  [[nodiscard]] const Layout& layout() const override { return layout_; }
  [[nodiscard]] std::int64_t classes() const override { return facts_.classes; }
  void fill(std::span<const std::int64_t> indices, Rows rows) const override;
  [[nodiscard]] std::string fingerprint() const override;

 private:
  Facts facts_;
  Layout layout_;
  Arena images_;
  std::vector<std::uint8_t> labels_;
};

/// Memory for facts.samples images. Throws Error(resource) where they would take more than half of what is available.
Arena image_memory(const Facts& facts);

}  // namespace trainctl::data
