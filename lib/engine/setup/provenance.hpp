#pragma once

#include "checkpoint/manifest.hpp"

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace trainctl::engine {

struct OriginContext {
  const std::filesystem::path& run_dir;
  at::Device device = at::kCPU;
  int threads = 1;
  bool channels_last = false;
  const std::map<std::string, std::string>& data_fingerprints;
};

/// What the manifests of a run tell of it: version, config_hash and facts: "torch", "threads",
/// "channels_last", "device", "cpu", "cpu_features", "gpu" and "cuda" on a GPU, "data.train",
/// "data.val", "data.split" (how dataset.split divides the data), "config" (config.resolved.yaml).
checkpoint::Manifest origin_of(const OriginContext& context);

/// The threads with which a checkpoint was computed; nothing where it does not tell.
std::optional<int> threads_of(const checkpoint::Manifest& saved);

/// The memory format of images in that run: whether it had the channels last; nothing where the
/// checkpoint does not record it.
std::optional<bool> channels_last_of(const checkpoint::Manifest& saved);

/// A run as it stands, for the comparison with a checkpoint.
struct Standing {
  const checkpoint::Manifest& origin;
  int world_size = 1;
  std::string buckets;
  bool local_sgd = false;  // on several ranks
};

/// The splits whose data is not what the checkpoint was trained on, by their fingerprints:
/// "dataset.train: 1f3a... -> 90c2...". Empty: there are none, or the checkpoint does not tell.
std::string changed_data(const checkpoint::Manifest& saved, const checkpoint::Manifest& now);

/// Why a run that goes on from the checkpoint computes other numbers than the one that wrote it
/// would have: "2 threads before, 1 now; torch 2.11.0 before, 2.12.0 now". Empty: it does not.
std::string why_not_bitwise(const checkpoint::Manifest& saved, const Standing& now);

}  // namespace trainctl::engine
