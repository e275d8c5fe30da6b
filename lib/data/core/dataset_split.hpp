#pragma once

#include "base/json.hpp"
#include "data/core/partition.hpp"
#include "data/core/registry.hpp"
#include "spec/experiment/experiment.hpp"

// Implements `dataset.split`, which divides one data set into train, val and test.

namespace trainctl::data {

/// Returns the samples of the split, which must have a part. The data set is opened once for all
/// parts. Throws Error(data), or Error(config) when it cannot be divided as `dataset.split`
/// requires.
std::shared_ptr<const Dataset> part_of_set(const spec::DataSplit& split, const Catalog& catalog);

/// Replaces the facts of the whole data set by the facts of the part. Opens the data set only when
/// classes or groups matter. Throws like part_of_set().
void keep_part(Facts& facts, const spec::DataSplit& split, const Catalog& catalog);

/// Returns the content of spec::kSplitFile: the settings, the number of samples of each part, and
/// the indices of the val and test samples in the whole data set. All other samples are in train.
Json split_document(const spec::DataSplit& train);

/// Returns a digest of which samples are in which part. It does not depend on the modification
/// times of image files.
std::string division_digest(const spec::DataSplit& train);

/// Collects the group of each sample, numbered by first appearance of its text in the column.
class GroupColumn {
 public:
  void add(std::string_view text);
  [[nodiscard]] std::size_t size() const { return groups_.size(); }
  [[nodiscard]] std::vector<std::uint32_t> take() { return std::move(groups_); }

 private:
  std::map<std::string, std::uint32_t, std::less<>> numbers_;
  std::vector<std::uint32_t> groups_;
};

/// Divides a data set by class labels and groups; either may be empty. Deterministic: the result
/// depends only on the arguments.
Parts divide(const spec::SplitOptions& options, std::int64_t samples,
             const std::vector<std::int64_t>& labels, const std::vector<std::uint32_t>& groups,
             const std::vector<std::string>& class_names);

/// Returns a view of some samples, in the order of `indices`. Throws Error(data) for an index out
/// of range.
std::shared_ptr<const Dataset> subset(std::shared_ptr<const Dataset> dataset,
                                      std::vector<std::int64_t> indices);

/// Returns a copy of the image with no side longer than `most`. Larger images are averaged over
/// whole blocks.
std::vector<std::uint8_t> shrunk(const ImageView& image, std::int64_t most, ImageShape& shape);

/// A split of images without labels, and the catalog that opens it. Every label is 0 and
/// meaningless.
struct Unlabeled {
  spec::DataSplit split;
  Catalog catalog;
};

/// `input` is a folder, searched recursively for image suffixes in the order of scan_pictures();
/// one image; or a list with one path per line, in its order, relative to the list's folder. Reads
/// nothing yet: opening the split throws Error(data) when there are no images, or Error(config)
/// when `input` does not exist.
Unlabeled unlabeled_split(const std::filesystem::path& input,
                          const std::vector<config::Stage>& transforms);

}  // namespace trainctl::data
