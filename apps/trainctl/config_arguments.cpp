#include "config_arguments.hpp"

#include "base/strings.hpp"
#include "context.hpp"
#include "data_checks.hpp"

#include <CLI/CLI.hpp>

namespace trainctl::app {
namespace {

void take_word(ConfigArguments& arguments, const std::string& word) {
  if (is_override(word)) {
    arguments.overrides.push_back(word);
    return;
  }
  if (!arguments.file.empty()) {
    throw CLI::ValidationError(
        fmt::format("'{}' is neither an override (key=value) nor the first config: the config is '{}'", printable(word),
                    printable(arguments.file)));
  }
  arguments.file = word;
}

}  // namespace

bool is_override(std::string_view word) {
  if (word.starts_with('.') || word.starts_with('/')) return false;
  return word.starts_with('+') || word.starts_with('~') || word.find('=') != std::string_view::npos;
}

void add_config_arguments(CLI::App& verb, ConfigArguments& arguments) {
  const auto take = [&arguments](const std::vector<std::string>& words) {
    for (const std::string& word : words) take_word(arguments, word);
  };
  verb.add_option("-c,--config", arguments.file, "the experiment file, when it is not the first argument")
      ->type_name("FILE");
  verb.add_option_function<std::vector<std::string>>(
          "words", take, "the experiment file; then overrides: a.b=c sets, +a.b=c adds, ++a.b=c either, ~a.b deletes")
      ->type_name("CONFIG [key=value ...]");
}

spec::Loaded load_config(const ConfigArguments& arguments, Context& context) {
  ENSURE(config, !arguments.file.empty(), "no experiment file is given: write its path after the verb");
  return spec::load_experiment(arguments.file, arguments.overrides, context.diagnostics);
}

spec::Loaded load_checked(const ConfigArguments& arguments, Context& context) {
  spec::Loaded loaded = load_config(arguments, context);
  check_data(loaded, context.diagnostics);
  return loaded;
}

}  // namespace trainctl::app
