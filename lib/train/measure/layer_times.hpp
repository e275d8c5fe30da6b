#pragma once

#include "base/clock.hpp"
#include "train/measure/layer_trace.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// What each layer takes of a step, as tables; plain values without libtorch.

namespace trainctl::train {

/// The means of the recorded steps.
struct LayerRow {
  std::string layer;       // "layer3.1.conv2"
  std::string kind;        // the operator that takes its parameters, "conv2d"; empty: none did
  double calls = 0;        // of such operators in the forward pass
  double forward_ms = 0;   // with the operators without parameters that follow
  double backward_ms = 0;  // with what is computed again there
  double share = 0;        // of the step's time
  double gflops = 0;       // of both passes
  std::vector<std::int64_t> output;  // the shape of what such an operator returned last
};

struct LayerTableHead {
  std::int64_t steps = 0;
  bool on_device = false;  // times of a GPU, between marks on its stream
};

std::string layers_as_csv(const std::vector<LayerRow>& rows);
/// In the order of the model.
std::string layers_as_text(const std::vector<LayerRow>& rows, const LayerTableHead& head);

/// "[64, 16, 28, 28]"
std::string shape_text(const std::vector<std::int64_t>& shape);
/// The text in quotes, with those within it doubled.
std::string csv_quoted(const std::string& text);

/// Measures each layer in the steps that run while it lives: times of both passes (on a GPU by
/// marks on its stream), operations, the shape of its output. It belongs to the thread that made
/// it, and ends before whatever observes operators that was begun earlier.
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
