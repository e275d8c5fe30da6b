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

/// What a verb that works on one experiment takes: CONFIG [key=value ...], or -c CONFIG.
struct ConfigArguments {
  std::string file;
  std::vector<std::string> overrides;
};

/// `a.b=c`, `+a.b=c`, `++a.b=c`, `~a.b`: an override; everything else is a file, and so is what
/// begins with '.' or '/', has a '/' before its '=', or is there.
bool is_override(std::string_view word);

/// The built-in experiment of a verb that is called without CONFIG: a first network, or one that
/// spends its time loading images.
enum class Builtin { quickstart, photographs };

/// The experiment that a verb uses without CONFIG: ./config.yaml if it exists, else the built-in
/// one. Prints a line that says which.
std::string default_config(const Context& context, Builtin builtin);

/// Adds CONFIG, the overrides and -c/--config. Without CONFIG the verb uses default_config().
void add_config_arguments(CLI::App& verb, ConfigArguments& arguments, Context& context,
                          Builtin builtin = Builtin::quickstart);

/// What the requests of runs of this experiment have in common.
study::Invocation invocation_of(const ConfigArguments& arguments, const Context& context);

/// Loads the experiment with the checks for that purpose, and prints its warnings. Throws as
/// spec::load_experiment() does.
spec::Loaded load_checked(const ConfigArguments& arguments, Context& context,
                          study::Purpose purpose);

/// study::check_model(). Throws Error(resource) where this build has no engine.
void check_model(const spec::Loaded& loaded, const study::TrainingSamples& samples,
                 config::Diagnostics& diagnostics);

}  // namespace trainctl::app
