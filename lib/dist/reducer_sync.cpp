#include "base/clock.hpp"
#include "dist/c10d_group.hpp"

#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <string>

namespace trainctl::dist {
namespace {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

/// What c10d's own all-reduce hook does (it is not exported): always divides the bucket, where the
/// Reducer alone would multiply by a rounded 1/world while a gradient is not yet a view. With a
/// stamp: when the last bucket leaves, the gradients are computed.
class StampedHook final : public c10d::CppCommHookInterface<Group> {
 public:
  StampedHook(const Group& group, double& last_launch)
      : CppCommHookInterface(group), last_launch_(last_launch) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    last_launch_ = steady_clock().now();
    std::vector<at::Tensor> flat{bucket.getBufferRef()};
    flat[0].div_(state_->getSize());
    return state_->allreduce(flat)->getFuture();
  }

 private:
  double& last_launch_;
};

using Layout = std::vector<std::vector<std::size_t>>;

Layout layout_of(const std::vector<at::Tensor>& parameters, const BucketOptions& options) {
  auto layout = std::get<0>(c10d::compute_bucket_assignment_by_size(
      parameters, {options.first_bytes, options.cap_bytes}));
  std::reverse(layout.begin(), layout.end());  // backward reaches the last parameters first
  return layout;
}

std::string text_of(const Layout& layout, const std::vector<at::Tensor>& parameters) {
  std::string text;
  for (const std::vector<std::size_t>& bucket : layout) {
    std::int64_t elements = 0;
    for (const std::size_t i : bucket) elements += parameters[i].numel();
    text +=
        (text.empty() ? "" : ",") + std::to_string(bucket.size()) + "x" + std::to_string(elements);
  }
  return text;
}

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
  ReducerSync(const Group& group, std::vector<at::Tensor> parameters, const BucketOptions& options)
      : place_{group->getRank(), group->getSize()} {
    {
      at::NoGradGuard guard;
      c10d::broadcast_coalesced(group, parameters, std::size_t{250} << 20, 0);
    }
    c10d::verify_params_across_processes(group, parameters, std::nullopt);
    reducer_ = frozen_reducer(parameters, group, options);
    reducer_->register_comm_hook(std::make_unique<StampedHook>(group, last_launch_));
    freeze(*reducer_, parameters, options);
    layout_ = text_of(layout_of(parameters, options), parameters);
  }

  void before_forward() override { reducer_->prepare_for_forward(); }

  double backward(const at::Tensor& loss) override {
    reducer_->prepare_for_backward({});
    collective("all-reduce of the gradients", place_, [&] { loss.backward(); });
    return steady_clock().now() - last_launch_;
  }

  [[nodiscard]] std::string layout() const override { return layout_; }

 private:
  Place place_;
  std::string layout_;
  double last_launch_ = 0;
  std::shared_ptr<c10d::Reducer> reducer_;
};

}  // namespace

std::unique_ptr<GradSync> make_reducer_sync(Group group, std::vector<at::Tensor> parameters,
                                            const BucketOptions& buckets) {
  return std::make_unique<ReducerSync>(group, std::move(parameters), buckets);
}

}  // namespace trainctl::dist
