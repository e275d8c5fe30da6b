#include "study/preflight/experiment_checks.hpp"

#include "base/files.hpp"
#include "base/strings.hpp"
#include "base/url.hpp"
#include "data/core/batch.hpp"
#include "data/core/pipeline.hpp"
#include "data/remote/local_tier.hpp"
#include "log/log.hpp"
#include "spec/checks/checks.hpp"
#include "spec/experiment/experiment.hpp"
#include "spec/options/task.hpp"
#include "study/preflight/named_weights.hpp"
#include "weights/import.hpp"

#include <cctype>
#include <system_error>

namespace trainctl::study {
namespace {

std::string described(const data::Facts& facts) {
  if (const data::Field* image = facts.image())
    return fmt::format("{}", fmt::join(image->shape, "x"));
  std::vector<std::string> fields;
  for (const data::Field& field : facts.layout) {
    std::string what = "one number";
    if (!field.shape.empty()) what = fmt::format("{}", fmt::join(field.shape, "x"));
    if (field.vocab_size > 0) what += fmt::format(" of a vocabulary of {}", field.vocab_size);
    fields.push_back(fmt::format("{} ({})", field.name, what));
  }
  return fmt::format("{}", fmt::join(fields, ", "));
}

bool has_remote_path(const config::Node* node) {
  if (node == nullptr) return false;
  return is_remote(node->text) ||
         std::ranges::any_of(node->items,
                             [](const config::Node& item) { return has_remote_path(&item); }) ||
         std::ranges::any_of(node->entries, [](const config::Entry& entry) {
           return has_remote_path(&entry.value);
         });
}

// The facts of a split, if its part of the config is valid.
struct SplitProperties {
  std::optional<data::Facts> facts;
  bool shows_image = false;  // the facts describe the image after the transforms
};

struct CheckScope {
  Purpose purpose = Purpose::training;
  bool network = true;  // false: the config is invalid, so remote paths are not accessed
};

SplitProperties read_split(const std::string& name, spec::DataSplit split, const CheckScope& scope,
                           const spec::Checker& checker, config::Diagnostics& diagnostics) {
  if (!split.dataset || !checker.is_valid_except(name, "transforms")) return {};
  if (!scope.network && has_remote_path(checker.find(name))) return {};
  SplitProperties properties;
  const bool reads = scope.purpose == Purpose::reading;
  properties.shows_image = !reads && checker.is_valid(name + ".transforms");
  if (!properties.shows_image) split.transforms.clear();
  const data::SplitCheck check =
      reads ? data::check_dataset(split)
            : data::check_split(split, checker.experiment().dataset.cache.mode);
  for (const data::Problem& problem : check.problems) {
    diagnostics.add({.position = problem.position,
                     .message = with_prefix(name, problem.message),
                     .kind = problem.kind});
  }
  if (!check.warning.empty()) diagnostics.warning(split.dataset.position, check.warning);
  properties.facts = check.facts;
  if (properties.facts) {
    log::get().debug("{}: {} samples of {}, {} classes", name, properties.facts->samples,
                     described(*properties.facts), properties.facts->classes);
  }
  properties.shows_image = properties.shows_image && check.problems.empty();
  return properties;
}

struct ComparedSplit {
  std::string name;  // "dataset.val"
  config::Position position;
  Purpose purpose = Purpose::training;
};

// Returns the first name that differs: "class 1 is 'b', but 'a' in dataset.train".
std::optional<std::string> difference(const char* what, const std::vector<std::string>& expected,
                                      const std::vector<std::string>& found) {
  const auto [mine, theirs] = std::ranges::mismatch(expected, found);
  if (mine == expected.end() || theirs == found.end()) return std::nullopt;
  return fmt::format("{} {} is '{}', but '{}' in dataset.train", what, theirs - found.begin(),
                     printable(*theirs), printable(*mine));
}

std::string classes_of(const data::Facts& facts) {
  return fmt::format("{} class{}", facts.classes, facts.classes == 1 ? "" : "es");
}

const char* hint_for(const data::Facts& found, const data::Facts& expected, Purpose purpose) {
  if (!found.feature_names.empty())
    return "use the same columns in both splits, and set the classes with 'classes' or "
           "'statistics_from'";
  if (purpose != Purpose::evaluating || !data::has_same_inputs(found.layout, expected.layout))
    return "";
  return "use 'trainctl predict', which does not need the classes of dataset.train";
}

void compare(const SplitProperties& train, const SplitProperties& other,
             const ComparedSplit& compared, config::Diagnostics& diagnostics) {
  if (!train.shows_image || !other.shows_image) return;
  const data::Facts& expected = *train.facts;
  const data::Facts& found = *other.facts;
  const auto& [name, position, purpose] = compared;
  const bool predicts = purpose == Purpose::predicting;
  const bool fits = predicts ? data::has_same_inputs(found.layout, expected.layout)
                             : found.layout == expected.layout && found.classes == expected.classes;
  if (!fits)
    return diagnostics.error(
        position,
        fmt::format("{}: samples must be {} with {}, as in dataset.train, got {} "
                    "with {}",
                    name, described(expected), classes_of(expected), described(found),
                    classes_of(found)),
        hint_for(found, expected, purpose));
  const auto other_class = difference("class", expected.class_names, found.class_names);
  if (other_class && !predicts) {
    diagnostics.error(position, fmt::format("{}: {}", name, *other_class),
                      "use the same classes in both splits");
  }
  if (const auto text = difference("feature", expected.feature_names, found.feature_names)) {
    diagnostics.error(position, fmt::format("{}: {}", name, *text),
                      "list the same columns in the same order under 'features' of both splits");
  }
}

std::optional<spec::SampleKind> kind_of(const data::Facts& facts, const config::Position& position,
                                        config::Diagnostics& diagnostics) {
  const std::optional<data::Roles> roles = data::find_roles(facts.layout);
  const bool lacks_classes =
      roles && roles->kind.targets == spec::Targets::classes && !facts.classes;
  if (roles && !lacks_classes) return roles->kind;
  diagnostics.error(
      position,
      fmt::format(
          "dataset.train: samples must be images or rows of numbers, each with a class index "
          "or target numbers, got {} with {}",
          described(facts), classes_of(facts)));
  return std::nullopt;
}

std::optional<spec::SplitFacts> facts_of(const SplitProperties& properties) {
  if (!properties.facts) return std::nullopt;
  spec::SplitFacts facts{.samples = properties.facts->samples,
                         .classes = properties.facts->classes};
  const data::Field* image = properties.facts->image();
  if (properties.shows_image && image != nullptr) facts.image = {image->shape[0], image->shape[1]};
  return facts;
}

spec::ModelInput input_of(const data::Roles& roles, const data::Facts& facts) {
  return {roles.kind, roles.input_shape, roles.outputs(facts.classes)};
}

std::optional<spec::ModelInput> model_input(const SplitProperties& train) {
  if (!train.facts || !train.shows_image) return std::nullopt;
  const std::optional<data::Roles> roles = data::find_roles(train.facts->layout);
  if (!roles) return std::nullopt;
  return input_of(*roles, *train.facts);
}

/// Checks that a cache on the device is only used by a run on a GPU.
void check_device_cache(const spec::Loaded& loaded, config::Diagnostics& diagnostics) {
  const spec::Experiment& experiment = loaded.experiment;
  if (experiment.dataset.cache.mode != spec::CacheMode::device ||
      experiment.trainer.accelerator != spec::Accelerator::automatic ||
      spec::placement_of(experiment.trainer, read_machine()).on_gpus)
    return;
  spec::Checker(experiment, loaded.tree, diagnostics)
      .error(
          "dataset.cache.mode",
          "'device' caches images in GPU memory, but this machine has no GPU that the run can use",
          "write 'mode: decoded' or 'mode: auto', or run the check on the machine with the GPU "
          "('trainctl doctor' lists GPUs)");
}

constexpr const char* kWeightsPath = "weights.path";

bool is_sha256(const std::string& text) {
  return text.size() == 64 && std::ranges::all_of(text, [](unsigned char c) {
           return std::isdigit(c) != 0 || (c >= 'a' && c <= 'f');
         });
}

std::string similar_file(const fs::path& path) {
  constexpr std::size_t kMostNames = 10'000;
  std::error_code failure;
  std::vector<std::string> names;
  for (fs::directory_iterator at(path.parent_path(), failure), end;
       !failure && at != end && names.size() < kMostNames; at.increment(failure))
    names.push_back(at->path().filename().string());
  if (failure)
    return fmt::format("make the folder {} readable", printable(path.parent_path().string()));
  const auto near = nearest(path.filename().string(), names);
  return near ? fmt::format("did you mean '{}'?", printable(*near)) : "correct the path";
}

/// Returns whether the file exists locally, and adds the problem if it does not.
bool is_weights_file(const fs::path& path, spec::Checker& checker) {
  if (is_remote(path)) {
    checker.error(kWeightsPath, "the weights file must be on a local disk",
                  "download the file first");
    return false;
  }
  if (!path_exists(path)) {
    checker.error(kWeightsPath, fmt::format("the file {} does not exist", printable(path.string())),
                  similar_file(path));
    return false;
  }
  if (is_file(path)) return true;
  checker.error(kWeightsPath, fmt::format("{} is not a regular file", printable(path.string())),
                "name a weights file");
  return false;
}

/// Checks that the weights file of the experiment exists and describes its tensors, without
/// comparing the tensors with the model.
void check_weights(const spec::Loaded& loaded, config::Diagnostics& diagnostics) {
  spec::Checker checker(loaded.experiment, loaded.tree, diagnostics);
  const std::optional<spec::Weights>& weights = loaded.experiment.weights;
  if (loaded.tree.broken || !weights || !checker.is_valid("weights")) return;
  if (weights->sha256 && !is_sha256(*weights->sha256)) {
    checker.error("weights.sha256",
                  fmt::format("'{}' is not a SHA-256 digest", printable(*weights->sha256)),
                  "write 64 digits 0-9a-f, as sha256sum prints them");
  }
  const bool is_name = is_weights_name(weights->path);
  if (!is_name && !is_weights_file(weights->path, checker)) return;
  try {
    const fs::path file =
        is_name ? kept_weights(weights_called(weights->path), weights_source()) : weights->path;
    if (file.empty()) return;  // `run` downloads it
    (void)weights::entries_of(
        file, {.section = weights->section,
               .renaming = {.prefix = weights->prefix, .key_map = weights->key_map}});
  } catch (const Error& error) {
    const config::Node* path = checker.find(kWeightsPath);
    diagnostics.add({.position = (path != nullptr ? path : checker.find("weights"))->position,
                     .message = with_prefix("weights", error.what()),
                     .kind = error.kind()});
  }
}

/// Evaluations of a trained model need no teacher.
void check_teacher(const spec::Loaded& loaded, config::Diagnostics& diagnostics) {
  spec::Checker checker(loaded.experiment, loaded.tree, diagnostics);
  const auto* options = loaded.experiment.task.get_if<spec::task::Distillation>();
  if (options == nullptr || !checker.is_valid("task") || is_file(options->weights)) return;
  checker.error(
      "task.weights",
      fmt::format("the file {} does not exist", printable(options->weights.string())),
      "train the teacher first, and name a file such as checkpoints/best.safetensors of its run");
}

void check_kernels(const spec::Loaded& loaded, config::Diagnostics& diagnostics) {
  spec::check_determinism(loaded, spec::placement_of(loaded.experiment.trainer, read_machine()),
                          diagnostics);
}

}  // namespace

std::vector<spec::Check> checks_for(Purpose purpose, TrainingSamples& samples) {
  std::vector<spec::Check> checks{
      [purpose, &samples](const spec::Loaded& loaded, config::Diagnostics& diagnostics) {
        log_files(loaded);
        data::mount_remote(loaded.experiment.dataset);
        samples = check_data(loaded, purpose, diagnostics);
      }};
  if (purpose == Purpose::training)
    checks.insert(checks.end(), {check_weights, check_teacher, spec::check_capture, check_kernels,
                                 spec::check_loggers});
  return checks;
}

void log_files(const spec::Loaded& loaded) {
  for (const config::ConfigFile& file : loaded.files)
    log::get().debug("read {}: {} bytes", printable(file.path.string()), file.text.size());
}

TrainingSamples check_data(const spec::Loaded& loaded, Purpose purpose,
                           config::Diagnostics& diagnostics) {
  const bool for_model = purpose == Purpose::training || purpose == Purpose::evaluating ||
                         purpose == Purpose::predicting;
  const spec::Dataset& data = loaded.experiment.dataset;
  const spec::Checker checker(loaded.experiment, loaded.tree, diagnostics);
  const CheckScope scope{purpose, diagnostics.error_count() == 0};
  const SplitProperties train =
      read_split("dataset.train", data.train, scope, checker, diagnostics);
  const auto check_other_split = [&](const std::string& name,
                                     const std::optional<spec::DataSplit>& split) {
    if (!split || (split->part && !train.facts)) return;  // its problem is already reported
    const SplitProperties other = read_split(name, *split, scope, checker, diagnostics);
    compare(train, other, {name, split->dataset.position, purpose}, diagnostics);
  };
  if (train.facts && purpose != Purpose::reading) {
    for (const data::Problem& problem : data::check_batch_transforms(
             data.train, *train.facts, loaded.experiment.loader.batch_size)) {
      diagnostics.error(problem.position, problem.message);
    }
  }
  check_other_split("dataset.val", data.val);
  check_other_split("dataset.test", data.test);
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

}  // namespace trainctl::study
