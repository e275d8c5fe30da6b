#pragma once

#include "base/files.hpp"
#include "report/sinks/sink.hpp"
#include "report/sinks/tensorboard_sink.hpp"
#include "spec/load.hpp"
#include "study/run/run.hpp"

#include <string>
#include <vector>

namespace trainctl::study {

/// What loggers need beside their options.
struct LoggerPlace {
  fs::path run_dir;
  const spec::Loaded& loaded;
  report::ConsoleOptions console;  // its metrics are used by every logger
  std::string version;             // of trainctl
  std::string host;
  int restarts = 0;                           // starts of this run before this one
  std::vector<std::string> class_names = {};  // of dataset.train; empty: numbers alone
  /// See TensorboardOptions; empty: no pictures.
  decltype(report::TensorboardOptions::picture) picture = {};
};

/// The listeners that `loggers:` names, in their order. Throws Error(resource) where one cannot
/// write, Error(config) where a command cannot be started.
Sinks make_loggers(const LoggerPlace& place);

/// What TensorBoard compares runs by: the seed, batch size, precision, length, and the options of
/// the model, loss, optimizer and scheduler, by their keys in the file. Runs that are alike in all
/// of them make one group.
report::tensorboard::HParams hparams_of(const spec::Loaded& loaded);

}  // namespace trainctl::study
