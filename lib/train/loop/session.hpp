#pragma once

#include "base/clock.hpp"
#include "checkpoint/manifest.hpp"
#include "data/loader/loader.hpp"
#include "dist/communicator.hpp"
#include "events/records.hpp"
#include "stage/stages.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainctl::train {

using EventSink = std::function<void(const events::Event&)>;

/// What a model is measured with, on one split. All of it outlives the Evaluator.
struct Evaluation {
  stage::Model& model;
  stage::Loss& loss;
  std::vector<std::unique_ptr<stage::Metric>>& metrics;
  data::Loader& loader;
  std::string split;            // "val": its values are called val/loss, val/accuracy, ...
  std::int64_t batch_size = 0;  // rows of a full batch of one rank
  dist::Communicator& communicator;
  bool labeled = true;  // else the outputs alone are wanted: neither loss nor metrics
};

/// What the loop works with; owned by the engine or by a test, and alive as long as the loop.
struct Session {
  stage::Model& model;
  stage::Loss& loss;
  stage::Optimizer& optimizer;
  stage::Scheduler& scheduler;
  stage::Stopper* stopper = nullptr;  // null: no early stopping
  std::vector<std::unique_ptr<stage::Metric>>& metrics;
  data::Loader& train;
  data::Loader* validation = nullptr;  // null: no validation
  std::int64_t batch_size = 0;         // rows of a full batch of one rank
  dist::Communicator& communicator;
  dist::BucketOptions buckets;
  const Clock& clock;
  EventSink emit;
  events::Heartbeat* heartbeat = nullptr;
  const volatile int* stop_signal = nullptr;
  std::filesystem::path run_dir;     // checkpoints/ is written below it
  checkpoint::Manifest origin = {};  // version, config_hash and facts, as each manifest tells them
  int cores = 0;                     // that this rank may use; 0: not known
};

}  // namespace trainctl::train
