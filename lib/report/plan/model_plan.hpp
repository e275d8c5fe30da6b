#pragma once

#include "base/json.hpp"
#include "events/records.hpp"
#include "report/plan/plan.hpp"
#include "report/text/format.hpp"

namespace trainctl::report {

/// Floating-point operations a second that a GPU does at most in dense matrix products of that
/// precision, as its maker says; nothing for one that is not in the table. `device`: "NVIDIA H200";
/// `precision`: "bf16-mixed", "16-mixed", or "tf32". Of "32-true" nothing: convolutions are
/// computed in TF32, products are not.
std::optional<double> peak_flops(std::string_view device, std::string_view precision);

/// The peak of a training step on the device that computes, the program and its libraries left out.
std::uint64_t step_bytes(const events::Measured& model);
/// The memory of the host that so many processes take beside loading; the first of them saves.
std::uint64_t host_bytes(const events::Measured& model, int ranks = 1);
/// Memory sizes, in GB, of the GPUs that a process of the plan fits on: its step, the images that
/// the GPU keeps, and what CUDA takes for itself.
std::vector<int> gpus_that_fit(const Plan& plan);

/// How fast steps were, and what follows from it; nothing without a probe.
struct PlannedSpeed {
  double step_s = 0;  // of the run's batch: the median of the rounds of the probe
  StepRange range;    // of the rounds
  std::size_t rounds = 0;
  double samples_per_s = 0;  // of a process
  double flops_per_s = 0;
  double epoch_s = 0;                 // of training alone
  std::optional<double> run_s;        // nothing where the steps are not known
  std::optional<double> utilization;  // of the device's peak, where that is known: MFU, or HFU
                                      // with what checkpointed activations compute again
};
std::optional<PlannedSpeed> speed_of(const Plan& plan);

/// The table of the model's memory; empty where it was not measured.
std::string model_table_text(const Plan& plan, const Style& style);
/// What is known of the model, or why nothing is, as lines of {label, text}.
std::vector<std::pair<std::string, std::string>> model_facts(const Plan& plan);
/// null where it was not measured.
Json model_json(const Plan& plan);

}  // namespace trainctl::report
