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

/// Records a few steps on rank 0 with Kineto, according to `profiler` in the configuration. Writes
/// profile/trace.json (for chrome://tracing and https://ui.perfetto.dev) and tables of operators
/// and layers as .txt and .csv. Operators are observed only during the recorded steps.
class ProfilerObserver final : public Observer {
 public:
  ProfilerObserver(const Session& session, const Options& options, Phases& phases)
      : session_(session), options_(*options.profiler), device_(options.device), phases_(phases) {}
  /// Stops recording without writing files.
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
  std::optional<LayerTimes> layers_;  // set while it records
  State state_ = State::waits;
  std::int64_t step_ = 0;
};

// The operators of the recorded steps, summed by name and shapes. The rows are plain values without
// libtorch.

/// The name of a call that is an allocation or deallocation, not an operator.
inline constexpr const char* kMemoryCall = "[memory]";

struct OperatorCall {
  std::string name;                               // "aten::addmm"
  std::vector<std::vector<std::int64_t>> shapes;  // of its inputs, if recorded
  std::uint64_t thread = 0;
  bool on_device = false;
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t flops = 0;
  std::int64_t bytes = 0;  // if the name is kMemoryCall: allocated, or freed if negative
};

struct OperatorRow {
  std::string name;
  std::string shapes;  // "[128, 784] [784] ..."; empty if not recorded
  bool on_device = false;
  std::int64_t calls = 0;
  double self_ms = 0;   // without the operators that it calls
  double total_ms = 0;  // with the operators that it calls
  double gflops = 0;
  double mbytes = 0;  // allocated minus freed by the operator itself
};

/// Sums the calls by name and shapes and sorts by self time, descending. A call within another call
/// of the same thread is its child.
std::vector<OperatorRow> operator_rows(std::vector<OperatorCall> calls);
/// Sums the rows of each operator over its input shapes.
std::vector<OperatorRow> merge_shapes(const std::vector<OperatorRow>& rows);

std::string operators_as_csv(const std::vector<OperatorRow>& rows);
/// Lists the 40 rows with the most time.
std::string operators_as_text(const std::vector<OperatorRow>& rows);

}  // namespace trainctl::train
