#pragma once

#include "cli/context.hpp"
#include "cli/experiment.hpp"
#include "report/search/tune.hpp"
#include "study/run/run.hpp"
#include "study/tune/tuning_run.hpp"

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace trainctl::app {

struct TuneFlags {
  ConfigArguments config;
  std::string budget = "5m";
  int repeats = 5;
  std::string allow;
  double tolerance = 1e-3;
  std::string out = "runs";
  std::string patch;  // empty: in the folder of the search
};

/// The experiment of the command line, cut down to the short runs of tune, with changes laid over
/// it.
class TuneRequests {
 public:
  /// Reads and checks the experiment as it is, and prints its warnings. Throws Error(config).
  TuneRequests(const TuneFlags& flags, Context& context);
  /// Makes OUT/tune/NAME/TIME, in which all runs of the search get their folders.
  const std::filesystem::path& make_folder();

  [[nodiscard]] const spec::Experiment& experiment() const { return loaded_.experiment; }
  void use_length(const study::TuneLength& length) { length_ = length; }
  /// Where the experiment leaves the number to each run, all have this one from now on: else a run
  /// might measure another than that which it is compared with.
  void pin_threads(int threads);
  /// The same for the memory format of images.
  void pin_layout(bool channels_last);

  study::TuneResult run(const report::TuneChanges& changes, study::TuneScope scope, double most_s);
  /// The experiment with these changes, at its full length, or why it does not take them.
  std::variant<spec::Experiment, std::string> check(const report::TuneChanges& changes);

  /// `patch`: the file that the changes are written to.
  [[nodiscard]] report::TuneCommands commands(const report::TuneReport& report,
                                              const std::filesystem::path& patch) const;

 private:
  using Made = std::variant<study::RunRequest, std::string>;  // or why there is none

  /// The overrides that pin the choices of `auto` in a run with these changes.
  [[nodiscard]] std::vector<std::string> pins(const report::TuneChanges& changes) const;
  Made make(const report::TuneChanges& changes, study::TuneScope scope);
  Made read(const std::vector<std::string>& added);

  const TuneFlags& flags_;
  Context& context_;
  spec::Loaded loaded_;
  std::optional<study::RunFolder> folder_;
  study::TuneLength length_;
  std::optional<int> threads_;
  std::optional<bool> channels_last_;
  bool has_constant_rate_ = false;
  std::map<std::string, Made> known_;  // by the overrides
};

/// Why the steps of the experiment cannot be recorded as CUDA graphs here; empty: they can.
std::string no_capture(const spec::Experiment& experiment);

}  // namespace trainctl::app
