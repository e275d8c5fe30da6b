#pragma once

#include <cstdint>
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

/// What the tables are of.
struct LayerTableHead {
  std::int64_t steps = 0;
  bool on_device = false;  // times of a GPU, between marks on its stream
};

std::string layers_as_csv(const std::vector<LayerRow>& rows);
/// In the order of the model.
std::string layers_as_text(const std::vector<LayerRow>& rows, const LayerTableHead& head);

/// "[64, 16, 28, 28]"
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace trainctl::train
