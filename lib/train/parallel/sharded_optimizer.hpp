#pragma once

#include "dist/communicator.hpp"
#include "stage/stages.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::train {

/// Returns the rank that updates each parameter. Whole parameters are assigned, the largest first,
/// to the rank with the fewest elements so far. The result depends only on the arguments.
std::vector<int> owners_of(const std::vector<stage::NamedTensor>& parameters, int world_size);

/// Returns the flags for OptimizerContext::owned of a rank.
std::vector<bool> owned_by(const std::vector<int>& owners, int rank);

/// ZeRO stage 1 (Rajbhandari et al. 2020): each rank's optimizer updates a share of the parameters,
/// keeps state only for them, and sends them to the other ranks after a step. The results equal
/// those without it, bit for bit.
class ShardedOptimizer final : public stage::Optimizer {
 public:
  /// All-gathers send equal parts of all ranks through one buffer, and broadcasts the rest, which
  /// most ranks could only pad. Broadcasts send large parameters in place, and small ones of a rank
  /// together. A GPU copies faster than it launches messages. On a CPU, Gloo copies the result of
  /// an all-gather once more.
  enum class Exchange { broadcasts, all_gathers };
  struct Sharing {
    std::size_t cap_bytes = 0;              // of the buffer
    std::optional<Exchange> exchange = {};  // nullopt: all_gathers on a GPU
  };
  /// `inner` must be built with owned_by(owners, rank). The communicator must outlive it.
  ShardedOptimizer(std::unique_ptr<stage::Optimizer> inner,
                   std::vector<stage::NamedTensor> parameters, dist::Communicator& communicator,
                   const Sharing& sharing);

  /// Returns the optimizer of this rank's share, for callers that call `share` afterward.
  stage::Optimizer& own() { return *inner_; }
  /// Sends the updated parameters to all ranks. A CUDA graph may capture it.
  void share();
  /// Counts the communication of a replayed CUDA graph.
  void count_repeated();
  /// Returns the cost of sharing since the last call; the seconds are known on a CPU only.
  dist::SyncStats take_stats() { return std::exchange(stats_, {}); }

  void step() override;
  /// The flag is the same on all ranks because their gradients are.
  void step_unless(const at::Tensor& found_inf) override;
  [[nodiscard]] bool skips_on_device() const override { return inner_->skips_on_device(); }
  [[nodiscard]] bool skips_in_kernel() const override { return inner_->skips_in_kernel(); }
  /// Clears the gradients of all parameters, including those of other ranks.
  void zero_grad() override;
  [[nodiscard]] bool is_repeatable() const override { return inner_->is_repeatable(); }
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
  /// Parameters of a rank, or consecutive parts of them, that are still to be sent. A part that is
  /// dense in memory is 1-d.
  using Stream = std::deque<at::Tensor>;
  /// The unit of a collective: the root of a broadcast sends, or with an all-gather every rank.
  struct Piece {
    std::optional<int> root;  // nullopt: an all-gather
    std::string what;
    at::Tensor flat;  // the parameter's own memory, or a part of the buffer
    at::Tensor mine;  // this rank's part of `flat` in an all-gather
    std::vector<std::vector<at::Tensor>> packed;  // by rank; empty: nothing is copied
    std::vector<at::Tensor> sent, sent_views;     // this rank's tensors, and their copies in `flat`
    std::vector<at::Tensor> received, received_views;
    bool reuses = false;  // uses memory of the buffer that earlier pieces use, too
  };

  [[nodiscard]] std::vector<Stream> streams() const;
  void add_large(std::vector<Stream>& streams, std::size_t cap_bytes);
  void add_packed(std::optional<int> root, std::vector<std::vector<at::Tensor>> packed);
  void place_packed(std::size_t cap_bytes);
  void place(Piece& piece) const;
  void exchange() const;

  std::unique_ptr<stage::Optimizer> inner_;
  std::vector<stage::NamedTensor> parameters_;
  dist::Communicator& communicator_;
  std::vector<Piece> pieces_;  // the same on all ranks
  dist::SyncStats stats_;
};

}  // namespace trainctl::train
