#pragma once

#include "checkpoint/manifest.hpp"
#include "train/measure/auto_settings.hpp"
#include "train/measure/backends.hpp"

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace trainctl::engine {

/// The input of origin_of().
struct OriginContext {
  const std::filesystem::path& run_dir;
  at::Device device = at::kCPU;
  const train::ThreadChoice& threads;
  bool channels_last = false;
  const train::BackendSettings& backends;
  const std::map<std::string, std::string>& data_fingerprints;
};

/// Returns what the manifests of a run record: version, config_hash and facts: "torch", "threads",
/// "threads_taken" (see ThreadChoice::taken; absent if 0), "channels_last", "fp32_precision",
/// "benchmark", "device", "cpu", "cpu_features", "gpu" and "cuda" on a GPU, "data.train",
/// "data.val", "data.split" (how dataset.split divides the data), "config" (config.resolved.yaml).
checkpoint::Manifest origin_of(const OriginContext& context);

/// Returns the number of threads that wrote the checkpoint; nullopt if it is not recorded.
std::optional<int> threads_of(const checkpoint::Manifest& saved);

/// Returns the share of the cores that other processes used when the number was chosen.
double threads_taken_of(const checkpoint::Manifest& saved);

/// Returns whether the run used channels-last images; nullopt if the checkpoint does not record it.
std::optional<bool> channels_last_of(const checkpoint::Manifest& saved);

/// The current run, to compare with a checkpoint.
struct ResumeContext {
  const checkpoint::Manifest& origin;
  int world_size = 1;
  std::string buckets;
  bool local_sgd = false;  // on several ranks
};

/// Returns the splits whose data differs from that of the checkpoint, with their fingerprints:
/// "dataset.train: 1f3a... -> 90c2...". Empty if none differs, or if the checkpoint has no
/// fingerprints.
std::string changed_data(const checkpoint::Manifest& saved, const checkpoint::Manifest& now);

/// Returns why a run that resumes from the checkpoint does not compute the same bits as the run
/// that wrote it: "2 threads before, 1 now; torch 2.11.0 before, 2.12.0 now". Empty if it does.
std::string why_not_bitwise(const checkpoint::Manifest& saved, const ResumeContext& now);

}  // namespace trainctl::engine
