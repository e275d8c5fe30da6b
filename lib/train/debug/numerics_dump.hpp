#pragma once

#include "train/debug/numerics_file.hpp"
#include "train/loop/loop_state.hpp"
#include "train/loop/options.hpp"
#include "train/loop/session.hpp"
#include "train/state/saved_state.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace trainctl::train {

/// Why and where a run ends as diverged.
struct Divergence {
  std::string cause;  // "the training loss is not finite"
  Position position;
  std::int64_t steps_ago = 0;  // a GPU tells late: so many steps before `position`
  double loss_scale = 1;
  bool weights_kept = true;  // they are those before that step
};

/// Leaves "diverged/step=000123/" in the run folder: rank_N.part, from which that step can be
/// repeated, and of rank 0 report.txt and report.json, which tell what the repetition at once
/// found. Ranks whose own batch was sound leave none, but for rank 0.
class NumericsDump {
 public:
  NumericsDump(const Session& session, const Options& options);

  /// Before each batch of training; costs no memory and a fraction of a microsecond.
  void begin(const data::Batch& batch, const device::DeviceBatch& on_device, double lr);
  /// The batch has passed: what fails from here on is none of it.
  void end() { batch_ = nullptr; }

  /// What the message of the failure is to say of it, in one clause. Never throws, so that it hides
  /// no cause.
  std::string write(const Divergence& divergence) noexcept;

 private:
  std::string write_all(const Divergence& divergence);
  void take_batch(const Divergence& divergence, Numerics& numerics);
  void reload(std::int64_t index, Numerics& numerics);
  void repeat(Numerics& numerics);
  [[nodiscard]] StepRecord record_of(const Divergence& divergence) const;

  const Session& session_;
  const Options& options_;
  KeptRandom random_;
  const data::Batch* batch_ = nullptr;  // null: none is under way
  const device::DeviceBatch* on_device_ = nullptr;
  double lr_ = 0;
};

/// "diverged/step=000123", below a run folder.
std::filesystem::path diverged_folder(std::int64_t global_step);

}  // namespace trainctl::train
