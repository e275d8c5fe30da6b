#include "cli/experiment.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "base/url.hpp"
#include "build_info.hpp"
#include "cli/context.hpp"
#include "cli/data_checks.hpp"
#include "cli/engine_library.hpp"
#include "config/tree/node.hpp"
#include "data/remote/local_tier.hpp"
#include "log/log.hpp"
#include "spec/checks/checker.hpp"
#include "spec/checks/checks.hpp"
#include "spec/load.hpp"
#include "study/workers/worker_tasks.hpp"
#include "weights/import.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace trainctl::app {
namespace {

/// Looks at the file of weights that the experiment names: whether it is there and what describes
/// its tensors. Every problem goes into `diagnostics`. It does not compare
/// them with the model.
void check_weights(const spec::Loaded& loaded, config::Diagnostics& diagnostics);

constexpr const char* kPath = "weights.path";

bool is_sha256(const std::string& text) {
  return text.size() == 64 && std::ranges::all_of(text, [](unsigned char c) {
           return std::isdigit(c) != 0 || (c >= 'a' && c <= 'f');
         });
}

/// A name of the same folder that may have been meant.
std::string hint_for(const fs::path& path) {
  constexpr std::size_t kMostNames = 10'000;
  std::error_code failure;
  std::vector<std::string> names;
  for (fs::directory_iterator at(path.parent_path(), failure), end;
       !failure && at != end && names.size() < kMostNames; at.increment(failure))
    names.push_back(at->path().filename().string());
  if (failure)
    return fmt::format("the folder {} cannot be read", printable(path.parent_path().string()));
  const auto near = nearest(path.filename().string(), names);
  return near ? fmt::format("did you mean '{}'?", printable(*near)) : "correct the path";
}

/// Whether there is a file to look into.
bool check_place(const fs::path& path, spec::Checker& checker) {
  if (is_remote(path)) {
    checker.error(kPath, "weights are read from a local disk", "download the file first");
    return false;
  }
  std::error_code failure;
  if (!fs::exists(path, failure)) {
    checker.error(kPath, fmt::format("the file {} does not exist", printable(path.string())),
                  hint_for(path));
    return false;
  }
  if (fs::is_regular_file(path, failure)) return true;
  checker.error(kPath, fmt::format("{} is no regular file", printable(path.string())),
                "name a file of weights");
  return false;
}

config::Position place_of(const spec::Checker& checker) {
  const config::Node* path = checker.find(kPath);
  return (path != nullptr ? path : checker.find("weights"))->position;
}

void check_weights(const spec::Loaded& loaded, config::Diagnostics& diagnostics) {
  spec::Checker checker(loaded.experiment, loaded.tree, diagnostics);
  const std::optional<spec::Weights>& weights = loaded.experiment.weights;
  if (loaded.tree.broken || !weights || !checker.sound("weights")) return;
  if (weights->sha256 && !is_sha256(*weights->sha256)) {
    checker.error("weights.sha256", fmt::format("'{}' is no SHA-256", printable(*weights->sha256)),
                  "write 64 digits 0-9a-f, as sha256sum prints them");
  }
  if (!check_place(weights->path, checker)) return;
  try {
    (void)weights::entries_of(
        weights->path, {.section = weights->section,
                        .renaming = {.prefix = weights->prefix, .key_map = weights->key_map}});
  } catch (const Error& error) {
    diagnostics.add({.position = place_of(checker),
                     .message = with_prefix("weights", error.what()),
                     .kind = error.kind()});
  }
}

void take_word(ConfigArguments& arguments, const std::string& word) {
  if (is_override(word)) {
    arguments.overrides.push_back(word);
    return;
  }
  if (!arguments.file.empty()) {
    throw CLI::ValidationError(fmt::format(
        "'{}' is neither an override (key=value) nor the first config: the config is '{}'",
        printable(word), printable(arguments.file)));
  }
  arguments.file = word;
}

void log_files(const spec::Loaded& loaded) {
  for (const config::ConfigFile& file : loaded.files) {
    log::get().debug("read {}: {} bytes", printable(file.path.string()), file.text.size());
  }
}

}  // namespace

