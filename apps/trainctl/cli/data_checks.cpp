#include "cli/data_checks.hpp"

#include "base/strings.hpp"
#include "base/url.hpp"
#include "data/core/batch.hpp"
#include "data/core/pipeline.hpp"
#include "data/remote/local_tier.hpp"
#include "log/log.hpp"
#include "spec/checks/checker.hpp"
#include "spec/checks/checks.hpp"
#include "spec/experiment/run_size.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::app {
namespace {

std::string described(const data::Facts& facts) {
  if (const data::Field* image = facts.image())
    return fmt::format("{}", fmt::join(image->shape, "x"));
  std::vector<std::string> fields;
  for (const data::Field& field : facts.layout) {
    fields.push_back(field.shape.empty()
                         ? fmt::format("{} (one number)", field.name)
                         : fmt::format("{} ({})", field.name, fmt::join(field.shape, "x")));
  }
  return fmt::format("{}", fmt::join(fields, ", "));
}

bool names_remote(const config::Node* node) {
  if (node == nullptr) return false;
  return is_remote(node->text) ||
         std::ranges::any_of(node->items,
                             [](const config::Node& item) { return names_remote(&item); }) ||
         std::ranges::any_of(node->entries,
                             [](const config::Entry& entry) { return names_remote(&entry.value); });
}

// A split as far as its part of the config could be read.
struct Look {
  std::optional<data::Facts> facts;
  bool shows_image = false;  // the facts tell the image as it leaves the transforms
};

struct Asking {
  Purpose purpose = Purpose::training;
  bool network = true;  // not on the word of a config that is wrong
};

Look look_at(const std::string& name, spec::DataSplit split, const Asking& asking,
             const spec::Checker& checker, config::Diagnostics& diagnostics) {
  if (!split.dataset || !checker.sound_beside(name, "transforms")) return {};
  if (!asking.network && names_remote(checker.find(name))) return {};
  Look look;
  const bool reads = asking.purpose == Purpose::reading;
  look.shows_image = !reads && checker.sound(name + ".transforms");
  if (!look.shows_image) split.transforms.clear();
  const data::SplitCheck check =
      reads ? data::check_dataset(split)
            : data::check_split(split, checker.experiment().dataset.cache.mode);
  for (const data::Problem& problem : check.problems) {
    diagnostics.add({.position = problem.position,
                     .message = with_prefix(name, problem.message),
                     .kind = problem.kind});
  }
  look.facts = check.facts;
  if (look.facts) {
    log::get().debug("{}: {} samples of {}, {} classes", name, look.facts->samples,
                     described(*look.facts), look.facts->classes);
  }
  look.shows_image = look.shows_image && check.problems.empty();
  return look;
}

struct Compared {
  std::string name;  // "dataset.val"
  config::Position position;
  Purpose purpose = Purpose::training;
};

// "its class 1 is 'b', that of dataset.train 'a'": the first name in which the two differ.
std::optional<std::string> difference(const char* what, const std::vector<std::string>& expected,
                                      const std::vector<std::string>& found) {
  const auto [mine, theirs] = std::ranges::mismatch(expected, found);
  if (mine == expected.end() || theirs == found.end()) return std::nullopt;
  return fmt::format("its {} {} is '{}', that of dataset.train '{}'", what, theirs - found.begin(),
                     printable(*theirs), printable(*mine));
}

std::string classes_of(const data::Facts& facts) {
  return fmt::format("{} class{}", facts.classes, facts.classes == 1 ? "" : "es");
}

const char* hint_for(const data::Facts& found, const data::Facts& expected, Purpose purpose) {
  if (!found.feature_names.empty())
    return "give both splits the same columns, and tell them their classes by "
           "'classes' or 'statistics_from'";
  if (purpose != Purpose::evaluating || !data::has_same_inputs(found.layout, expected.layout))
    return "";
  return "loss and metrics need the classes of dataset.train; 'trainctl predict' does without";
}

void compare(const Look& train, const Look& other, const Compared& compared,
             config::Diagnostics& diagnostics) {
  if (!train.shows_image || !other.shows_image) return;
  const data::Facts& expected = *train.facts;
  const data::Facts& found = *other.facts;
  const auto& [name, position, purpose] = compared;
  const bool predicts = purpose == Purpose::predicting;
  const bool fits = predicts ? data::has_same_inputs(found.layout, expected.layout)
                             : found.layout == expected.layout && found.classes == expected.classes;
  if (!fits) {
    diagnostics.error(position,
                      fmt::format("{}: its samples are {} with {}, those of dataset.train {} with "
                                  "{}",
                                  name, described(found), classes_of(found), described(expected),
                                  expected.classes),
                      hint_for(found, expected, purpose));
    return;
  }
  const auto other_class = difference("class", expected.class_names, found.class_names);
  if (other_class && !predicts) {
    diagnostics.error(position,
                      fmt::format("{}: {}; both need the same classes", name, *other_class));
  }
  if (const auto text = difference("feature", expected.feature_names, found.feature_names)) {
    diagnostics.error(position,
                      fmt::format("{}: {}; both need the same columns in one order", name, *text),
                      "list them under 'features' of both splits");
  }
}

/// What the samples are to model and loss. What is nothing to any is told.
std::optional<spec::SampleKind> kind_of(const data::Facts& facts, const config::Position& position,
                                        config::Diagnostics& diagnostics) {
  const std::optional<data::Roles> roles = data::find_roles(facts.layout);
  const bool unclassed = roles && roles->kind.targets == spec::Targets::classes && !facts.classes;
  if (roles && !unclassed) return roles->kind;
  diagnostics.error(
      position,
      fmt::format("dataset.train: its samples are {} with {}", described(facts), classes_of(facts)),
      "training needs images or rows of numbers, each with the number of its class "
      "or with numbers to learn");
  return std::nullopt;
}

std::optional<spec::SplitFacts> facts_of(const Look& look) {
  if (!look.facts) return std::nullopt;
  spec::SplitFacts facts{.samples = look.facts->samples, .classes = look.facts->classes};
  const data::Field* image = look.facts->image();
  if (look.shows_image && image != nullptr) facts.image = {image->shape[0], image->shape[1]};
  return facts;
}

spec::ModelInput input_of(const data::Roles& roles, const data::Facts& facts) {
  return {roles.kind, roles.input_shape, roles.outputs(facts.classes)};
}

/// One sample as the model of the run will see it.
std::optional<spec::ModelInput> model_input(const Look& train) {
  if (!train.facts || !train.shows_image) return std::nullopt;
  const std::optional<data::Roles> roles = data::find_roles(train.facts->layout);
  if (!roles) return std::nullopt;
  return input_of(*roles, *train.facts);
}

/// A tier that only a GPU has, where the run will not be on one.
void check_device_cache(const spec::Loaded& loaded, config::Diagnostics& diagnostics) {
  const spec::Experiment& experiment = loaded.experiment;
  if (experiment.dataset.cache.mode != spec::CacheMode::device ||
      experiment.trainer.accelerator != spec::Accelerator::automatic ||
      spec::placement_of(experiment.trainer, read_machine()).on_gpus)
    return;
  spec::Checker(experiment, loaded.tree, diagnostics)
      .error("dataset.cache.mode",
             "'device' keeps the images in the memory of a GPU, and this machine has none that the "
             "run could use",
             "write 'mode: decoded' or 'mode: auto', or check a run for another machine there; "
             "'trainctl doctor' lists the GPUs");
}

}  // namespace

