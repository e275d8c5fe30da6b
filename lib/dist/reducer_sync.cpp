#include "dist/bucket_layout.hpp"
#include "dist/c10d_group.hpp"
#include "dist/sync_meter.hpp"

#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <string>
#include <utility>

namespace trainctl::dist {
namespace {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

/// What c10d's own all-reduce hook does (it is not exported): always divides the bucket, where the
/// Reducer alone would multiply by a rounded 1/world while a gradient is not yet a view. With a
/// stamp of each bucket that leaves.
class StampedHook final : public c10d::CppCommHookInterface<Group> {
 public:
  StampedHook(const Group& group, SyncMeter& meter) : CppCommHookInterface(group), meter_(meter) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    meter_.launch();
    std::vector<at::Tensor> flat{bucket.getBufferRef()};
    flat[0].div_(state_->getSize());
    return state_->allreduce(flat)->getFuture();
  }

 private:
  SyncMeter& meter_;
};

std::shared_ptr<c10d::Reducer> frozen_reducer(const std::vector<at::Tensor>& parameters,
                                              const Group& group, const BucketOptions& options) {
  const Layout layout = layout_of(parameters, options);
  return std::make_shared<c10d::Reducer>(
      parameters, layout, group, std::vector<bool>(parameters.size(), false),
      static_cast<std::int64_t>(options.cap_bytes), /*find_unused_parameters=*/false,
      /*gradient_as_bucket_view=*/true, std::unordered_map<std::size_t, std::string>{},
      static_cast<std::int64_t>(options.first_bytes),
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
      std::vector<std::int64_t>{});
}

/// Spends the only rebuild of the layout now and puts ours back: positions in the buffers decide
/// the order of addition.
void freeze(c10d::Reducer& reducer, const std::vector<at::Tensor>& parameters,
            const BucketOptions& options) {
  reducer.push_rebuilt_params_for_all_indices();
  reducer.rebuild_buckets();
  reducer.initialize_buckets(layout_of(parameters, options));
}

class ReducerSync final : public GradSync {
 public:
  ReducerSync(const Group& group, const std::vector<at::Tensor>& parameters,
              const BucketOptions& options, events::Heartbeat* page)
      : place_{group->getRank(), group->getSize()},
        layout_(text_of(layout_of(parameters, options), parameters)),
        meter_({place_, device_of(parameters), bytes_of(layout_of(parameters, options), parameters),
                page}) {
    reducer_ = frozen_reducer(parameters, group, options);
    reducer_->register_comm_hook(std::make_unique<StampedHook>(group, meter_));
    freeze(*reducer_, parameters, options);
  }

  void before_forward() override { reducer_->prepare_for_forward(); }

  double backward(const at::Tensor& loss) override {
    reducer_->prepare_for_backward({});
    meter_.begin();
    collective(kGradientExchange, place_, [&] { loss.backward(); });
    return meter_.end();
  }

  [[nodiscard]] std::string layout() const override { return layout_; }
  [[nodiscard]] std::vector<std::int64_t> bucket_bytes() const override {
    return meter_.bucket_bytes();
  }
  SyncStats take_stats() override { return meter_.take(); }

 private:
  Place place_;
  std::string layout_;
  SyncMeter meter_;
  std::shared_ptr<c10d::Reducer> reducer_;  // its hook stamps the meter
};

}  // namespace

std::unique_ptr<GradSync> make_reducer_sync(Group group, const std::vector<at::Tensor>& parameters,
                                            const BucketOptions& buckets, events::Heartbeat* page) {
  return std::make_unique<ReducerSync>(group, parameters, buckets, page);
}

}  // namespace trainctl::dist
