#pragma once

#include "base/clock.hpp"
#include "train/measure/layer_table.hpp"
#include "train/measure/layer_trace.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace trainctl::train {

/// What each layer of a model takes of the steps that run while it lives: time of the forward and
/// of the backward pass, operations, the shape of its output. It reads the passes off the parts of
/// the step that the trainer names. On a GPU the times are those of marks on its stream. Belongs to
/// the thread that made it, and ends before whatever observes operators that was begun earlier.
class LayerTimes {
 public:
  LayerTimes(const stage::Model& model, at::Device device, const Clock& clock);
  ~LayerTimes();
  LayerTimes(const LayerTimes&) = delete;
  LayerTimes& operator=(const LayerTimes&) = delete;

  /// All work of a step is launched.
  void end_step();
  [[nodiscard]] std::int64_t steps() const;
  /// Observes no more. Every layer that has parameters, in the order of the model; before and
  /// behind them what ran before the first layer, and the loss.
  std::vector<LayerRow> finish();

 private:
  class State;

  std::shared_ptr<State> state_;
  std::optional<LayerScope> scope_;
};

}  // namespace trainctl::train
