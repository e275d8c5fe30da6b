#pragma once

#include "train/loop/observer.hpp"
#include "train/loop/phases.hpp"
#include "train/measure/layer_times.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::train {

/// Records a few steps of rank 0 with Kineto, as `profiler` of the configuration says. Writes below
/// profile/ trace.json (for chrome://tracing and https://ui.perfetto.dev) and, as .txt and .csv,
/// tables of operators and layers. Outside the recorded steps nothing observes operators.
class ProfilerObserver final : public Observer {
 public:
  ProfilerObserver(const Session& session, const Options& options, Phases& phases)
      : session_(session), options_(*options.profiler), device_(options.device), phases_(phases) {}
  /// Stops without writing.
  ~ProfilerObserver() override;

  void on_step_begin(LoopState& state) override;
  void on_run_end(LoopState& state) override;

 private:
  enum class State { waits, warms_up, records, done };
  void start();
  void stop();

  const Session& session_;
  const spec::Profiler& options_;
  at::Device device_;
  Phases& phases_;
  std::optional<LayerTimes> layers_;  // while it records
  State state_ = State::waits;
  std::int64_t step_ = 0;
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
std::vector<OperatorRow> merge_shapes(const std::vector<OperatorRow>& rows);

std::string operators_as_csv(const std::vector<OperatorRow>& rows);
/// The 40 that take most.
std::string operators_as_text(const std::vector<OperatorRow>& rows);

}  // namespace trainctl::train
