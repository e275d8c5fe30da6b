#pragma once

#include "fake_run.hpp"
#include "support/catch.hpp"
#include "support/close.hpp"
#include "support/rank_group.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

// Runs the same fake run on one rank and on several.

/// The events and the result of a rank.
struct RankRun {
  trainctl::events::Finished finished;
  std::vector<trainctl::events::EpochEnded> epochs;
  std::vector<trainctl::events::RankEpoch> shares;
  std::vector<double> logged;
  at::Tensor weight;
};

using Prepare = std::function<void(FakeRun& run, int rank)>;

/// Runs three epochs and logs every step, unless `prepare` changes that.
inline RankRun result_of(FakeRun& run, int rank, const Prepare& prepare) {
  run.options.max_epochs = 3;
  run.options.log_every = 1;
  if (prepare) prepare(run, rank);
  RankRun result;
  result.finished = run.run();
  result.epochs = run.all<trainctl::events::EpochEnded>();
  result.shares = run.all<trainctl::events::RankEpoch>();
  for (const auto& step : run.all<trainctl::events::StepLogged>())
    result.logged.push_back(step.loss);
  result.weight = run.model.weight.detach().clone();
  return result;
}

inline RankRun run_alone(FakeRun::Sizes sizes, const Prepare& prepare = {}) {
  FakeRun run(sizes);
  return result_of(run, 0, prepare);
}

inline std::vector<RankRun> run_ranks(int world, FakeRun::Sizes sizes, const Prepare& prepare) {
  std::vector<RankRun> out(static_cast<std::size_t>(world));
  RankGroup group(world);
  group.run_all([&](int rank, std::unique_ptr<trainctl::dist::Communicator> communicator) {
    FakeRun run(sizes, std::move(communicator));
    out[static_cast<std::size_t>(rank)] = result_of(run, rank, prepare);
  });
  return out;
}

inline void check_metrics(const RankRun& found, const RankRun& expected) {
  REQUIRE(found.epochs.size() == expected.epochs.size());
  for (std::size_t e = 0; e < expected.epochs.size(); ++e) {
    for (const auto& [name, value] : expected.epochs[e].metrics)
      CHECK(value_of(found.epochs[e], name) == Approx(value).epsilon(1e-5));
  }
}

inline void check_losses(const RankRun& found, const RankRun& expected) {
  REQUIRE(found.logged.size() == expected.logged.size());
  for (std::size_t i = 0; i < expected.logged.size(); ++i)
    CHECK(found.logged[i] == Approx(expected.logged[i]).epsilon(1e-5));
}

inline bool same_weights(const RankRun& found, const RankRun& expected) {
  return mismatch(found.weight, expected.weight).empty();
}
