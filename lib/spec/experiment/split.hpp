#pragma once

#include "config/diagnostics.hpp"
#include "config/schema/describe.hpp"
#include "config/tree/node.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

// The option `dataset.split`, which divides one data set into train, val and test.

namespace trainctl::spec {

struct Experiment;

/// The file in the run folder that lists the samples of each part.
inline constexpr const char* kSplitFile = "split.json";

enum class Part { train, val, test };
constexpr std::array<const char*, 3> enum_names(Part) { return {"train", "val", "test"}; }

struct SplitOptions {
  static constexpr auto kSummary =
      "Divides the data set of dataset.train into the disjoint parts train, val and test.";

  double val = 0;
  double test = 0;
  std::uint64_t seed = 0;
  bool stratify = false;
  std::optional<std::string> group_by;
  std::optional<std::int64_t> folds;
  std::int64_t fold = 0;

  /// Returns the share of each part in the order of `Part`; they sum to 1.
  [[nodiscard]] std::vector<double> shares() const {
    const double of_val = folds ? (1 - test) / static_cast<double>(*folds) : val;
    return {1 - of_val - test, of_val, test};
  }
  [[nodiscard]] double share(Part part) const { return shares()[static_cast<std::size_t>(part)]; }

  bool operator==(const SplitOptions&) const = default;
  static void describe(auto& options) {
    options.field("val", &SplitOptions::val, {.at_least = 0, .below = 1, .example = "0.2"},
                  "Fraction of the samples for validation. dataset.val may then set only "
                  "'transforms'; without them, it uses the transforms of dataset.train.");
    options.field("test", &SplitOptions::test, {.at_least = 0, .below = 1, .example = "0.1"},
                  "Fraction of the samples for the test split. dataset.test may then set only "
                  "'transforms'; without them, it uses the transforms of dataset.val.");
    options.field("seed", &SplitOptions::seed, {.at_least = 0},
                  "Seed of the split; independent of the run's seed, so runs with different seeds "
                  "have the same splits.");
    options.field("stratify", &SplitOptions::stratify,
                  "Keeps the class proportions equal in all parts (stratified split).");
    options.field("group_by", &SplitOptions::group_by, {.not_empty = true, .example = "patient"},
                  "Column of a table or list; rows with the same value, such as all images of one "
                  "patient, stay in one part. It is a feature only if 'features' lists it.");
    options.field(
        "folds", &SplitOptions::folds, {.at_least = 2, .at_most = 1000, .example = "5"},
        "Divides the samples outside test into equal folds for k-fold cross-validation: "
        "one fold is val, the others are train. Replaces 'val'; 'sweep --folds' sets it.");
    options.field("fold", &SplitOptions::fold, {.at_least = 0},
                  "With 'folds': the number of the fold that is val, from 0.");
  }
};

/// A data set that several parts read. It is opened once and kept while a part uses it.
struct SharedSource {
  std::mutex mutex;
  std::weak_ptr<const void> value;
};

/// The part of its data set that a split uses.
struct PartOfSet {
  Part part = Part::train;
  SplitOptions options;
  config::Position position;       // of dataset.split
  bool copies_transforms = false;  // of dataset.train: the file has none for this split
  std::shared_ptr<SharedSource> source = std::make_shared<SharedSource>();
};

/// Applies `dataset.split`: `val` and `test` get the data set of `train`, and all three get their
/// parts. Also reports a split without a data set. Problems go into `diagnostics`.
void apply_split(Experiment& experiment, const config::Node& tree,
                 config::Diagnostics& diagnostics);

/// Removes from the written tree of the experiment what apply_split() has added, so that reading
/// the tree gives the same experiment.
void remove_applied_split(config::Node& tree, const Experiment& experiment);

}  // namespace trainctl::spec
