#pragma once

#include "events/pipe.hpp"
#include "report/invented.hpp"
#include "study/run/run.hpp"
#include "support/temp_folder.hpp"

#include <sys/stat.h>

#include <fstream>
#include <string>

// Complete runs whose worker is a shell script.

namespace fake_run {

using namespace trainctl;

/// Returns a request whose script replaces `trainctl worker`.
inline study::RunRequest request(const TempFolder& folder, const std::string& script) {
  const fs::path worker = folder / "worker.sh";
  std::ofstream(worker) << "#!/bin/sh\n" << script;
  ::chmod(worker.c_str(), 0755);
  const fs::path file = folder / "experiment.yaml";
  std::ofstream(file) << "name: fake\n"
                         "dataset: { train: { type: synthetic_digits } }\n"
                         "model: { type: linear }\n"
                         "optimizer: { type: sgd, lr: 0.1 }\n"
                         "trainer: { accelerator: cpu }\n";
  config::Diagnostics diagnostics;
  study::RunRequest request;
  request.loaded = spec::load_experiment(file, {}, diagnostics);
  request.config_file = file;
  request.folder = {.name = "fake", .root = folder / "runs"};
  request.executable = worker;
  return request;
}

/// Returns the request with `--resume` in that run folder.
inline study::RunRequest resume_request(study::RunRequest request, const fs::path& run_dir) {
  request.folder.fixed = run_dir;
  request.resume = study::parse_resume("auto");
  return request;
}

// Writes through /dev/fd, because dash only supports descriptors of one digit.
inline std::string emit(const events::Event& event) {
  return "printf '%s\\n' '" + events::encode(event) + "' > \"/dev/fd/$TRAINCTL_EVENT_FD\"\n";
}

/// Returns the events of a successful run of one epoch.
inline std::string one_epoch(const events::RunStarted& started) {
  return emit(events::Hello{.host = "here", .device = "cpu"}) + emit(started) +
         emit(invented::epoch(0)) +
         emit(events::Finished{.epochs = 1, .global_step = 938, .stop_reason = "max_epochs"});
}

/// Returns the events of two successful epochs.
inline std::string two_epochs() {
  return emit(events::Hello{.host = "here", .device = "cpu", .startup_s = 0.25}) +
         emit(events::RunStarted{.max_epochs = 2,
                                 .num_workers = 4,
                                 .prefetch_factor = 2,
                                 .num_workers_why = "probe: 4 workers keep up",
                                 .num_threads = 3,
                                 .num_threads_why = "asked"}) +
         emit(invented::epoch(0)) + emit(invented::epoch(1)) +
         emit(events::Finished{
             .epochs = 2, .global_step = 1876, .data_digest = "abc", .stop_reason = "max_epochs"});
}

}  // namespace fake_run
