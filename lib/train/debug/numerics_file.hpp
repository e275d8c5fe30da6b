#pragma once

#include "base/json.hpp"
#include "base/state_archive.hpp"
#include "data/loader/loader.hpp"
#include "train/debug/step_repeat.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trainctl::train {

/// Describes the step after which a run ended as diverged, on one rank. It holds plain values.
struct StepRecord {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  std::string cause;  // "the training loss is not finite"
  std::int64_t epoch = 0;
  std::int64_t global_step = 0;
  std::int64_t batch = 0;  // index in the epoch
  std::int64_t rows = 0;   // that are not padding
  std::int64_t accumulate = 1;
  double lr = 0;
  double loss_scale = 1;
  std::string precision;  // "bf16-mixed"
  bool channels_last = false;
  std::string device;   // "cpu", "cuda:0"
  std::string cpu;      // model and features
  std::string torch;    // version
  std::string version;  // of trainctl; empty: not known
  std::int64_t num_threads = 1;
  std::string inputs;  // name of a spec::Inputs value
  std::string targets;
  std::vector<std::uint64_t> input_shape;  // of one sample
  std::int64_t outputs = 0;
  std::int64_t vocab_size = 0;   // as in spec::SampleKind
  std::int64_t padding_id = -1;  // as in spec::SampleKind
  bool weights_before = true;    // false: `weights` were stored after the update of the step
  bool buffers_before = true;  // false: the buffers were stored after the forward pass of the step
  bool random_kept = true;     // whether the generator states from before the batch are stored
  bool repeated = false;       // whether the step was repeated; the members below are set only then
  double loss = 0;
  std::string first;
  StepDigests digests;
  std::string config;  // the resolved experiment
  std::string config_hash;

  void serialize(StateArchive& archive);
};

/// The content of a dump file, which is a container.
struct Numerics {
  StepRecord record;
  device::DeviceBatch batch;  // the input of the model; undefined `inputs`: there is no batch
  std::vector<data::RowSample> samples;                // the samples of its rows
  at::Tensor row_losses;                               // float32; undefined: unknown
  std::vector<stage::NamedTensor> weights;             // parameters and buffers
  std::vector<stage::NamedTensor> random;              // as random_states() returns them
  std::vector<events::TensorSummary> tensors, layers;  // written for people, not read back
};

/// Describes the rows whose loss is not finite, "row 3, train/cat/3.jpg: loss inf", at most 10. The
/// list is stored next to the tensors for people.
std::vector<std::string> bad_rows(const Numerics& numerics);

/// Returns the samples of the batch, for the task.
stage::BatchSamples samples_in(const Numerics& numerics);

/// Returns the metadata of the container: everything but the tensors.
Json meta_of(const Numerics& numerics);

/// Returns the number of bytes written. Writes nothing and returns 0 if the file would exceed
/// `most` bytes. Throws Error(resource) when writing fails.
std::uint64_t write_numerics(const std::filesystem::path& path, const Numerics& numerics,
                             std::uint64_t most);

/// Throws Error(checkpoint) when the file is damaged or not a dump of a step.
Numerics read_numerics(const std::filesystem::path& path);

}  // namespace trainctl::train
