#pragma once

#include "base/clock.hpp"
#include "train/measure/layer_trace.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// Time and operations of each layer of a step, as tables. The rows are plain values without
// libtorch.

namespace trainctl::train {

/// Means over the recorded steps.
struct LayerRow {
  std::string layer;       // "layer3.1.conv2"
  std::string kind;        // operator that takes the layer's parameters, "conv2d"; empty: none did
  double calls = 0;        // number of such operators in the forward pass
  double forward_ms = 0;   // includes the operators without parameters that follow
  double backward_ms = 0;  // includes recomputation
  double share = 0;        // of the step's time
  double gflops = 0;       // of both passes
  std::vector<std::int64_t> output;  // shape of the last output of such an operator
};

struct LayerTableHeader {
  std::int64_t steps = 0;
  bool on_device = false;  // times are from CUDA events on the stream of a GPU
};

std::string layers_as_csv(const std::vector<LayerRow>& rows);
/// Keeps the order of the model.
std::string layers_as_text(const std::vector<LayerRow>& rows, const LayerTableHeader& head);

/// Returns "[64, 16, 28, 28]".
std::string shape_text(const std::vector<std::int64_t>& shape);
/// Returns the text in double quotes and doubles the quotes within it.
std::string csv_quoted(const std::string& text);

/// Measures each layer in the steps that run while it lives: times of both passes (on a GPU from
/// CUDA events), operations, output shape. Create and destroy it on one thread, and destroy it
/// before any observer of operators that was started earlier.
class LayerTimes {
 public:
  LayerTimes(const stage::Model& model, at::Device device, const Clock& clock);
  ~LayerTimes();
  LayerTimes(const LayerTimes&) = delete;
  LayerTimes& operator=(const LayerTimes&) = delete;

  /// Call it when all work of a step has been launched.
  void end_step();
  [[nodiscard]] std::int64_t steps() const;
  /// Stops measuring and returns every layer that has parameters in the order of the model. The
  /// first row is the code before the first layer, and the last row is the loss.
  std::vector<LayerRow> finish();

 private:
  class State;

  std::shared_ptr<State> state_;
  std::optional<LayerScope> scope_;
};

}  // namespace trainctl::train
