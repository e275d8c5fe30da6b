#pragma once

#include "base/files.hpp"
#include "base/safetensors.hpp"
#include "checkpoint/manifest.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

namespace trainctl::checkpoint {

/// The weights of a checkpoint to export. model: the trained weights; ema: their average by
/// trainer.ema or trainer.swa; best: the best weights of the run so far; validated: the weights
/// used for validation, which are the average if there is one, else the model's.
enum class Weights { validated, model, ema, best };
constexpr std::array<const char*, 4> enum_names(Weights) {
  return {"validated", "model", "ema", "best"};
}

/// The result of an export.
struct Exported {
  Weights weights = Weights::model;  // never `validated`
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;
  Manifest manifest;
};

/// Writes tensors under the model's names, and the metadata if the format supports it.
using WriteWeights = std::function<void(std::span<const safetensors::View> tensors,
                                        const std::map<std::string, std::string>& metadata)>;

/// Passes weights of a checkpoint to `write`. Verifies everything that it reads. Throws
/// Error(checkpoint) when the checkpoint is damaged or has no such weights, and rethrows errors of
/// `write`.
Exported export_weights(const fs::path& checkpoint, Weights weights, const WriteWeights& write);

/// Writes a safetensors file atomically. Throws Error(resource) when `to` cannot be written.
Exported export_weights(const fs::path& checkpoint, Weights weights, const fs::path& to);

}  // namespace trainctl::checkpoint
