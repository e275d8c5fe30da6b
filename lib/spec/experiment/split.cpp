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

/// Returns false and reports an error if train, or both val and test, would get no samples.
bool check_shares(Checker& checker, const SplitOptions& split) {
  if (split.val + split.test >= 1) {
    checker.error("dataset.split",
                  fmt::format("the fractions of val and test must sum to less than 1, got {}",
                              split.val + split.test),
                  "the rest is for train; write, for example, split: {val: 0.2, test: 0.1}");
    return false;
  }
  if (split.val + split.test > 0) return true;
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
  if (split && split->dataset)
    return checker.error(
        path,
        fmt::format("{} must not name a data set: dataset.split.{} takes its samples from "
                    "dataset.train",
                    path, name),
        fmt::format("remove 'split.{}', or remove all keys except 'transforms' here", name));
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
    if (data.split->val > 0) take_part(checker, data.val, part);
    part.part = Part::test;
    // A test split that the file does not name has the transforms of val. If `val: ~` means that
    // there is no val, there is no such test split either.
    const bool left_out = data.split->val > 0 && !data.val && !data.test;
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
