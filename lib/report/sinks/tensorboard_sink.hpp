#pragma once

#include "report/sinks/sink.hpp"
#include "report/sinks/tensorboard_events.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainctl::report {

struct TensorboardOptions {
  std::filesystem::path folder;  // of the event files; made where it is missing
  std::string host;
  std::function<double()> wall_time;           // seconds since 1970
  std::int64_t histograms_every_n_epochs = 1;  // 0: none
  /// Encodes RGB rows as a PNG file; empty: no pictures are written.
  std::function<tensorboard::Picture(int width, int height, const std::vector<unsigned char>& rgb)>
      picture;
  std::string config;  // YAML, shown under Text
  tensorboard::HParams hparams;
};

/// One event file for each start of a run. By step, `step/...`; by epoch the metrics under their
/// own names, `lr`, `time_share/...` (of the wall time), `throughput/...` and `machine/...`; all at
/// the global step. A run that goes on says from which step, so that readers forget what came
/// after. Records reach the kernel one by one and the disk at each epoch; what a full disk does not
/// take waits in a Backlog.
std::unique_ptr<Sink> make_tensorboard_sink(TensorboardOptions options);

}  // namespace trainctl::report
