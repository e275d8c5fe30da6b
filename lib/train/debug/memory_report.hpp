#pragma once

#include "train/step/forward.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::train {

/// A tensor that a layer returns.
struct LayerOutput {
  std::string where = "";  // "layer1.0.conv1", "after layer1.0.bn1", "before the first layer"
  std::string op = "";     // "conv2d"
  std::vector<std::int64_t> shape = {};
  std::string dtype = "";  // "float32"
  double mib = 0;
};

/// What is known of a process whose allocator gave up in training; sizes in MiB.
struct MemoryUse {
  std::string cause = "";       // the allocator's own words
  std::string phase = "";       // "train"
  std::int64_t step = 0;        // of the optimizer, from 0
  std::int64_t batch = 0;       // rows of one rank
  std::int64_t accumulate = 1;  // batches of a step, as configured
  double before = 0;            // held before the first step: weights, data, the program
  double peak = 0;              // held at most
  double now = 0;               // still held, when what the step held was given back
  std::optional<double> free =
      std::nullopt;  // what there is beyond `now`; nothing: the allocator says it, or nobody
  std::vector<LayerOutput> largest = {};  // of a batch, the largest first; none: not known
};

/// The size in MiB after `words` ("tried to allocate") in what an allocator said: "8589934592
/// bytes", "20.00 GiB". Nothing where it is not there.
std::optional<double> size_after(const std::string& text, const std::string& words);

/// The largest batch that would fit, if what is held beyond the start grows with the batch; 0: not
/// even one row does, or too little is known.
std::int64_t fitting_batch(const MemoryUse& use);

/// Whether there is room for a row of the batch: its share of what was refused is less than half of
/// what is free.
bool has_room_for_a_row(const MemoryUse& use);

/// Where and of what the memory ran out, and what to change.
std::string memory_report(const MemoryUse& use);

/// Returns the largest outputs of the layers for a batch of `rows`, one a layer, at most `count`,
/// the largest first: those of a forward pass of the few rows of `inputs` in evaluation mode,
/// scaled to `rows`. Views are left out, and what is less than a hundredth of the largest.
std::vector<LayerOutput> largest_outputs(stage::Model& model, const at::Tensor& inputs,
                                         const ForwardOptions& options, std::int64_t rows,
                                         std::size_t count = 5);

}  // namespace trainctl::train
