#include "data/loader/sampling.hpp"

#include "base/error.hpp"
#include "data/core/partition.hpp"

#include <algorithm>
#include <numeric>

namespace trainctl::data {

namespace {

const Field kLabel{"label", Dtype::i64, {}};

std::vector<std::int64_t> class_labels(const Dataset& dataset) {
  const Layout& layout = dataset.layout();
  ENSURE(
      config,
      dataset.classes() > 0 && std::find(layout.begin(), layout.end(), kLabel) != layout.end(),
      "loader.sampler needs class labels, but the data set has none\nhint: remove loader.sampler");
  std::vector<std::int64_t> labels = read_labels(dataset);
  for (const std::int64_t found : labels) {
    ENSURE(data, found >= 0 && found < dataset.classes(),
           "a sample has the label {}, but the data set has {} classes", found, dataset.classes());
  }
  return labels;
}

}  // namespace

std::vector<std::int64_t> read_labels(const Dataset& dataset) {
  constexpr std::int64_t kBlock = 4096;
  const Layout& layout = dataset.layout();
  const auto label = std::find(layout.begin(), layout.end(), kLabel);
  ASSERT(label != layout.end());
  std::vector<std::int64_t> labels(static_cast<std::size_t>(dataset.size()));
  std::vector<std::span<std::byte>> rows(layout.size());
  std::vector<std::int64_t> indices;
  for (std::int64_t first = 0; first < dataset.size(); first += kBlock) {
    indices.resize(static_cast<std::size_t>(std::min(kBlock, dataset.size() - first)));
    std::iota(indices.begin(), indices.end(), first);
    rows[static_cast<std::size_t>(label - layout.begin())] = std::as_writable_bytes(
        std::span(labels).subspan(static_cast<std::size_t>(first), indices.size()));
    dataset.fill(indices, rows);
  }
  return labels;
}

ClassSampler::ClassSampler(const Dataset& dataset, const ClassSampling& options)
    : size_(options.num_samples.value_or(dataset.size())),
      ends_(static_cast<std::size_t>(dataset.classes())) {
  const std::vector<std::int64_t> labels = class_labels(dataset);
  for (const std::int64_t label : labels) ++ends_[static_cast<std::size_t>(label)];
  std::vector<std::uint32_t> next(ends_.size());
  std::exclusive_scan(ends_.begin(), ends_.end(), next.begin(), std::uint32_t{0});
  std::inclusive_scan(ends_.begin(), ends_.end(), ends_.begin());
  members_.resize(labels.size());
  for (std::size_t sample = 0; sample < labels.size(); ++sample) {
    members_[next[static_cast<std::size_t>(labels[sample])]++] = static_cast<std::uint32_t>(sample);
  }
  weigh(options.weights);
}

void ClassSampler::weigh(const std::vector<double>& weights) {
  ENSURE(
      config, weights.empty() || weights.size() == ends_.size(),
      "loader.sampler has {} weights, but the data has {} classes\nhint: set one weight per class",
      weights.size(), ends_.size());
  double sum = 0;
  std::uint32_t begin = 0;
  for (std::size_t label = 0; label < ends_.size(); begin = ends_[label++]) {
    const double members = ends_[label] - begin;
    if (members > 0) sum += weights.empty() ? 1 : weights[label] * members;
    cumulative_.push_back(sum);
  }
  ENSURE(config, sum > 0 && sum < std::numeric_limits<double>::infinity(),
         "loader.sampler.weights leave no sample to draw\nhint: set a weight above 0 for a class "
         "with samples");
}

Permutation ClassSampler::draw(std::uint64_t seed, std::int64_t epoch) const {
  Permutation order(static_cast<std::size_t>(size_));
  WordStream words(seed, epoch, EpochStream::sampling);
  // The first class with a cumulative share above the draw has a share above 0. If the draw is
  // rounded up to the total, the last such class is used.
  const auto last = std::lower_bound(cumulative_.begin(), cumulative_.end(), cumulative_.back());
  for (std::uint32_t& sample : order) {
    const auto found =
        std::upper_bound(cumulative_.begin(), last, words.uniform() * cumulative_.back());
    const auto label = static_cast<std::size_t>(found - cumulative_.begin());
    const std::uint32_t begin = label == 0 ? 0 : ends_[label - 1];
    sample = members_[begin + words.below(ends_[label] - begin)];
  }
  return order;
}

MixtureSampler::MixtureSampler(const Mixture& mixture) : members_(mixture.weights.size()) {
  for (std::size_t sample = 0; sample < mixture.groups.size(); ++sample)
    members_.at(mixture.groups[sample]).push_back(static_cast<std::uint32_t>(sample));
  PartitionRequest request{.samples = std::ssize(mixture.groups)};
  double sum = 0;
  for (std::size_t group = 0; group < members_.size(); ++group)
    sum += members_[group].empty() ? 0 : mixture.weights[group];
  ENSURE(config, sum > 0, "only sources without samples have 'weights' above 0");
  for (std::size_t group = 0; group < members_.size(); ++group) {
    request.shares.push_back(members_[group].empty() ? 0 : mixture.weights[group] / sum);
    request.part_names.push_back(fmt::format("sources.{}", group));
  }
  counts_ = part_sizes(request);
}

Permutation MixtureSampler::draw(std::uint64_t seed, std::int64_t epoch) const {
  Permutation order;
  WordStream words(seed, epoch, EpochStream::sampling);
  for (std::size_t group = 0; group < members_.size(); ++group) {
    Permutation members = members_[group];
    for (std::int64_t left = counts_[group]; left > 0; left -= std::ssize(members)) {
      shuffle_with(members, words);
      order.insert(order.end(), members.begin(),
                   members.begin() + std::min(left, std::ssize(members)));
    }
  }
  shuffle_with(order, words);
  return order;
}

}  // namespace trainctl::data
