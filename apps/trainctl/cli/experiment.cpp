#include "cli/experiment.hpp"

#include "base/strings.hpp"
#include "cli/context.hpp"
#include "cli/data_checks.hpp"
#include "cli/weights_check.hpp"
#include "data/remote/mount.hpp"
#include "log/log.hpp"
#include "spec/builtin_experiments.hpp"
#include "spec/checks/capture_decl.hpp"
#include "spec/checks/check_loggers_decl.hpp"

#include <CLI/CLI.hpp>

#include <filesystem>
#include <system_error>
#include <utility>

namespace trainctl::app {
namespace {

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

}  // namespace trainctl::app
