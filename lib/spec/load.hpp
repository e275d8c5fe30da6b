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

/// Returns the vocabulary of this build without plug-ins (see plugins.hpp): every stage in
/// stages.def, data.def and loggers.def, and the sections of the experiment.
const config::Vocabulary& builtin_vocabulary();

/// Returns the schema of the whole file.
const config::Schema& experiment_schema();

/// An experiment with the tree and the files that it was read from.
struct Loaded {
  Experiment experiment;
  config::Node tree;                      // as read, after overrides and interpolation
  std::vector<config::ConfigFile> files;  // as written: the file itself, then those it extends
};

/// Reads files into a tree and a typed experiment, and runs the checks that need no data.
/// `overrides` have the form of the command line. Every problem goes into `diagnostics`; invalid
/// values keep their defaults. Throws Error(config) if `file` cannot be read.
Loaded read_experiment(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                       config::Diagnostics& diagnostics);

/// A check of an experiment against more than its file: its data, its weights, this machine.
/// Problems go into `diagnostics`.
using Check = std::function<void(const Loaded& loaded, config::Diagnostics& diagnostics)>;

/// Returns the check of the schedule against the length of the run, as far as the file defines it.
std::vector<Check> file_checks();

/// Loads an experiment for commands and workers: reads it like read_experiment() and runs all
/// `checks`, whatever they find. Throws one Error that lists every problem, of kind data if only
/// the data has problems; warnings are returned in `diagnostics`.
Loaded load_experiment(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                       config::Diagnostics& diagnostics,
                       const std::vector<Check>& checks = file_checks());

/// Returns the experiment with further overrides, such as one of `trainer.on_divergence`: `+key`
/// may exist already, as it does in a resolved file. Interpolated values do not change. Problems go
/// into `diagnostics`.
Loaded overridden(Loaded loaded, const std::vector<std::string>& overrides,
                  config::Diagnostics& diagnostics);

/// Does the same as load_experiment() for a text that is not in a file. `name` appears in the
/// diagnostics.
Loaded load_experiment_text(const std::string& name, std::string_view text,
                            const std::vector<std::string>& overrides,
                            config::Diagnostics& diagnostics);

/// Returns the resolved experiment as a tree, defaults included, each value with its position
/// (none: a default).
config::Node resolved_tree(const Loaded& loaded);

/// Returns the resolved experiment as YAML that load_experiment reads back to the same experiment.
/// Each value has its origin as a comment: "# mnist.yaml:14", "# override", "# default".
std::string dump_resolved(const Loaded& loaded);

/// The prefix of an experiment that is part of the program: `builtin:NAME` replaces a file name.
inline constexpr std::string_view kBuiltinPrefix = "builtin:";

struct BuiltinExperiment {
  std::string_view name;  // "quickstart"
  std::string_view yaml;  // content of configs/NAME.yaml when the program was built
};

/// Returns the experiments that are part of the program.
const std::vector<BuiltinExperiment>& builtin_experiments();

/// Returns the text of `builtin:NAME`; nullopt if `file` has another form. Throws Error(config) for
/// an unknown NAME.
std::optional<std::string_view> builtin_text(const std::string& file);

}  // namespace trainctl::spec
