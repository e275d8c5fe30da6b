#pragma once

#include "config/diagnostics.hpp"
#include "config/schema/schema.hpp"
#include "config/tree/load.hpp"
#include "config/tree/node.hpp"
#include "spec/experiment/experiment.hpp"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::spec {

/// Every stage that this build knows (stages.def, data.def and loggers.def), without plug-ins
/// (plugins.hpp), and the sections of the experiment.
const config::Vocabulary& builtin_vocabulary();

/// The description of the whole file.
const config::Schema& experiment_schema();

struct Loaded {
  Experiment experiment;
  config::Node tree;                      // as read, overrides and interpolation applied
  std::vector<config::ConfigFile> files;  // as written: the file itself, then what it extends
};

/// Files -> tree -> typed experiment -> the checks that need no data. `overrides` as on the command
/// line. Every problem goes into `diagnostics`; what is wrong keeps its default. Throws
/// Error(config) where `file` cannot be read.
Loaded read_experiment(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                       config::Diagnostics& diagnostics);

/// A check of an experiment against more than its file: its data, its weights, this machine.
/// Problems go into `diagnostics`.
using Check = std::function<void(const Loaded& loaded, config::Diagnostics& diagnostics)>;

/// The schedule against the length of the run, as far as the file alone tells it.
std::vector<Check> file_checks();

/// The one way in which verbs and workers load an experiment: reads it as read_experiment() does
/// and runs `checks`, all of them whatever is found. Throws one Error that prints every problem, of
/// kind data where only the data is at fault; warnings are returned in `diagnostics`.
Loaded load_experiment(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                       config::Diagnostics& diagnostics,
                       const std::vector<Check>& checks = file_checks());

/// The experiment with further overrides laid over it, as one of `trainer.on_divergence` is: `+key`
/// may be there already, as it is in a resolved file. What an interpolation brought in stays as it
/// was. Problems go into `diagnostics`.
Loaded overridden(Loaded loaded, const std::vector<std::string>& overrides,
                  config::Diagnostics& diagnostics);

/// load_experiment() for a text that is in no file; `name` stands in its diagnostics.
Loaded load_experiment_text(const std::string& name, std::string_view text,
                            const std::vector<std::string>& overrides,
                            config::Diagnostics& diagnostics);

/// The resolved experiment as a tree, defaults included, each value with the place it came from
/// (none: a default).
config::Node resolved_tree(const Loaded& loaded);

/// The resolved experiment as YAML that load_experiment reads back to the same experiment, each
/// value with its origin
/// ("# mnist.yaml:14", "# override", "# default") as a comment.
std::string dump_resolved(const Loaded& loaded);

/// An experiment that is part of the program: `builtin:NAME` stands for a file.
inline constexpr std::string_view kBuiltinPrefix = "builtin:";

struct BuiltinExperiment {
  std::string_view name;  // "quickstart"
  std::string_view yaml;  // of configs/NAME.yaml when the program was built
};

/// Returns the experiments that are part of the program.
const std::vector<BuiltinExperiment>& builtin_experiments();

/// Returns the text of `builtin:NAME`; nothing where `file` does not begin so. Throws Error(config)
/// for an unknown NAME.
std::optional<std::string_view> builtin_text(const std::string& file);

}  // namespace trainctl::spec
