#include "cli/experiment.hpp"

#include "cli/verb.hpp"
#include "program.hpp"
#include "study/workers/worker_tasks.hpp"

namespace trainctl::app {
namespace {

void take_word(ConfigArguments& arguments, const std::string& word) {
  if (is_override(word)) {
    arguments.overrides.push_back(word);
    return;
  }
  if (!arguments.file.empty()) {
    throw CLI::ValidationError(fmt::format(
        "'{}' must be an override with a value (key=value); the experiment file is '{}'",
        printable(word), printable(arguments.file)));
  }
  arguments.file = word;
}

}  // namespace

bool is_override(std::string_view word) {
  if (word.starts_with('.') || word.starts_with('/')) return false;
  if (word.starts_with('+') || word.starts_with('~')) return true;
  const std::size_t equals = word.find('=');
  return equals != std::string_view::npos &&
         word.substr(0, equals).find('/') == std::string_view::npos && !is_file(word);
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
    put(stderr, fmt::format("no CONFIG given: using the built-in experiment {0} (print it: "
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
  add_options(verb, {{"-c,--config", arguments.file, "FILE",
                      "experiment file, instead of the first argument"}});
  verb.add_option_function<std::vector<std::string>>(
          "words", take,
          "experiment file (default: ./config.yaml, else a built-in one)\n"
          "override: a.b=c sets a key, +a.b=c adds one, ++a.b=c does either, ~a.b deletes one")
      ->type_name("[CONFIG] [key=value ...]");
}

study::Invocation invocation_of(const ConfigArguments& arguments, const Context& context) {
  return {.config_file = arguments.file,
          .overrides = arguments.overrides,
          .argv = context.argv,
          .executable = executable_path(),
          .version = version_text(),
          .verbosity = context.verbosity};
}

spec::Loaded load_checked(const ConfigArguments& arguments, Context& context,
                          study::Purpose purpose) {
  study::TrainingSamples ignored;
  spec::Loaded loaded =
      spec::load_experiment(arguments.file, arguments.overrides, context.diagnostics,
                            study::checks_for(purpose, ignored));
  print_warnings(context);
  return loaded;
}

void check_model(const spec::Loaded& loaded, const study::TrainingSamples& samples,
                 config::Diagnostics& diagnostics) {
  check_working_directory();
  ENSURE(resource, find_engine_library().has_value(),
         "cannot check the model: this build has no training engine (libtrainctl_engine.so)\nhint: "
         "build it with cmake --build "
         "--preset release");
  study::check_model(loaded, samples.model_input, executable_path(), diagnostics);
}

}  // namespace trainctl::app
