#pragma once

#include "train/loop/observer.hpp"
#include "train/loop/options.hpp"
#include "train/loop/session.hpp"

namespace trainctl::train {

/// Writes the images of Task::samples() after each epoch, as one PNG file in samples/ of the run
/// folder. Does nothing for tasks that make none.
class SampleGrid final : public Observer {
 public:
  SampleGrid(const Session& session, const Options& options)
      : session_(session), options_(options) {}
  void on_validation_end(LoopState& state) override;

 private:
  const Session& session_;
  const Options& options_;
};

}  // namespace trainctl::train
