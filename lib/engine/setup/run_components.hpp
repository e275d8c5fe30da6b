#pragma once

#include "data/loader/loader.hpp"
#include "dist/communicator.hpp"
#include "engine/entry.h"
#include "engine/setup/task_setup.hpp"
#include "events/records.hpp"
#include "spec/experiment/experiment.hpp"
#include "spec/experiment/job.hpp"
#include "stage/registry.hpp"
#include "train/state/weights.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

namespace trainctl::engine {

/// The opened and cached data of a run on one of its ranks.
struct RunData {
  data::Pipeline train;
  std::optional<data::Pipeline> validation;  // nullopt: no validation
  std::optional<data::Pipeline> test;        // nullopt: no test after training
  data::Shard shard;
  std::map<std::string, std::string> fingerprints;
  std::optional<spec::LearnedTargets>
      learned;  // what the model was trained on, if other data says so

  /// Returns the model context for one sample.
  [[nodiscard]] stage::ModelContext model_context(const config::Stage& task) const;
};

/// Returns the model context for one sample of a pipeline.
stage::ModelContext model_context_of(const data::Pipeline& pipeline, const config::Stage& task);

/// Returns the model context for samples of the data set.
stage::ModelContext model_context_of(spec::ModelInput data, const config::Stage& task);

/// Returns the model context from the job, or else from dataset.train, which is then opened.
/// Throws Error(data).
stage::ModelContext model_context(const spec::Experiment& experiment, const spec::Job& job);

/// Throws Error(data), or Error(config) if the splits do not fit together.
RunData open_data(const spec::Experiment& experiment, data::Shard shard, int ranks_here,
                  at::Device device);

/// Opens one split, or the job's input, for an evaluation, as the training data of the result:
/// without batch transforms and without a cache. Throws Error(config) for random transforms, and
/// Error(checkpoint) if `dataset.split` divides other data than in the run that trained the
/// weights.
RunData open_split(const spec::Experiment& experiment, const spec::Job& job, data::Shard shard);

/// Returns a sentence if statistics of the training data, such as means, differ from those of the
/// run that trained the weights; empty if they are equal, or if that run did not record them.
std::string changed_statistics(const spec::Experiment& experiment, const spec::Job& job);

/// The loaders of a run.
struct RunLoaders {
  std::unique_ptr<data::Loader> train;
  std::unique_ptr<data::Loader> validation;  // null: no validation
};

/// The stages of a run on their device. Loss and metrics depend on the device.
struct RunStages {
  std::unique_ptr<stage::Model> model;
  std::unique_ptr<stage::Task> task;
  std::unique_ptr<stage::Loss> loss;
  std::unique_ptr<stage::Optimizer> optimizer;
  std::unique_ptr<stage::Scheduler> scheduler;
  std::unique_ptr<stage::Stopper> stopper;  // null: no early stopping
  std::vector<std::unique_ptr<stage::Metric>> metrics;
  std::vector<train::UnfrozenLater> unfreezing;  // which frozen parameters are trained later
  std::optional<events::WeightsSet> start;       // nullopt: the seed's weights, all trained
};

/// The input of build_stages().
struct StageSetup {
  const spec::Experiment& experiment;
  const stage::Catalog& catalog;
  stage::ModelContext model;
  at::Device device = at::kCPU;
  spec::RunLength schedule;
  std::filesystem::path run_dir;               // contains imported weights
  dist::Communicator* communicator = nullptr;  // of ranks that may shard the optimizer's state
  std::vector<at::Device> devices = {};        // of data_parallel_devices()
};

/// Builds the stages. The model draws its weights from the global generator: set the seed before.
/// Weights from a file replace them, and frozen parameters are excluded from the optimizer.
RunStages build_stages(const StageSetup& setup);

/// Returns the GPUs among which data_parallel divides each batch, beginning with `device`; only
/// `device` with other strategies. Throws Error(config) if a launcher has started several ranks.
std::vector<at::Device> data_parallel_devices(const spec::Experiment& experiment, at::Device device,
                                              int world_size);

/// Returns how the ranks synchronize gradients.
dist::BucketOptions buckets_of(const spec::Distributed& options);

/// Returns the communicator of the ranks: for one rank without communication, else Gloo on CPUs and
/// NCCL on GPUs, connected through the supervisor's store. `heartbeat` shows the running
/// collective; it may be null.
std::unique_ptr<dist::Communicator> build_communicator(const TrainctlEngineRequest& request,
                                                       const spec::Distributed& options,
                                                       at::Device device,
                                                       events::Heartbeat* heartbeat);

/// Returns the stages of stages.def and of the plug-ins that the experiment uses. Throws
/// Error(config) if a plug-in's engine library cannot be loaded, or was built for another trainctl
/// or libtorch.
stage::Catalog catalog_in_use();

}  // namespace trainctl::engine
