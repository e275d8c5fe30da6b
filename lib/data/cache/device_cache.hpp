#pragma once

#include "data/cache/cached_dataset.hpp"
#include "data/cache/device_images.hpp"
#include "data/loader/loader.hpp"

#include <memory>
#include <string>

namespace trainctl::data {

/// A data set whose images lie on a device: it gives all but them. images() has those that the
/// device has not, for what is wrong with them.
class HeldDataset final : public Dataset, public ImageStore {
 public:
  explicit HeldDataset(std::shared_ptr<const Prefix> prefix);

  [[nodiscard]] std::int64_t size() const override { return source_->size(); }
  [[nodiscard]] const Layout& layout() const override { return layout_; }
  [[nodiscard]] std::int64_t classes() const override { return source_->classes(); }
  [[nodiscard]] std::vector<std::string> class_names() const override {
    return source_->class_names();
  }
  [[nodiscard]] bool in_memory() const override { return true; }
  void fill(std::span<const std::int64_t> indices, Rows rows) const override {
    source_->fill(indices, rows);
  }
  [[nodiscard]] const ImageStore* images() const override { return this; }
  [[nodiscard]] std::string fingerprint() const override { return source_->fingerprint(); }

  [[nodiscard]] StoredImage read(std::int64_t index,
                                 std::vector<std::byte>& scratch) const override {
    return prefix_->make(index, scratch);
  }
  [[nodiscard]] std::string name(std::int64_t index) const override {
    return source_->images()->name(index);
  }

 private:
  std::shared_ptr<const Prefix> prefix_;
  std::shared_ptr<const Dataset> source_;
  Layout layout_;
};

/// The pipeline with its images on the device: each is made once, in the order of the data set, by
/// `threads` threads; a damaged one is left to the loader. Only the random transforms are left.
/// Throws Error(config) where they cannot be planned, Error(resource) where the images do not fit.
Pipeline hold_images(Pipeline pipeline, const ImageDevice& device, const Progress& progress = {},
                     int threads = 1);

/// What the transforms behind the fixed prefix are to a device that keeps the images: plans.
struct PlannedTail {
  std::string obstacle;  // why they cannot be planned, and what to do; empty: they can
  PlanColors colors;
};

/// `shape`: of the images behind the fixed prefix.
PlannedTail planned_tail(const Pipeline& pipeline, const ImageShape& shape);

}  // namespace trainctl::data
