#pragma once

#include "base/error.hpp"
#include "data/loader/loader.hpp"

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace trainctl::data::testing {

/// Images of 4x4 pixels; pixel k of sample i is (7 i + k) mod 256, and its label is i.
class CountingDataset : public Dataset, public ImageStore {
 public:
  explicit CountingDataset(std::int64_t size) : size_(size) {}

  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] const Layout& layout() const override { return layout_; }
  [[nodiscard]] std::int64_t classes() const override { return 0; }
  void fill(std::span<const std::int64_t> indices, Rows rows) const override {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (before) before(indices[i]);
      if (!rows[0].empty()) draw(indices[i], rows[0].subspan(i * 16, 16));
      std::memcpy(rows[1].data() + i * 8, &indices[i], 8);
    }
  }
  [[nodiscard]] std::string fingerprint() const override { return "counting"; }

  [[nodiscard]] const ImageStore* images() const override { return this; }
  [[nodiscard]] StoredImage read(std::int64_t index,
                                 std::vector<std::byte>& scratch) const override {
    scratch.resize(16);
    draw(index, scratch);
    return {scratch, {4, 4, 1}};
  }
  [[nodiscard]] std::string name(std::int64_t index) const override {
    return "sample " + std::to_string(index);
  }

  std::function<void(std::int64_t)> before;  // called for each sample; may throw or block

 private:
  static void draw(std::int64_t index, std::span<std::byte> pixels) {
    for (std::size_t k = 0; k < pixels.size(); ++k) {
      pixels[k] = static_cast<std::byte>((7 * static_cast<std::size_t>(index) + k) & 255);
    }
  }

  std::int64_t size_;
  Layout layout_{{"image", Dtype::u8, {4, 4, 1}}, {"label", Dtype::i64, {}}};
};

inline Pipeline counting(std::int64_t size) {
  return {std::make_shared<CountingDataset>(size), {}, {}};
}

/// The same images with class labels.
class ClassedDataset final : public CountingDataset {
 public:
  ClassedDataset(std::int64_t size, std::function<std::int64_t(std::int64_t)> label,
                 std::int64_t classes)
      : CountingDataset(size), label_(std::move(label)), classes_(classes) {}

  [[nodiscard]] std::int64_t classes() const override { return classes_; }
  void fill(std::span<const std::int64_t> indices, Rows rows) const override {
    CountingDataset::fill(indices, rows);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const std::int64_t label = label_(indices[i]);
      std::memcpy(rows[1].data() + i * 8, &label, 8);
    }
  }

 private:
  std::function<std::int64_t(std::int64_t)> label_;
  std::int64_t classes_;
};

/// Sample i has the class i mod `classes`.
inline Pipeline classed(std::int64_t size, std::int64_t classes) {
  return {std::make_shared<ClassedDataset>(
              size, [classes](std::int64_t index) { return index % classes; }, classes),
          {},
          {}};
}

inline std::vector<std::int64_t> labels_of(const Batch& batch) {
  std::vector<std::int64_t> labels(static_cast<std::size_t>(batch.rows));
  std::memcpy(labels.data(), batch.fields[1].data(), labels.size() * 8);
  return labels;
}

/// A copy of a batch and its bytes for comparisons.
struct Copy {
  std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t> numbers;
  std::vector<std::vector<std::byte>> fields;
  bool operator==(const Copy&) const = default;

  explicit Copy(const Batch& batch)
      : numbers(batch.epoch, batch.index, batch.rows, batch.valid, batch.global_valid) {
    for (const auto field : batch.fields) fields.emplace_back(field.begin(), field.end());
  }
};

inline std::vector<Copy> read_epoch(Loader& loader, std::int64_t epoch) {
  std::vector<Copy> batches;
  loader.start_epoch(epoch);
  while (const Batch* batch = loader.next()) batches.emplace_back(*batch);
  return batches;
}

/// Returns the message of the Error that `body` throws, after its exit code: "9: ...". Empty
/// without an error.
inline std::string failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return std::to_string(error.exit_code()) + ": " + error.what();
  }
  return {};
}

}  // namespace trainctl::data::testing
