#pragma once

#include "base/json.hpp"
#include "data/core/dataset.hpp"
#include "data/core/partition.hpp"
#include "data/core/registry.hpp"
#include "spec/experiment/experiment.hpp"

#include <string_view>
#include <utility>

// `dataset.split`: one data set, divided into train, val and test.

namespace trainctl::data {

/// The samples of the split, which has a part. The data set is opened once for all parts. Throws
/// Error(config) when it cannot be divided as `dataset.split` says, or Error(data).
std::shared_ptr<const Dataset> part_of_set(const spec::DataSplit& split, const Catalog& catalog);

/// Turns the facts of the whole data set into those of the part. Opens the data set only for
/// classes and groups. Throws as part_of_set().
void keep_part(Facts& facts, const spec::DataSplit& split, const Catalog& catalog);

/// What spec::kSplitFile holds: the settings, the number of samples of each part, and the samples
/// of val and test by their index in the whole data set; all others are in train.
Json split_document(const spec::DataSplit& train);

/// Digest of which samples are in which part. It does not depend on the times of image files.
std::string division_digest(const spec::DataSplit& train);

/// The group of each sample, numbered by first appearance, from the text of its column.
class GroupColumn {
 public:
  void add(std::string_view text);
  [[nodiscard]] std::size_t size() const { return groups_.size(); }
  [[nodiscard]] std::vector<std::uint32_t> take() { return std::move(groups_); }

 private:
  std::map<std::string, std::uint32_t, std::less<>> numbers_;
  std::vector<std::uint32_t> groups_;
};

/// The parts of a data set with those labels, each a class, and groups; either may be empty. The
/// same for the same arguments everywhere.
Parts divide(const spec::SplitOptions& options, std::int64_t samples,
             const std::vector<std::int64_t>& labels, const std::vector<std::uint32_t>& groups,
             const std::vector<std::string>& class_names);

/// Some samples of a data set, in the order of `indices`. Throws Error(data) where one is missing.
std::shared_ptr<const Dataset> subset(std::shared_ptr<const Dataset> dataset,
                                      std::vector<std::int64_t> indices);

/// A copy of an image, no side longer than `most`: means of whole blocks where it is larger.
std::vector<std::uint8_t> shrunk(const ImageView& image, std::int64_t most, ImageShape& shape);

}  // namespace trainctl::data
