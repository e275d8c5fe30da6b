#pragma once

#include "report/plan/plan.hpp"

namespace trainctl::report {

/// Returns the vendor's peak of floating-point operations per second for dense matrix products in
/// that precision; nullopt if it is not in the table. `device`: "NVIDIA H200"; `precision`: that of
/// events::Measured.
std::optional<double> peak_flops(std::string_view device, std::string_view precision);

/// Returns the peak device memory of a training step in bytes, without the program and its
/// libraries.
std::uint64_t step_bytes(const events::Measured& model);
/// Returns the host memory in bytes that `ranks` processes need in addition to loading; the first
/// process saves checkpoints.
std::uint64_t host_bytes(const events::Measured& model, int ranks = 1);
/// Returns the GPU memory sizes in GB that a process of the plan fits on: its step, the images that
/// the GPU caches, and the memory of CUDA itself.
std::vector<int> gpus_that_fit(const Plan& plan);

/// The speed of the probed steps and the values derived from it; absent without a probe.
struct PlannedSpeed {
  double step_s = 0;  // for the run's batch: median of the probe's rounds
  StepRange range;    // of the rounds
  std::size_t rounds = 0;
  double samples_per_s = 0;  // per process
  double flops_per_s = 0;
  double epoch_s = 0;                 // training only
  std::optional<double> run_s;        // absent: the number of steps is unknown
  std::optional<double> utilization;  // of the device's peak: MFU, or HFU with recomputation
};
/// Computes the speed from the probe of the plan.
std::optional<PlannedSpeed> speed_of(const Plan& plan);

/// Returns the table of the model's memory; empty if it was not measured.
std::string model_table_text(const Plan& plan, const Style& style);
/// Returns the known properties of the model, or why they are unknown, as lines of {label, text}.
std::vector<std::pair<std::string, std::string>> model_facts(const Plan& plan);
/// Returns null if the model was not measured.
Json model_json(const Plan& plan);

}  // namespace trainctl::report
