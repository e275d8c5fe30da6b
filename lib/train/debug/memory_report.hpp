#pragma once

#include "train/step/forward.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::train {

/// The output tensor of a layer.
struct LayerOutput {
  std::string where = "";  // "layer1.0.conv1", "after layer1.0.bn1", "before the first layer"
  std::string op = "";     // "conv2d"
  std::vector<std::int64_t> shape = {};
  std::string dtype = "";  // "float32"
  double mib = 0;
};

/// The memory use of a process that ran out of memory in training. Sizes are in MiB.
struct MemoryUse {
  std::string cause = "";       // the message of the allocator
  std::string phase = "";       // "train"
  std::int64_t step = 0;        // of the optimizer, from 0
  std::int64_t batch = 0;       // rows of one rank
  std::int64_t accumulate = 1;  // batches of a step, as configured
  double before = 0;            // allocated before the first step: weights, data, the program
  double peak = 0;              // peak of the allocated memory
  double now = 0;               // still allocated after the tensors of the step were freed
  std::optional<double> free = std::nullopt;  // available in addition to `now`; nullopt: unknown,
                                              // unless the allocator's message has it
  std::vector<LayerOutput> largest = {};      // for one batch, largest first; empty: unknown
};

/// Returns the size in MiB that follows `words` ("tried to allocate") in the message of an
/// allocator: "8589934592 bytes", "20.00 GiB". Returns nullopt if there is no size.
std::optional<double> size_after(const std::string& text, const std::string& words);

/// Returns the largest batch size that would fit, assuming that the memory beyond `before` is
/// proportional to the batch. Returns 0 if not even one row fits, or if too little is known.
std::int64_t fitting_batch(const MemoryUse& use);

/// Returns whether one row of the batch would fit: its share of the refused allocation is less than
/// half of the free memory.
bool has_room_for_a_row(const MemoryUse& use);

/// Returns the text of the error: what allocation failed in which phase, and which options to
/// change.
std::string memory_report(const MemoryUse& use);

/// Returns the largest outputs of the layers for a batch of `rows`: one per layer, at most `count`,
/// largest first. Runs a forward pass on the few rows of `inputs` in evaluation mode and scales the
/// sizes to `rows`. Omits views and outputs smaller than a hundredth of the largest.
std::vector<LayerOutput> largest_outputs(stage::Model& model, const at::Tensor& inputs,
                                         const ForwardOptions& options, std::int64_t rows,
                                         std::size_t count = 5);

}  // namespace trainctl::train