TrainingSamples check_data(const spec::Loaded& loaded, Purpose purpose,
                           config::Diagnostics& diagnostics) {
  const bool for_model = purpose == Purpose::training || purpose == Purpose::evaluating ||
                         purpose == Purpose::predicting;
  const spec::Dataset& data = loaded.experiment.dataset;
  const spec::Checker checker(loaded.experiment, loaded.tree, diagnostics);
  const Asking asking{purpose, diagnostics.error_count() == 0};
  const Look train = look_at("dataset.train", data.train, asking, checker, diagnostics);
  const auto look_beside = [&](const std::string& name,
                               const std::optional<spec::DataSplit>& split) {
    if (!split || (split->part && !train.facts)) return;  // what is wrong with it is said once
    const Look other = look_at(name, *split, asking, checker, diagnostics);
    compare(train, other, {name, split->dataset.position, purpose}, diagnostics);
  };
  if (train.facts && purpose != Purpose::reading) {
    for (const data::Problem& problem : data::check_batch_transforms(
             data.train, *train.facts, loaded.experiment.loader.batch_size)) {
      diagnostics.error(problem.position, problem.message);
    }
  }
  look_beside("dataset.val", data.val);
  look_beside("dataset.test", data.test);
  if (purpose == Purpose::training) check_device_cache(loaded, diagnostics);
  TrainingSamples samples;
  samples.model_input = model_input(train);
  if (train.facts) samples.class_names = train.facts->class_names;
  if (purpose == Purpose::reading) return samples;
  std::optional<spec::SplitFacts> facts = facts_of(train);
  if (facts && for_model)
    facts->kind = kind_of(*train.facts, data.train.dataset.position, diagnostics);
  spec::check_against_data(loaded, facts, diagnostics);
  if (for_model) spec::check_model(loaded, samples.model_input, diagnostics);
  return samples;
}

spec::ModelInput read_model_input(const spec::Experiment& experiment) {
  data::mount_remote(experiment.dataset);
  return in_context("dataset.train", [&] {
    const data::SplitCheck check =
        data::check_split(experiment.dataset.train, spec::CacheMode::none);
    for (const data::Problem& problem : check.problems) throw Error(problem.kind, problem.message);
    return input_of(data::roles_of(check.facts->layout), *check.facts);
  });
}

}  // namespace trainctl::app
