#pragma once

#include "train/options.hpp"
#include "train/session.hpp"
#include "train/weights.hpp"

#include <optional>
#include <string>

namespace trainctl::train {

/// Keeps the best weights in memory, and writes checkpoints/best.safetensors and last.safetensors. All ranks keep them,
/// rank 0 writes.
class Keeper {
 public:
  Keeper(const Session& session, const Options& options);

  /// Takes the weights where `monitored` is the best so far. Returns whether it is.
  bool observe(const Position& position, double monitored);
  /// At the end of an epoch: writes the best if it is new and its turn has come.
  void save_due(std::int64_t epoch);
  /// At the end of the run: what is still to be written.
  void save_all(const Position& position);
  /// The best weights become the model's; nothing where there are none.
  void restore_best();

 private:
  void save_best();

  const Session& session_;
  const Options& options_;
  bool writes_;
  std::optional<Snapshot> best_;
  double best_value_ = 0;
  Position best_position_;
  bool unsaved_ = false;
};

}  // namespace trainctl::train
