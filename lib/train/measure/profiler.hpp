#pragma once

#include "spec/experiment/experiment.hpp"
#include "train/loop/session.hpp"
#include "train/measure/layer_times.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>

namespace trainctl::train {

/// Records what a few steps of training do, with Kineto, PyTorch's own tracer. Writes
/// profile/trace.json, which chrome://tracing and https://ui.perfetto.dev show, the table of
/// operators as profile/operators.txt and .csv, and that of the layers as profile/layers.txt and
/// .csv. Outside the recorded steps it costs a comparison a step, and nothing observes operators.
class Profiler {
 public:
  /// `session` outlives it.
  Profiler(const spec::Profiler& options, at::Device device, const Session& session);
  /// Stops without writing.
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// Before the first batch of a step; the thread is that of the training loop.
  void before_step();
  /// Writes what was recorded where the run ends within the recorded steps.
  void finish();
  /// Where the files are; empty before they are written.
  [[nodiscard]] const std::filesystem::path& written() const { return written_; }

 private:
  enum class State { waits, warms_up, records, done };
  void start();
  void stop();
  void write_layers(const std::filesystem::path& folder);

  spec::Profiler options_;
  at::Device device_;
  const Session& session_;
  std::optional<LayerTimes> layers_;  // while it records
  std::filesystem::path written_;
  State state_ = State::waits;
  std::int64_t step_ = 0;
};

}  // namespace trainctl::train
