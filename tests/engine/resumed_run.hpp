#pragma once

#include "train/fake_run.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

// Small runs of real stages that are interrupted and resumed.

namespace resumed {

namespace fs = std::filesystem;

struct Variant {
  std::string optimizer = "sgd";
  std::string optimizer_options = "{lr: 0.1, momentum: 0.9}";
  std::string scheduler = "constant";
  std::string scheduler_options = "{}";
  std::int64_t accumulate = 1;
  bool ema = false;
  bool stops_early = false;
  double dropout = 0;
  std::int64_t frozen_epochs = 0;        // of the weight
  std::int64_t validation_interval = 0;  // in steps within an epoch; 0: none
  std::string gan = {};                  // the loss of a task gan; empty: supervised learning
};

const std::vector<Variant>& variants();

/// Makes a run with 22 samples in batches of 4, so six batches per epoch, the last one short, and
/// four epochs.
std::unique_ptr<FakeRun> make(const Variant& variant);

/// The results of a run for bitwise comparison.
struct RunTrace {
  std::vector<std::string> reported;  // log lines and epochs, without times
  std::vector<std::string> weights;
  std::vector<std::string> optimizer;
  std::string finished;
};

/// Adds the events of the run.
void add_events(FakeRun& run, RunTrace& trace);
/// Adds the events and the final state of the run.
void add_end(FakeRun& run, const trainctl::events::Finished& finished, RunTrace& trace);

RunTrace uninterrupted(const Variant& variant);
/// Runs until `stops` requests a stop, then resumes with new objects like a new process.
RunTrace interrupted(const Variant& variant, const std::function<void(FakeRun&)>& stops);
void check_same(const RunTrace& trace, const RunTrace& expected);

/// Returns the newest checkpoint of a run.
fs::path last_of(const FakeRun& run);

/// Stops a run after that step.
std::function<void(FakeRun&)> after_step(std::int64_t step);
/// Stops a run in the second batch of a validation.
std::function<void(FakeRun&)> in_validation(int number);

}  // namespace resumed
