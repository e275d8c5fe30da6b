#pragma once

#include "spec/experiment/experiment.hpp"
#include "train/loop/observer.hpp"
#include "train/loop/phases.hpp"
#include "train/loop/session.hpp"
#include "train/measure/layer_times.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

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

/// Records the first steps of a run on rank 0, as `profiler` of the configuration says.
class ProfilerObserver final : public Observer {
 public:
  ProfilerObserver(const Session& session, const Options& options, Phases& phases)
      : session_(session),
        options_(*options.profiler),
        phases_(phases),
        profiler_(options_, options.device, session) {}

  void on_step_begin(LoopState& state) override;
  void on_run_end(LoopState& state) override;

 private:
  const Session& session_;
  const spec::Profiler& options_;
  Phases& phases_;
  Profiler profiler_;
};

// The operators of a recorded window, summed by name and shapes; plain values without libtorch.

/// The name of a call that is no operator but a change of memory, at a point in time.
inline constexpr const char* kMemoryCall = "[memory]";

struct OperatorCall {
  std::string name;                               // "aten::addmm"
  std::vector<std::vector<std::int64_t>> shapes;  // of its inputs, where they were recorded
  std::uint64_t thread = 0;
  bool on_device = false;
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t flops = 0;
  std::int64_t bytes = 0;  // allocated, or below 0 freed, where the name is kMemoryCall
};

struct OperatorRow {
  std::string name;
  std::string shapes;  // "[128, 784] [784] ..."; empty where they were not recorded
  bool on_device = false;
  std::int64_t calls = 0;
  double self_ms = 0;   // without the operators it calls
  double total_ms = 0;  // with them
  double gflops = 0;
  double mbytes = 0;  // allocated by itself less freed
};

/// By name and shapes, the most time of its own first. Calls that lie within another of the same
/// thread are that one's children.
std::vector<OperatorRow> operator_rows(std::vector<OperatorCall> calls);
/// By name alone.
std::vector<OperatorRow> merge_shapes(const std::vector<OperatorRow>& rows);

std::string operators_as_csv(const std::vector<OperatorRow>& rows);
/// The 40 that take most.
std::string operators_as_text(const std::vector<OperatorRow>& rows);

}  // namespace trainctl::train
