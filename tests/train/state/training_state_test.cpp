#include "train/state/training_state.hpp"

#include "checkpoint/store.hpp"
#include "support/catch.hpp"
#include "support/rank_group.hpp"
#include "train/hand_over.hpp"

#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

using namespace trainctl;

namespace {

/// Has state like PowerSGD's: a factor that is equal on all ranks, and the residual of the rank.
struct ResidualSync final : dist::GradSync {
  at::Tensor factor = torch::zeros({2});
  at::Tensor residual = torch::zeros({2});
  [[nodiscard]] std::vector<dist::SyncTensor> state() const override {
    return {{"weight.q", factor, false}, {"weight.error", residual, true}};
  }
};

/// The state of a rank after one epoch.
struct RankState {
  FakeRun run;
  train::Options options;
  train::Session session;
  train::LoopState state{.epoch_done = true};
  train::Phases phases;
  ResidualSync sync;
  train::StepRunner step;
  train::Observers observers;
  train::TrainingState training;

  explicit RankState(std::unique_ptr<dist::Communicator> communicator = dist::make_single())
      : run(FakeRun::Sizes{}, std::move(communicator)),
        session(session_of(run)),
        phases(session, options, state),
        step(session, options, phases.timer(), sync),
        training({session, options, state, phases, step, sync, nullptr, observers}) {}

  /// Writes the part of this rank.
  void save(const std::filesystem::path& checkpoint) const {
    train::HostCopies copies(at::kCPU, nullptr);
    copies.take(training.tensors());
    const int rank = session.communicator.rank_info().rank;
    container::write(checkpoint::Store::part(checkpoint, rank), copies.entries(),
                     training.values());
  }
};

}  // namespace

TEST_CASE("restore: one rank gets the mean of the residuals of several ranks") {
  constexpr int kRanks = 2;
  const TempFolder folder;
  checkpoint::Store store(folder.path());
  const auto path = store.begin(train::LoopState{.epoch_done = true}.moment());
  RankGroup group(kRanks);
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    RankState saved(std::move(communicator));
    saved.sync.factor.fill_(4);
    saved.sync.residual.fill_(rank == 0 ? 1 : 5);
    saved.save(path);
  });
  checkpoint::Manifest manifest;
  manifest.epoch = 1;
  manifest.world_size = kRanks;
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto part = checkpoint::Store::part(path, rank);
    manifest.parts.push_back({part.filename().string(), std::filesystem::file_size(part),
                              container::stored_checksum(part)});
  }
  store.commit(path, manifest);

  RankState restored;
  restored.training.restore(path, train::PartialEpoch::resume);
  CHECK(restored.state.other_world);
  CHECK(torch::equal(restored.sync.factor, torch::full({2}, 4.0F)));
  CHECK(torch::equal(restored.sync.residual, torch::full({2}, 3.0F)));
}