bool is_override(std::string_view word) {
  if (word.starts_with('.') || word.starts_with('/')) return false;
  if (word.starts_with('+') || word.starts_with('~')) return true;
  const std::size_t equals = word.find('=');
  std::error_code ignored;
  return equals != std::string_view::npos &&
         word.substr(0, equals).find('/') == std::string_view::npos &&
         !std::filesystem::is_regular_file(word, ignored);
}

std::string default_config(const Context& context, Builtin builtin) {
  constexpr const char* kFile = "config.yaml";
  const bool prints = !context.quiet && !context.json;
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(kFile, ignored))) {
    if (prints) put(stderr, fmt::format("no CONFIG given: using ./{}\n", kFile));
    return kFile;
  }
  const std::string name(spec::kBuiltinPrefix);
  const std::string chosen = name + (builtin == Builtin::quickstart ? "quickstart" : "photographs");
  if (prints)
    put(stderr, fmt::format("no CONFIG given: using the built-in experiment {0} (to see it: "
                            "trainctl show-config {0})\n",
                            chosen));
  return chosen;
}

void add_config_arguments(CLI::App& verb, ConfigArguments& arguments, Context& context,
                          Builtin builtin) {
  context.complete_arguments[&verb] = [&arguments, &context, builtin] {
    if (arguments.file.empty()) arguments.file = default_config(context, builtin);
  };
  const auto take = [&arguments](const std::vector<std::string>& words) {
    for (const std::string& word : words) take_word(arguments, word);
  };
  verb.add_option("-c,--config", arguments.file,
                  "the experiment file, when it is not the first argument")
      ->type_name("FILE");
  verb.add_option_function<std::vector<std::string>>(
          "words", take,
          "the experiment file (absent: ./config.yaml, else a built-in one); then overrides: a.b=c "
          "sets, +a.b=c adds, ++a.b=c either, ~a.b "
          "deletes")
      ->type_name("[CONFIG] [key=value ...]");
}

spec::Loaded load_config(const ConfigArguments& arguments, Context& context) {
  spec::Loaded loaded =
      spec::load_experiment(arguments.file, arguments.overrides, context.diagnostics);
  log_files(loaded);
  return loaded;
}

spec::Loaded load_checked(const ConfigArguments& arguments, Context& context, Purpose purpose) {
  spec::Loaded loaded =
      spec::read_experiment(arguments.file, arguments.overrides, context.diagnostics);
  log_files(loaded);
  data::mount_remote(loaded.experiment.dataset);
  TrainingSamples training = check_data(loaded, purpose, context.diagnostics);
  context.class_names = std::move(training.class_names);
  context.model_input = std::move(training.model_input);
  if (purpose == Purpose::training) {
    check_weights(loaded, context.diagnostics);
    spec::check_capture(loaded, context.diagnostics);
    spec::check_loggers(loaded, context.diagnostics);
  }
  context.diagnostics.throw_if_errors();
  return loaded;
}

void check_model(const spec::Loaded& loaded, const std::optional<spec::ModelInput>& input,
                 config::Diagnostics& diagnostics) {
  check_working_directory();
  ENSURE(resource, find_engine_library().has_value(),
         "cannot check the model: this build has no engine; build it with: cmake --build --preset "
         "release");
  for (const study::ModelProblem& problem : study::check_model(loaded, input, executable_path())) {
    const config::Node* place = config::find_path(loaded.tree, problem.key);
    diagnostics.add({.position = place != nullptr ? place->position : config::Position{},
                     .message = with_prefix(problem.key, problem.message),
                     .kind = problem.kind});
  }
}

study::RunRequest request_of(spec::Loaded loaded, const ConfigArguments& config,
                             const Context& context) {
  study::RunRequest request;
  request.loaded = std::move(loaded);
  request.config_file = config.file;
  request.overrides = config.overrides;
  request.folder.name = request.loaded.experiment.name;
  request.argv = context.argv;
  request.executable = executable_path();
  request.version = version_text();
  request.verbosity = context.verbosity;
  return request;
}

}  // namespace trainctl::app
