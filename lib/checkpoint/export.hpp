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

/// Which of the weights that a checkpoint holds. model: those that are trained; ema: their average,
/// of trainer.ema or trainer.swa; best: the best of the run up to then; validated: what validation
/// saw, the average where there is one, else the model's.
enum class Weights { validated, model, ema, best };
constexpr std::array<const char*, 4> enum_names(Weights) {
  return {"validated", "model", "ema", "best"};
}

/// What was exported.
struct Exported {
  Weights weights = Weights::model;  // never `validated`
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;
  Manifest manifest;
};

/// Writes tensors under the model's names, and metadata where the format has a place for it.
using WriteWeights = std::function<void(std::span<const safetensors::View> tensors,
                                        const std::map<std::string, std::string>& metadata)>;

/// Gives weights of a checkpoint to `write`. The checkpoint is verified as far as it is read.
/// Throws Error(checkpoint) where it is damaged or has no such weights, and what `write` throws.
Exported export_weights(const fs::path& checkpoint, Weights weights, const WriteWeights& write);

/// The same into a safetensors file, `to` appearing complete or not at all. Throws Error(resource)
/// where it cannot be written.
Exported export_weights(const fs::path& checkpoint, Weights weights, const fs::path& to);

}  // namespace trainctl::checkpoint
