#include "spec/experiment/split.hpp"

#include "config/wording.hpp"
#include "spec/checks/checks.hpp"
#include "spec/options/dataset.hpp"
#include "spec/plugins.hpp"

#include <fmt/format.h>

namespace trainctl::spec {
namespace {

/// Changes the options of the stage if they are of this type.
template <class Options, class Change>
void change_options(config::Stage& stage, const Change& change) {
  if (stage.get_if<Options>() == nullptr) return;
  auto options = std::make_shared<Options>(stage.as<Options>());
  change(*options);
  stage.options = std::move(options);
}

/// Passes the split to the data set: tables compute statistics from the training rows only, and the
/// column of groups is not a feature.
config::Stage with_split(config::Stage stage, const SplitOptions& split) {
  const auto set_split = [&](dataset::Table& table) { table.split = split; };
  const auto set_group = [&](dataset::ImageList& list) { list.group_by = split.group_by; };
  change_options<dataset::Csv>(stage, set_split);
  change_options<dataset::Parquet>(stage, set_split);
  change_options<dataset::ImageList>(stage, set_group);
  return stage;
}

/// Returns false and reports an error if the keys of a cross-validation do not fit together.
bool check_folds(Checker& checker, const SplitOptions& split) {
  if (split.folds && split.val > 0) {
    checker.error("dataset.split.val", "with 'folds', one of the folds is val, so 'val' must be 0",
                  "remove 'val', or remove 'folds' and 'fold'");
    return false;
  }
  if (split.fold < split.folds.value_or(1)) return true;
  checker.error("dataset.split.fold",
                split.folds
                    ? fmt::format("dataset.split.fold must be below 'folds', got {} of {}",
                                  split.fold, *split.folds)
                    : fmt::format("dataset.split.fold is {}, but 'folds' is not set", split.fold),
                split.folds ? fmt::format("folds are numbered from 0 to {}", *split.folds - 1)
                            : "set 'folds' to the number of folds, or remove 'fold'");
  return false;
}

/// Returns false and reports an error if train, or both val and test, would get no samples.
bool check_shares(Checker& checker, const SplitOptions& split) {
  if (!check_folds(checker, split)) return false;
  if (split.val + split.test >= 1) {
    checker.error("dataset.split",
                  fmt::format("the fractions of val and test must sum to less than 1, got {}",
                              split.val + split.test),
                  "the rest is for train; write, for example, split: {val: 0.2, test: 0.1}");
    return false;
  }
  if (split.folds || split.val + split.test > 0) return true;
  checker.error("dataset.split", "dataset.split must set val or test to a fraction above 0",
                "write, for example, split: {val: 0.2}");
  return false;
}

/// Reports a split that has transforms in the file, but no data set.
void report_missing_type(Checker& checker, const std::string& path) {
  const auto names = vocabulary_in_use().names("dataset");
  const std::string type =
      fmt::format("add 'type: {}'; one of: {}", names.front(), config::list_some(names));
  const bool is_train = path == "dataset.train";
  checker.error(path, path + " has no 'type'",
                is_train
                    ? type
                    : fmt::format("to use a part of dataset.train, add 'split: {{{}: 0.2}}' to "
                                  "dataset; otherwise {}",
                                  path.substr(path.rfind('.') + 1), type));
}

/// Gives `split` its part of the training data set.
void take_part(Checker& checker, std::optional<DataSplit>& split, const PartOfSet& part) {
  const std::string name = enum_name(part.part);
  const std::string path = "dataset." + name;
  const Dataset& data = checker.experiment().dataset;
  if (split && split->dataset) {
    const std::string key = part.part == Part::val && part.options.folds ? "folds" : name;
    return checker.error(
        path,
        fmt::format("{} must not name a data set: dataset.split.{} takes its samples from "
                    "dataset.train",
                    path, key),
        fmt::format("remove 'split.{}'{}, or remove all keys except 'transforms' here", key,
                    key == "folds" ? " (set by sweep --folds)" : ""));
  }
  // `val: ~` reserves samples that no validation uses.
  const config::Node* written = checker.find(path);
  if (written != nullptr && written->is_null()) return;
  PartOfSet own = part;
  if (!split) {
    own.copies_transforms = !data.val;
    split = DataSplit{{}, data.val ? data.val->transforms : data.train.transforms};
  }
  split->dataset = data.train.dataset;
  split->part = std::move(own);
}

}  // namespace

void apply_split(Experiment& experiment, const config::Node& tree,
                 config::Diagnostics& diagnostics) {
  Checker checker(experiment, tree, diagnostics);
  Dataset& data = experiment.dataset;
  const bool reads_split = checker.is_valid("dataset.split");
  if (data.split && reads_split && data.train.dataset && check_shares(checker, *data.split)) {
    const config::Node* written = checker.find("dataset.split");
    PartOfSet part{.options = *data.split};
    if (written != nullptr) part.position = written->position;
    data.train.dataset = with_split(data.train.dataset, *data.split);
    data.train.part = part;
    part.part = Part::val;
    const bool has_val = data.split->share(Part::val) > 0;
    if (has_val) take_part(checker, data.val, part);
    part.part = Part::test;
    // A test split that the file does not name has the transforms of val. If `val: ~` means that
    // there is no val, there is no such test split either.
    const bool left_out = has_val && !data.val && !data.test;
    if (data.split->test > 0 && !left_out) take_part(checker, data.test, part);
  }
  const auto check = [&](const char* path, const config::Stage& stage, Part part) {
    const config::Node* written = checker.find(path);
    const bool takes = part != Part::train && data.split && data.split->share(part) > 0;
    if (!stage && !takes && reads_split && written != nullptr &&
        written->type == config::Node::Type::map && checker.is_valid(path))
      report_missing_type(checker, path);
  };
  check("dataset.train", data.train.dataset, Part::train);
  if (data.val) check("dataset.val", data.val->dataset, Part::val);
  if (data.test) check("dataset.test", data.test->dataset, Part::test);
}

void remove_applied_split(config::Node& tree, const Experiment& experiment) {
  const auto remove = [&](const char* key, const std::optional<DataSplit>& split) {
    config::Node* dataset = config::child(tree, "dataset");
    config::Node* written = dataset == nullptr ? nullptr : config::child(*dataset, key);
    if (!split || !split->part || written == nullptr) return;
    std::erase_if(written->entries,
                  [](const config::Entry& entry) { return entry.key != "transforms"; });
  };
  remove("val", experiment.dataset.val);
  remove("test", experiment.dataset.test);
}

}  // namespace trainctl::spec
