#pragma once

#include "train/loop/observer.hpp"
#include "train/loop/session.hpp"

namespace trainctl::train {

/// Asks the session's stopper, on every rank about the same values, whether training should end.
class EarlyStopping final : public Observer {
 public:
  /// `session` outlives it, and has a stopper.
  EarlyStopping(const Session& session, const Options& options)
      : session_(session), options_(options) {}

  void on_step_end(LoopState& state) override;
  void on_validation_end(LoopState& state) override;
  void on_epoch_report(LoopState& state) override;

  [[nodiscard]] std::string_view state_key() const override { return "stopper"; }
  void serialize(StateArchive& archive) override { session_.stopper->serialize(archive); }

 private:
  const Session& session_;
  const Options& options_;
};

}  // namespace trainctl::train
