#pragma once

#include "base/files.hpp"
#include "report/sinks/sink.hpp"
#include "report/sinks/tensorboard_sink.hpp"
#include "spec/load.hpp"
#include "study/run/run.hpp"

#include <string>
#include <vector>

namespace trainctl::study {

/// What make_loggers() needs in addition to the loggers' options.
struct LoggerContext {
  fs::path run_dir;
  const spec::Loaded& loaded;
  report::ConsoleOptions console;  // all loggers use its selection of metrics
  std::string version;             // version of trainctl
  std::string host;
  int restarts = 0;                           // earlier starts of this run
  std::vector<std::string> class_names = {};  // of dataset.train; empty: numbers are shown
  /// See TensorboardOptions; an empty function writes no pictures.
  decltype(report::TensorboardOptions::picture) picture = {};
};

/// Returns the loggers that `loggers:` names, in that order. Throws Error(resource) when one cannot
/// write its files, Error(config) when a command cannot be started.
Sinks make_loggers(const LoggerContext& context);

/// Returns the hyperparameters by which TensorBoard compares runs: the seed, batch size, precision,
/// length, and the options of the model, loss, optimizer and scheduler, by their keys in the
/// experiment file. Runs with equal hyperparameters form one group.
report::tensorboard::HParams hparams_of(const spec::Loaded& loaded);

}  // namespace trainctl::study
