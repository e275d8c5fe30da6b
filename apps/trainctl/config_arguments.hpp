#pragma once

#include "data_checks.hpp"
#include "spec/load.hpp"

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

/// Adds CONFIG, the overrides and -c/--config.
void add_config_arguments(CLI::App& verb, ConfigArguments& arguments);

/// Loads and checks the experiment, its data files included; its warnings are in
/// `context.diagnostics`, and the names of its classes in `context.class_names`. Throws
/// Error(config) with every problem of the config, or Error(data) where only the data is at fault.
spec::Loaded load_checked(const ConfigArguments& arguments, Context& context,
                          Purpose purpose = Purpose::training);

/// The same without a look at the data.
spec::Loaded load_config(const ConfigArguments& arguments, Context& context);

}  // namespace trainctl::app
