#pragma once

#include "base/clock.hpp"
#include "base/machine/host_waits.hpp"
#include "checkpoint/manifest.hpp"
#include "data/loader/loader.hpp"
#include "device/device.hpp"
#include "dist/communicator.hpp"
#include "events/records.hpp"
#include "stage/task.hpp"
#include "train/state/weights.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace trainctl::train {

using EventSink = std::function<void(const events::Event&)>;

/// What an Evaluator needs to evaluate a model on one split. All members outlive the Evaluator.
struct Evaluation {
  stage::Model& model;
  stage::Loss& loss;
  std::vector<std::unique_ptr<stage::Metric>>& metrics;
  data::Loader& loader;
  std::string split;            // "val": its values are called val/loss, val/accuracy, ...
  std::int64_t batch_size = 0;  // rows of a full batch on one rank
  dist::Communicator& communicator;
  bool labeled = true;  // false: neither loss nor metrics are computed, only outputs
  device::FeedFactory make_feed = device::make_feed;
  stage::Task& task = stage::supervised_task();
};

/// The objects that the loop uses. The engine or a test owns them, and they outlive the loop.
struct Session {
  stage::Model& model;
  stage::Task& task = stage::supervised_task();
  stage::Loss& loss;
  stage::Optimizer& optimizer;
  stage::Scheduler& scheduler;
  stage::Stopper* stopper = nullptr;  // null: no early stopping
  std::vector<std::unique_ptr<stage::Metric>>& metrics;
  std::vector<UnfrozenLater> unfreezing = {};  // which frozen parameters are trained later
  data::Loader& train;
  data::Loader* validation = nullptr;  // null: no validation
  std::int64_t batch_size = 0;         // rows of a full batch on one rank
  dist::Communicator& communicator;
  dist::BucketOptions buckets;
  const Clock& clock;
  EventSink emit;
  events::Heartbeat* heartbeat = nullptr;
  const volatile int* stop_signal = nullptr;
  std::filesystem::path run_dir;     // checkpoints/ is created in it
  checkpoint::Manifest origin = {};  // version, config_hash and facts for every manifest
  int cores = 0;                     // CPU cores that this rank may use; 0: unknown
  /// The host waits of the process that do not belong to this run.
  std::map<std::string, std::int64_t> earlier_waits = host_waits();
  device::FeedFactory make_feed = device::make_feed;
  /// Returns null on a device without CUDA graphs.
  std::function<std::unique_ptr<device::StepGraph>(at::Device)> make_graph =
      device::make_step_graph;
  /// Returns null on a CPU, where work is done when its call returns.
  std::function<std::unique_ptr<device::Event>(at::Device)> make_event = [](at::Device on) {
    return device::make_event(on);
  };
};

}  // namespace trainctl::train
