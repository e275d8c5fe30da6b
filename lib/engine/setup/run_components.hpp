#pragma once

#include "data/loader/loader.hpp"
#include "dist/communicator.hpp"
#include "engine/entry.h"
#include "events/records.hpp"
#include "spec/experiment/run_size.hpp"
#include "spec/experiment/task.hpp"
#include "stage/registry.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

namespace trainctl::engine {

/// The data of a run, open and cached, on one of its ranks.
struct RunData {
  data::Pipeline train;
  std::optional<data::Pipeline> validation;  // nothing: no validation
  data::Shard shard;
  std::map<std::string, std::string> fingerprints;
  std::optional<spec::Learnt> learnt;  // what the model has learnt, where other data says it

  /// One sample as the model sees it.
  [[nodiscard]] stage::ModelContext model_context() const;
};

/// One sample of a pipeline as the model sees it.
stage::ModelContext model_context_of(const data::Pipeline& pipeline);

/// What the model of the experiment is built for: as the task says, or as dataset.train does, which
/// is opened then. Throws Error(data).
stage::ModelContext model_context(const spec::Experiment& experiment, const spec::Task& task);

/// Throws Error(data), or Error(config) where the splits do not fit each other.
RunData open_data(const spec::Experiment& experiment, data::Shard shard, int ranks_here,
                  at::Device device);

/// Opens one split, or the input of the task, for an evaluation, in the place of the training data:
/// without batch transforms, and not cached. Throws Error(config) for random transforms,
/// Error(checkpoint) where `dataset.split` divides other data than the run that made the weights.
RunData open_split(const spec::Experiment& experiment, const spec::Task& task, data::Shard shard);

/// A sentence if what the split learns from training data, such as means, is not what the run that
/// made the weights used; empty if it is, or if that run has no record.
std::string changed_statistics(const spec::Experiment& experiment, const spec::Task& task);

/// What makes its batches.
struct RunLoaders {
  std::unique_ptr<data::Loader> train;
  std::unique_ptr<data::Loader> validation;  // null: no validation
};

/// The stages of a run, on their device. Loss and metrics hold on to it.
struct RunStages {
  std::unique_ptr<stage::Model> model;
  std::unique_ptr<stage::Loss> loss;
  std::unique_ptr<stage::Optimizer> optimizer;
  std::unique_ptr<stage::Scheduler> scheduler;
  std::unique_ptr<stage::Stopper> stopper;  // null: none
  std::vector<std::unique_ptr<stage::Metric>> metrics;
  std::optional<events::WeightsSet> start;  // absent: what the seed drew, and all of it is trained
};

struct StageSetup {
  const spec::Experiment& experiment;
  const stage::Catalog& catalog;
  stage::ModelContext model;
  at::Device device = at::kCPU;
  spec::RunLength schedule;
  std::filesystem::path run_dir;               // holds weights that were imported
  dist::Communicator* communicator = nullptr;  // of ranks that may share out the optimizer's state
};

/// The model draws its weights from the global generator: seed before. Those of a file are laid
/// over them, and what is frozen is kept from the optimizer.
RunStages build_stages(const StageSetup& setup);

/// How they exchange their gradients.
dist::BucketOptions buckets_of(const spec::Distributed& options);

/// One rank: nothing to form. Else Gloo on CPUs and NCCL on GPUs, found through the supervisor's
/// store. `heartbeat` tells which exchange is under way; it may be null.
std::unique_ptr<dist::Communicator> build_communicator(const TrainctlEngineRequest& request,
                                                       const spec::Distributed& options,
                                                       at::Device device,
                                                       events::Heartbeat* heartbeat);

/// The stages of stages.def, and those of the plug-ins that the experiment uses. Throws
/// Error(config) where the engine library of one cannot be loaded, or was built for another
/// trainctl or libtorch.
stage::Catalog catalog_in_use();

}  // namespace trainctl::engine
