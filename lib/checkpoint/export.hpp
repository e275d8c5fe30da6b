#pragma once

#include "base/files.hpp"
#include "checkpoint/manifest.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

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

/// Writes weights of a checkpoint as safetensors under the model's own names, `to` appearing
/// complete or not at all. The checkpoint is verified as far as it is read. Throws
/// Error(checkpoint) where it is damaged or has no such weights, Error(resource) where the file
/// cannot be written.
Exported export_weights(const fs::path& checkpoint, Weights weights, const fs::path& to);

}  // namespace trainctl::checkpoint
