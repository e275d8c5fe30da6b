#pragma once

#include "dist/communicator.hpp"
#include "stage/stages.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace trainctl::train {

/// Returns the rank that updates each parameter. Whole parameters are assigned, the largest first,
/// to the rank with the fewest elements so far. The result depends only on the arguments.
std::vector<int> owners_of(const std::vector<stage::NamedTensor>& parameters, int world_size);

/// Returns the flags for OptimizerContext::owned of a rank.
std::vector<bool> owned_by(const std::vector<int>& owners, int rank);

/// Returns the bytes up to which a parameter is copied into a bucket with others, of at most
/// `cap_bytes`, instead of being broadcast alone. On a CPU, copying a large tensor costs more than
/// a message. On a GPU it costs less than the launch of a broadcast.
std::size_t sent_in_place_above(at::Device device, std::size_t cap_bytes);

/// ZeRO stage 1 (Rajbhandari et al. 2020): each rank's optimizer updates a share of the parameters,
/// keeps state only for them, and broadcasts them after a step: large parameters in place, small
/// ones packed into one buffer. The results equal those without it, bit for bit.
class ShardedOptimizer final : public stage::Optimizer {
 public:
  /// `inner` must be built with owned_by(owners, rank). The communicator must outlive it. The
  /// buffer takes up to `cap_bytes`.
  ShardedOptimizer(std::unique_ptr<stage::Optimizer> inner,
                   std::vector<stage::NamedTensor> parameters, dist::Communicator& communicator,
                   std::size_t cap_bytes);

  /// Returns the optimizer of this rank's share, for callers that call `share` afterward.
  stage::Optimizer& own() { return *inner_; }
  /// Broadcasts the updated parameters to all ranks.
  void share();
  /// Returns the cost of sharing since the last call; the seconds are known on a CPU only.
  dist::SyncStats take_stats() { return std::exchange(stats_, {}); }

  void step() override;
  /// The flag is the same on all ranks because their gradients are.
  void step_unless(const at::Tensor& found_inf) override;
  [[nodiscard]] bool skips_on_device() const override { return inner_->skips_on_device(); }
  [[nodiscard]] bool skips_in_kernel() const override { return inner_->skips_in_kernel(); }
  /// Clears the gradients of all parameters, including those of other ranks.
  void zero_grad() override;
  void set_lr(double lr) override { inner_->set_lr(lr); }
  void set_position(std::int64_t epoch, std::int64_t global_step) override {
    inner_->set_position(epoch, global_step);
  }
  [[nodiscard]] double initial_lr() const override { return inner_->initial_lr(); }
  [[nodiscard]] bool has_momentum() const override { return inner_->has_momentum(); }
  void set_momentum(double momentum) override { inner_->set_momentum(momentum); }
  [[nodiscard]] std::vector<stage::NamedTensor> state() const override { return inner_->state(); }
  void serialize(StateArchive& archive) override { inner_->serialize(archive); }

 private:
  /// The unit of a broadcast.
  struct Piece {
    int owner = 0;
    at::Tensor flat;                  // the parameter's own memory, or a part of the buffer
    std::vector<at::Tensor> tensors;  // tensors that are packed into the buffer
    std::vector<at::Tensor> views;    // of the buffer, one for each tensor
    bool reuses = false;              // uses memory of the buffer that earlier pieces use, too
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
  at::Tensor buffer_;          // bytes; undefined: no piece uses it
  std::int64_t bytes_ = 0;     // of all parameters
  dist::SyncStats stats_;
};

}  // namespace trainctl::train
