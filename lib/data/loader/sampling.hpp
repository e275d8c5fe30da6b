#pragma once

#include "base/random.hpp"
#include "data/core/dataset.hpp"

#include <optional>
#include <utility>

namespace trainctl::data {

/// The order of one epoch: position -> sample.
using Permutation = std::vector<std::uint32_t>;

/// Draws samples with replacement, weighted by class.
struct ClassSampling {
  std::vector<double>
      weights;  // weight of a sample by its class; empty: every class is equally likely
  std::optional<std::int64_t> num_samples;  // per epoch; default: the size of the data set
};

/// Draws epoch orders by class. Holds 4 bytes per sample.
class ClassSampler {
 public:
  /// Reads all labels. Throws Error(config) when the samples have no classes, the number of weights
  /// is wrong, or nothing can be drawn.
  ClassSampler(const Dataset& dataset, const ClassSampling& options);

  /// Positions per epoch.
  [[nodiscard]] std::int64_t size() const { return size_; }
  /// Draws the order of an epoch: a pure function of seed and epoch, the same on every machine.
  [[nodiscard]] Permutation draw(std::uint64_t seed, std::int64_t epoch) const;

 private:
  void weigh(const std::vector<double>& weights);

  std::int64_t size_;
  std::vector<std::uint32_t> members_;  // the samples, grouped by class
  std::vector<std::uint32_t> ends_;     // end of each class in members_
  std::vector<double> cumulative_;      // cumulative shares of the classes
};

/// Draws epoch orders with the proportions of a mixture. Holds 4 bytes per sample.
class MixtureSampler {
 public:
  /// Throws Error(config) when a group with a weight above 0 would get no position.
  explicit MixtureSampler(const Mixture& mixture);

  /// Draws the order of an epoch, with as many positions as there are samples. Each group has its
  /// share of the positions. No sample of a group is drawn twice before all others of the group
  /// were drawn. A pure function of seed and epoch, the same on every machine.
  [[nodiscard]] Permutation draw(std::uint64_t seed, std::int64_t epoch) const;

 private:
  std::vector<Permutation> members_;  // the samples of each group
  std::vector<std::int64_t> counts_;  // the positions of each group in an epoch
};

/// Reads the labels of all samples, without images; each label must be one number.
std::vector<std::int64_t> read_labels(const Dataset& dataset);

/// The purposes of draws for a whole epoch; each has a separate stream.
enum class EpochStream : std::uint32_t { shuffle = 0, sampling = 1, split = 2 };

/// The random words of one (seed, epoch, stream). The upper half of the counter is not a valid
/// sample position, so the words are independent of all draws for samples.
class WordStream {
 public:
  WordStream(std::uint64_t seed, std::int64_t epoch, EpochStream stream)
      : seed_(seed),
        counter_{0, static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(stream),
                 0xFFFFFFFF} {}

  /// Returns the next 32 random bits.
  std::uint32_t next() {
    if (used_ == kWords) {
      blocks_ = philox_blocks(seed_, counter_);
      counter_[0] += static_cast<std::uint32_t>(blocks_.size());
      used_ = 0;
    }
    const std::uint32_t word = used_++;
    return blocks_[word / 4][word % 4];
  }

  /// Returns an unbiased integer in [0, bound): Lemire, "Fast random integer generation in an
  /// interval", 2019.
  std::uint32_t below(std::uint32_t bound) {
    std::uint64_t product = std::uint64_t{next()} * bound;
    if (static_cast<std::uint32_t>(product) < bound) {
      const std::uint32_t threshold = (0 - bound) % bound;
      while (static_cast<std::uint32_t>(product) < threshold)
        product = std::uint64_t{next()} * bound;
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

  /// Returns a value in [0, 1) with 53 random bits.
  double uniform() {
    const std::uint64_t upper = next();
    return static_cast<double>(((upper << 32) | next()) >> 11) * 0x1.0p-53;
  }

 private:
  static constexpr std::uint32_t kWords = 4 * std::tuple_size_v<PhiloxBlocks>;

  std::uint64_t seed_;
  PhiloxBlock counter_;
  PhiloxBlocks blocks_{};
  std::uint32_t used_ = kWords;
};

/// Fisher-Yates shuffle with the same result on every machine.
template <class T>
void shuffle_with(std::vector<T>& values, WordStream& words) {
  for (auto left = static_cast<std::uint32_t>(values.size()); left > 1; --left)
    std::swap(values[left - 1], values[words.below(left)]);
}

}  // namespace trainctl::data
