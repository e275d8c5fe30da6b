#pragma once

#include "dist/communicator.hpp"
#include "stage/stages.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace trainctl::train {

/// Which rank updates which parameter: whole ones, the largest first, each to the rank that has
/// least so far. A pure function of the parameters and the number of ranks.
std::vector<int> owners_of(const std::vector<stage::NamedTensor>& parameters, int world_size);

/// What the optimizer of a rank is built for.
std::vector<bool> owned_by(const std::vector<int>& owners, int rank);

/// ZeRO stage 1 (Rajbhandari et al. 2020): each rank's optimizer updates a share of the parameters,
/// keeps state for these alone, and gives them to all after a step: large ones in place, small ones
/// side by side in one buffer. The numbers are those without it, bit for bit.
class ShardedOptimizer final : public stage::Optimizer {
 public:
  /// `inner` was built for what owned_by(owners, rank) says. The communicator outlives it. The
  /// buffer takes up to `cap_bytes`.
  ShardedOptimizer(std::unique_ptr<stage::Optimizer> inner,
                   std::vector<stage::NamedTensor> parameters, dist::Communicator& communicator,
                   std::size_t cap_bytes);

  /// Its share alone, for who calls `share` after it.
  stage::Optimizer& own() { return *inner_; }
  /// Every rank gets what the others have updated.
  void share();
  /// What sharing took since the last call; its seconds on a CPU alone.
  dist::SyncStats take_stats() { return std::exchange(stats_, {}); }

  void step() override;
  /// The flag is the same on all ranks, since their gradients are.
  void step_unless(const at::Tensor& found_inf) override;
  [[nodiscard]] bool skips_on_device() const override { return inner_->skips_on_device(); }
  [[nodiscard]] bool skips_for_nothing() const override { return inner_->skips_for_nothing(); }
  /// Of all parameters, also those of others.
  void zero_grad() override;
  void set_lr(double lr) override { inner_->set_lr(lr); }
  [[nodiscard]] double initial_lr() const override { return inner_->initial_lr(); }
  [[nodiscard]] bool has_momentum() const override { return inner_->has_momentum(); }
  void set_momentum(double momentum) override { inner_->set_momentum(momentum); }
  [[nodiscard]] std::vector<stage::NamedTensor> state() const override { return inner_->state(); }
  void serialize(StateArchive& archive) override { inner_->serialize(archive); }

 private:
  /// What is given at once.
  struct Piece {
    int owner = 0;
    at::Tensor flat;                  // a parameter's own memory, or a part of the buffer
    std::vector<at::Tensor> tensors;  // that pass through the buffer
    std::vector<at::Tensor> views;    // of the buffer, one for each
    bool reuses = false;              // memory of the buffer that pieces before it have
  };

  Piece& add_piece(int owner);
  void add_small(int owner, const std::vector<at::Tensor>& tensors, std::size_t cap_bytes);
  void place_small(std::size_t cap_bytes);
  void place(Piece& piece, std::int64_t offset) const;
  void exchange() const;

  std::unique_ptr<stage::Optimizer> inner_;
  std::vector<stage::NamedTensor> parameters_;
  dist::Communicator& communicator_;
  std::vector<Piece> pieces_;  // the same on all ranks
  at::Tensor buffer_;          // bytes; undefined: nothing passes through it
  std::int64_t bytes_ = 0;     // of all parameters
  dist::SyncStats stats_;
};

}  // namespace trainctl::train
