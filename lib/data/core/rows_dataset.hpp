#pragma once

#include "data/core/dataset.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace trainctl::data {

/// One field of all samples: the rows of a row-major matrix, in memory or in a mapped file, which
/// `owner` keeps alive.
struct FieldRows {
  Field field;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  bool mapped = false;
};

/// Rows that take part in `field` from memory that is taken over.
FieldRows owned_rows(Field field, std::vector<std::byte> bytes);
FieldRows owned_rows(Field field, std::vector<float> values);

/// A data set of plain rows: a batch is one gather per field. Any layout; if there is an image, it
/// is the first field.
class RowsDataset final : public Dataset, public ImageStore {
 public:
  /// Every field holds the same number of rows, at least one.
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
  [[nodiscard]] std::string name(std::int64_t index) const override;

 private:
  std::vector<FieldRows> fields_;
  Layout layout_;
  std::int64_t samples_;
  std::int64_t classes_;
  std::vector<std::string> class_names_;
};

}  // namespace trainctl::data
