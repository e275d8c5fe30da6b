#pragma once

#include "data/core/dataset.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::data {

/// Sample numbers in the order of one epoch: position -> sample.
using Permutation = std::vector<std::uint32_t>;

/// Draws with replacement, by the classes of the samples.
struct ClassSampling {
  std::vector<double> weights;  // of a sample, by its class; empty: every class is equally likely
  std::optional<std::int64_t> num_samples;  // of an epoch; absent: as many as the data set has
};

/// Draws the orders of such epochs. Holds 4 bytes for each sample.
class ClassSampler {
 public:
  /// Reads all labels. Throws Error(config) where the samples have no classes, the weights do not
  /// fit them, or there is nothing to draw.
  ClassSampler(const Dataset& dataset, const ClassSampling& options);

  /// Positions of an epoch.
  [[nodiscard]] std::int64_t size() const { return size_; }
  /// A pure function of seed and epoch, the same on every machine.
  [[nodiscard]] Permutation draw(std::uint64_t seed, std::int64_t epoch) const;

 private:
  void weigh(const std::vector<double>& weights);

  std::int64_t size_;
  std::vector<std::uint32_t> members_;  // the samples, class by class
  std::vector<std::uint32_t> ends_;     // of each class in members_
  std::vector<double> cumulative_;      // shares of the classes, summed up
};

/// The labels of all samples, read without their images. The layout must have a label that is one
/// number.
std::vector<std::int64_t> read_labels(const Dataset& dataset);

}  // namespace trainctl::data
