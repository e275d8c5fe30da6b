#pragma once

#include "cli/context.hpp"
#include "spec/load.hpp"
#include "study/run/run.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace trainctl::app {

/// The arguments of a command that works on one experiment: CONFIG [key=value ...], or -c CONFIG.
struct ConfigArguments {
  std::string file;
  std::vector<std::string> overrides;
};

/// Returns whether a word is an override: `a.b=c`, `+a.b=c`, `++a.b=c` or `~a.b`. All other words
/// are files, and so are words that start with '.' or '/', have a '/' before the '=', or exist as a
/// file.
bool is_override(std::string_view word);

/// The built-in experiment of a command without CONFIG: a first network, or one limited by image
/// I/O.
enum class Builtin { quickstart, photographs };

/// Returns the experiment of a command without CONFIG: ./config.yaml if it exists, else the
/// built-in one. Prints a line about the choice.
std::string default_config(const Context& context, Builtin builtin);

/// Adds CONFIG, the overrides and -c/--config. Without CONFIG the command uses default_config().
void add_config_arguments(CLI::App& verb, ConfigArguments& arguments, Context& context,
                          Builtin builtin = Builtin::quickstart);

/// Returns the settings that all run requests of this experiment share.
study::Invocation invocation_of(const ConfigArguments& arguments, const Context& context);

/// Loads the experiment with the checks for the purpose and prints its warnings. Throws the errors
/// of spec::load_experiment().
spec::Loaded load_checked(const ConfigArguments& arguments, Context& context,
                          study::Purpose purpose);

/// Calls study::check_model(). Throws Error(resource) if this build has no engine.
void check_model(const spec::Loaded& loaded, const study::TrainingSamples& samples,
                 config::Diagnostics& diagnostics);

}  // namespace trainctl::app
