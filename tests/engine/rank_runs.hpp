#pragma once

#include "train/fake_run.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

// Runs real stages on several ranks, which are threads of the test, in one folder.

namespace rank_runs {

struct Plan {
  int world = 3;
  std::int64_t samples = 19;  // with batches of 4 on 3 ranks: 12 rows, then 7
  std::int64_t batch = 4;
  std::int64_t epochs = 2;
  std::string model;  // layers of a sequential model; empty: FakeModel, a linear classifier
  std::string optimizer = "sgd";
  std::string optimizer_options = "{lr: 0.1, momentum: 0.9}";
  trainctl::spec::Strategy strategy = trainctl::spec::Strategy::ddp;
  std::int64_t sync_every = 1;
  /// Changes the run before it starts.
  std::function<void(FakeRun& run, int rank)> prepare;
  std::filesystem::path folder;  // checkpoints are written there; empty: none
  std::filesystem::path resume;
};

/// The result of a rank.
struct RankResult {
  trainctl::events::Finished finished;
  std::vector<double> losses;  // logged for each step, on rank 0
  std::vector<trainctl::stage::NamedTensor> weights;
  std::vector<trainctl::stage::NamedTensor> optimizer;
  std::vector<std::string> exchanges;  // names of its collectives
};

std::vector<RankResult> run(const Plan& plan);
/// Runs on one rank in this thread.
RankResult run_alone(Plan plan);

/// Returns the newest checkpoint.
std::filesystem::path last_of(const std::filesystem::path& folder);

bool same_bits(const std::vector<trainctl::stage::NamedTensor>& a,
               const std::vector<trainctl::stage::NamedTensor>& b);
bool all_close(const std::vector<trainctl::stage::NamedTensor>& a,
               const std::vector<trainctl::stage::NamedTensor>& b);

}  // namespace rank_runs
