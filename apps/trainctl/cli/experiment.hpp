#pragma once

#include "cli/context.hpp"
#include "cli/data_checks.hpp"
#include "spec/compatibility.hpp"
#include "spec/load.hpp"
#include "study/run/run.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace trainctl::app {

struct Context;

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

/// Loads and checks the experiment, its data files included; its warnings are in
/// `context.diagnostics`, and the names of its classes in `context.class_names`. Throws
/// Error(config) with every problem of the config, or Error(data) where only the data is at fault.
spec::Loaded load_checked(const ConfigArguments& arguments, Context& context,
                          Purpose purpose = Purpose::training);

/// The same without a look at the data.
spec::Loaded load_config(const ConfigArguments& arguments, Context& context);

/// Builds the model in a short process and adds what of weights, freeze and the optimizer's
/// patterns does not fit it. `input` is what the headers of dataset.train say. Throws
/// Error(resource) where this build has no engine.
void check_model(const spec::Loaded& loaded, const std::optional<spec::ModelInput>& input,
                 config::Diagnostics& diagnostics);

/// A run of `loaded` by this program; `config` is what was typed. The folder's root is the caller's
/// choice.
study::RunRequest request_of(spec::Loaded loaded, const ConfigArguments& config,
                             const Context& context);

}  // namespace trainctl::app
