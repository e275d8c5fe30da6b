#pragma once

#include "train/fake_run.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

// Small runs of real stages that are stopped somewhere and go on.

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
};

const std::vector<Variant>& variants();

/// 22 samples in batches of 4: six batches an epoch, the last one uneven. Four epochs.
std::unique_ptr<FakeRun> make(const Variant& variant);

/// What a run leaves, to be compared bit for bit.
struct Course {
  std::vector<std::string> told;  // log lines and epochs, without times
  std::vector<std::string> weights;
  std::vector<std::string> optimizer;
  std::string finished;
};

/// Adds what the run has told.
void note(FakeRun& run, Course& course);
/// The same, and what it has left.
void note_end(FakeRun& run, const trainctl::events::Finished& finished, Course& course);

Course uninterrupted(const Variant& variant);
/// Runs until `stops` asks for it, then goes on in a new process' place.
Course interrupted(const Variant& variant, const std::function<void(FakeRun&)>& stops);
void check_same(const Course& course, const Course& expected);

/// The newest checkpoint of a run.
fs::path last_of(const FakeRun& run);

/// Stops a run there.
std::function<void(FakeRun&)> after_step(std::int64_t step);
/// In the second batch of a validation.
std::function<void(FakeRun&)> in_validation(int number);

}  // namespace resumed
