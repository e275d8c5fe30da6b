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

/// Of the step after which a run ended as diverged, on one rank: its plain values.
struct StepRecord {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  std::string cause;  // "the training loss is not finite"
  std::int64_t epoch = 0;
  std::int64_t global_step = 0;
  std::int64_t batch = 0;  // of the epoch
  std::int64_t rows = 0;   // that count
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
  std::string inputs;  // spec::Inputs
  std::string targets;
  std::vector<std::uint64_t> input_shape;  // of one sample
  std::int64_t outputs = 0;
  bool weights_before = true;  // else they have taken the step in
  bool buffers_before = true;  // else they have seen its forward pass
  bool random_kept = true;     // the generators as they stood before the batch
  bool repeated = false;       // what follows is known
  double loss = 0;
  std::string first;
  StepDigests digests;
  std::string config;  // the resolved experiment
  std::string config_hash;

  void serialize(StateArchive& archive);
};

/// What the file of a dump, a container, holds.
struct Numerics {
  StepRecord record;
  device::DeviceBatch batch;                // as the model saw it; inputs undefined: there is none
  std::vector<data::RowSample> samples;     // of its rows
  at::Tensor row_losses;                    // float32; undefined: not known
  std::vector<stage::NamedTensor> weights;  // parameters and buffers
  std::vector<stage::NamedTensor> random;   // of random_states()
  std::vector<events::TensorSummary> tensors, layers;  // not read back
};

/// Beside it for people: which rows have a loss that is not finite, "row 3, train/cat/3.jpg: loss
/// inf", at most 10.
std::vector<std::string> bad_rows(const Numerics& numerics);

/// What the container says beside its tensors.
Json meta_of(const Numerics& numerics);

/// Returns the bytes written, 0 where more than `most` would be: then nothing is. Throws
/// Error(resource) where the disk refuses.
std::uint64_t write_numerics(const std::filesystem::path& path, const Numerics& numerics,
                             std::uint64_t most);

/// Throws Error(checkpoint) where the file is damaged or no such dump.
Numerics read_numerics(const std::filesystem::path& path);

}  // namespace trainctl::train
