#include "spec/experiment/split.hpp"

#include "config/tree/node.hpp"
#include "config/wording.hpp"
#include "spec/checks/checker.hpp"
#include "spec/dataset/image_files.hpp"
#include "spec/dataset/table.hpp"
#include "spec/plugins.hpp"

#include <fmt/format.h>

#include <utility>

namespace trainctl::spec {
namespace {

template <class Options, class Change>
config::Stage changed_options(config::Stage stage, const Change& change) {
  auto options = std::make_shared<Options>(stage.as<Options>());
  change(*options);
  stage.options = std::move(options);
  return stage;
}

/// Tables learn their statistics from the rows of train alone; a column of groups is no feature.
config::Stage with_split(const config::Stage& stage, const SplitOptions& split) {
  const auto set_split = [&](dataset::Table& table) { table.split = split; };
  const auto set_group = [&](dataset::ImageList& list) { list.group_by = split.group_by; };
  if (stage.options_type == typeid(dataset::Csv))
    return changed_options<dataset::Csv>(stage, set_split);
  if (stage.options_type == typeid(dataset::Parquet))
    return changed_options<dataset::Parquet>(stage, set_split);
  if (stage.options_type == typeid(dataset::ImageList))
    return changed_options<dataset::ImageList>(stage, set_group);
  return stage;
}

/// False, with an error, for shares that leave nothing to divide.
bool check_shares(Checker& checker, const SplitOptions& split) {
  if (split.val + split.test >= 1) {
    checker.error("dataset.split",
                  fmt::format("the shares of val and test must sum to less than 1, got {}",
                              split.val + split.test),
                  "train has what they leave; for example split: {val: 0.2, test: 0.1}");
    return false;
  }
  if (split.val + split.test > 0) return true;
  checker.error("dataset.split", "dataset.split must give val or test a share",
                "for example split: {val: 0.2}");
  return false;
}

/// A split that the file gives transforms, but no data set.
void report_missing_type(Checker& checker, const std::string& path) {
  const auto names = vocabulary_in_use().names("dataset");
  const std::string type =
      fmt::format("add 'type: {}'; one of: {}", names.front(), config::list_some(names));
  const bool is_train = path == "dataset.train";
  checker.error(path, "dataset has no 'type'",
                is_train ? type
                         : fmt::format("to take it from dataset.train, add 'split: {{{}: 0.2}}' to "
                                       "dataset; else {}",
                                       path.substr(path.rfind('.') + 1), type));
}

/// Gives `split` its part of the data set of train.
void take_part(Checker& checker, std::optional<DataSplit>& split, const PartOfSet& part) {
  const std::string name = enum_names(part.part)[static_cast<std::size_t>(part.part)];
  const std::string path = "dataset." + name;
  const Dataset& data = checker.experiment().dataset;
  if (split && split->dataset) {
    checker.error(
        path,
        fmt::format("{} must not name a data set: dataset.split.{} takes its samples from "
                    "dataset.train",
                    path, name),
        fmt::format("remove 'split.{}', or keep nothing but 'transforms' here", name));
    return;
  }
  // `val: ~` holds samples back that nobody looks at.
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

void SplitOptions::describe(config::Describe<SplitOptions>& options) {
  options
      .field("val", &SplitOptions::val,
             "Share of the samples for validation. dataset.val then has only 'transforms'; absent, "
             "it has those of dataset.train.")
      .at_least(0)
      .below(1)
      .example("0.2");
  options
      .field("test", &SplitOptions::test,
             "Share of the samples for the test. dataset.test then has only 'transforms'; absent, "
             "it has those of dataset.val.")
      .at_least(0)
      .below(1)
      .example("0.1");
  options
      .field("seed", &SplitOptions::seed,
             "Seed of the division; independent of the run's seed, so that runs with other seeds "
             "have the same parts.")
      .at_least(0);
  options.field("stratify", &SplitOptions::stratify,
                "Whether each part has the same share of every class.");
  options
      .field("group_by", &SplitOptions::group_by,
             "Column of a table or list: samples with the same value stay in one part, such as all "
             "images of a patient. It is not a feature, unless 'features' names it.")
      .not_empty()
      .example("patient");
}

void apply_split(Experiment& experiment, const config::Node& tree,
                 config::Diagnostics& diagnostics) {
  Checker checker(experiment, tree, diagnostics);
  Dataset& data = experiment.dataset;
  const bool reads_split = checker.sound("dataset.split");
  if (data.split && reads_split && data.train.dataset && check_shares(checker, *data.split)) {
    const config::Node* written = checker.find("dataset.split");
    PartOfSet part{.options = *data.split};
    if (written != nullptr) part.position = written->position;
    data.train.dataset = with_split(data.train.dataset, *data.split);
    data.train.part = part;
    part.part = Part::val;
    if (data.split->val > 0) take_part(checker, data.val, part);
    part.part = Part::test;
    // Without a val whose transforms it could have, a test that the file does not name is left out.
    const bool left_out = data.split->val > 0 && !data.val && !data.test;
    if (data.split->test > 0 && !left_out) take_part(checker, data.test, part);
  }
  const auto check = [&](const char* path, const config::Stage& stage, Part part) {
    const config::Node* written = checker.find(path);
    const bool takes = part != Part::train && data.split && data.split->share(part) > 0;
    if (!stage && !takes && reads_split && written != nullptr &&
        written->type == config::Node::Type::map && checker.sound(path))
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
