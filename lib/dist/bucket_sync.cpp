#include "base/error.hpp"
#include "dist/c10d_group.hpp"
#include "dist/sync_meter.hpp"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <utility>

namespace trainctl::dist {
namespace {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

/// Called when the backward pass has accumulated the whole gradient of a parameter.
class ReadyHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit ReadyHook(std::function<void()> ready) : ready_(std::move(ready)) {}
  void operator()(const torch::autograd::Variable& /*parameter*/) override { ready_(); }

 private:
  std::function<void()> ready_;
};

/// Returns a part of the bucket with the shape and the strides of the parameter.
at::Tensor view_of(const at::Tensor& flat, const at::Tensor& parameter, std::int64_t offset) {
  if (parameter.is_non_overlapping_and_dense())
    return flat.as_strided(parameter.sizes(), parameter.strides(), offset);
  return flat.narrow(0, offset, parameter.numel()).view(parameter.sizes());
}

/// Does the same as c10d's Reducer with less work on the host: gradients are views into flat
/// buckets, and each bucket is averaged once its last gradient is ready, in the order of the
/// layout.
class BucketSync final : public GradSync {
 public:
  BucketSync(Group group, const std::vector<at::Tensor>& parameters, const BucketOptions& options,
             events::Heartbeat* page)
      : group_(std::move(group)),
        rank_info_{group_->getRank(), group_->getSize()},
        order_(layout_of(parameters, options)),
        layout_(text_of(order_, parameters)),
        names_(options.names),
        // Events captured in a graph cannot be asked for their time.
        meter_(
            {rank_info_, device_of(parameters), bytes_of(order_, parameters), page,
             device_of(parameters).is_cpu() ? SyncMeter::Stamps::taken : SyncMeter::Stamps::none}),
        slots_(parameters.size()) {
    for (const std::vector<std::size_t>& members : order_) add_bucket(members, parameters);
    for (Slot& slot : slots_) {
      torch::autograd::impl::set_post_acc_grad_hooks(
          slot.parameter, std::make_unique<ReadyHook>([this, &slot] { note(slot); }));
    }
  }
  ~BucketSync() override {
    for (const Slot& slot : slots_)
      torch::autograd::impl::set_post_acc_grad_hooks(slot.parameter, nullptr);
  }

  double backward(const at::Tensor& loss) override {
    for (Slot& slot : slots_) slot.ready = false;
    for (Bucket& bucket : buckets_) bucket.missing = bucket.slots;
    next_ = 0;
    armed_ = true;
    meter_.begin();
    run_collective(kGradientExchange, rank_info_, [&] {
      loss.backward();
      armed_ = false;
      finish();
    });
    return meter_.end();
  }

  [[nodiscard]] std::string layout() const override { return layout_; }
  [[nodiscard]] std::vector<std::int64_t> bucket_bytes() const override {
    return meter_.bucket_bytes();
  }
  SyncStats take_stats() override { return meter_.take(); }
  void count_repeated() override { meter_.repeat(); }

 private:
  struct Slot {
    at::Tensor parameter;
    at::Tensor view;
    std::size_t bucket = 0;
    bool ready = false;
  };
  struct Bucket {
    at::Tensor flat;
    std::size_t slots = 0;
    std::size_t missing = 0;  // gradients missing in this backward pass
    c10::intrusive_ptr<c10d::Work> work;
  };

  void add_bucket(const std::vector<std::size_t>& members,
                  const std::vector<at::Tensor>& parameters) {
    const at::NoGradGuard guard;
    std::int64_t elements = 0;
    for (const std::size_t i : members) elements += parameters[i].numel();
    Bucket bucket{at::zeros({elements}, parameters[members.front()].options().requires_grad(false)),
                  members.size(), 0, nullptr};
    std::int64_t offset = 0;
    for (const std::size_t i : members) {
      slots_[i] = {parameters[i], view_of(bucket.flat, parameters[i], offset), buckets_.size()};
      offset += parameters[i].numel();
      slots_[i].parameter.mutable_grad() = slots_[i].view;
    }
    buckets_.push_back(std::move(bucket));
  }

  /// Launches buckets in the order of the layout on all ranks, whichever bucket is complete first.
  void note(Slot& slot) {
    if (!armed_ || slot.ready) return;
    slot.ready = true;
    take_in(slot);
    --buckets_[slot.bucket].missing;
    while (next_ < buckets_.size() && buckets_[next_].missing == 0) launch(buckets_[next_++]);
  }

  /// A gradient that was reset in the meantime is not in the bucket, so it is copied there.
  static void take_in(Slot& slot) {
    at::Tensor& gradient = slot.parameter.mutable_grad();
    if (gradient.const_data_ptr() == slot.view.const_data_ptr()) return;
    const at::NoGradGuard guard;
    slot.view.copy_(gradient);
    gradient = slot.view;
  }

  void launch(Bucket& bucket) {
    const at::NoGradGuard guard;
    meter_.launch();
    bucket.flat.div_(rank_info_.world_size);
    std::vector<at::Tensor> flat{bucket.flat};
    bucket.work = group_->allreduce(flat);
  }

  void finish() {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      ENSURE(config, slots_[i].ready,
             "{} got no gradient in a step\nhint: use the parameter in the loss, or freeze it",
             names_.empty() ? fmt::format("the trained parameter {} of {}", i + 1, slots_.size())
                            : "'" + names_[i] + "'");
    }
    for (Bucket& bucket : buckets_) std::exchange(bucket.work, nullptr)->wait();
  }

  Group group_;
  RankInfo rank_info_;
  Layout order_;
  std::string layout_;
  std::vector<std::string> names_;  // of the parameters; empty: they are numbered
  SyncMeter meter_;
  std::vector<Slot> slots_;  // by parameter; the hooks point into it
  std::vector<Bucket> buckets_;
  std::size_t next_ = 0;
  bool armed_ = false;
};

}  // namespace

std::unique_ptr<GradSync> make_bucket_sync(Group group, const std::vector<at::Tensor>& parameters,
                                           const BucketOptions& buckets, events::Heartbeat* page) {
  return std::make_unique<BucketSync>(std::move(group), parameters, buckets, page);
}

}  // namespace trainctl::dist
