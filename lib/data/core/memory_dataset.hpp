#pragma once

#include "data/core/dataset.hpp"
#include "data/loader/host_memory.hpp"

namespace trainctl::data {

/// Labeled uint8 images of one shape, in memory. Layout: image u8 HWC, label i64.
class MemoryDataset final : public Dataset, public ImageStore {
 public:
  /// `images` holds facts.samples contiguous images, `labels` one class below facts.classes for
  /// each.
  MemoryDataset(Facts facts, Arena images, std::vector<std::uint8_t> labels);

  /// Returns the facts of such a data set.
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
  void prefetch(std::int64_t index) const override;

 private:
  Facts facts_;
  ImageShape image_;
  Arena images_;
  std::vector<std::uint8_t> labels_;
};

/// Reserves memory for facts.samples images. Throws Error(resource) when that takes more than half
/// of the available memory.
Arena image_memory(const Facts& facts);

/// One field of all samples as a row-major matrix, in memory or in a mapped file that `owner` keeps
/// open.
struct FieldRows {
  Field field;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  bool mapped = false;
};

/// Returns rows of `field` that own their memory: bytes or floats.
template <class T>
FieldRows owned_rows(Field field, std::vector<T> values);

/// A data set of plain rows, where a batch is one gather per field. An image must be the first
/// field.
class RowsDataset final : public Dataset, public ImageStore {
 public:
  /// All fields must have the same number of rows, at least one.
  RowsDataset(std::vector<FieldRows> fields, std::int64_t classes,
              std::vector<std::string> class_names = {});

  [[nodiscard]] std::int64_t size() const override { return samples_; }
  [[nodiscard]] const Layout& layout() const override { return layout_; }
  [[nodiscard]] std::int64_t classes() const override { return classes_; }
  [[nodiscard]] std::vector<std::string> class_names() const override { return class_names_; }
  [[nodiscard]] Footprint footprint() const override;
  void fill(std::span<const std::int64_t> indices, Rows rows) const override;
  [[nodiscard]] const ImageStore* images() const override {
    return layout_[0].name == "image" ? this : nullptr;
  }
  [[nodiscard]] std::string fingerprint() const override;

  [[nodiscard]] StoredImage read(std::int64_t index,
                                 std::vector<std::byte>& scratch) const override;

 private:
  std::vector<FieldRows> fields_;
  Layout layout_;
  std::int64_t samples_;
  std::int64_t classes_;
  std::vector<std::string> class_names_;
};

}  // namespace trainctl::data
