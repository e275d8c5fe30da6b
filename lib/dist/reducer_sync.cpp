#include "base/error.hpp"
#include "dist/bucket_layout.hpp"
#include "dist/c10d_group.hpp"
#include "dist/comm_hook.hpp"
#include "dist/sync_meter.hpp"

#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <string>
#include <utility>

namespace trainctl::dist {
namespace {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

/// Stamps each bucket that leaves.
class StampedHook final : public c10d::CommHookInterface {
 public:
  StampedHook(std::unique_ptr<c10d::CommHookInterface> hook, SyncMeter& meter)
      : hook_(std::move(hook)), meter_(meter) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    meter_.launch();
    return hook_->runHook(bucket);
  }
  at::Tensor parseHookResult(const c10::IValue& result) override {
    return hook_->parseHookResult(result);
  }

 private:
  std::unique_ptr<c10d::CommHookInterface> hook_;
  SyncMeter& meter_;
};

std::shared_ptr<c10d::Reducer> frozen_reducer(const std::vector<at::Tensor>& parameters,
                                              const Group& group, const BucketOptions& options) {
  const Layout layout = layout_of(parameters, options);
  return std::make_shared<c10d::Reducer>(
      parameters, layout, group, std::vector<bool>(parameters.size(), false),
      static_cast<std::int64_t>(options.cap_bytes), options.find_unused,
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

std::vector<SyncParameter> named(const std::vector<at::Tensor>& parameters,
                                 const std::vector<std::string>& names) {
  ASSERT(names.empty() || names.size() == parameters.size());
  std::vector<SyncParameter> all;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    all.push_back({names.empty() ? "parameter " + std::to_string(i) : names[i], parameters[i]});
  return all;
}

std::vector<std::vector<SyncParameter>> in_buckets(const std::vector<SyncParameter>& parameters,
                                                   const Layout& layout) {
  std::vector<std::vector<SyncParameter>> buckets(layout.size());
  for (std::size_t b = 0; b < layout.size(); ++b) {
    for (const std::size_t i : layout[b]) buckets[b].push_back(parameters[i]);
  }
  return buckets;
}

std::unique_ptr<PowerSgd> make_power_sgd(const std::vector<SyncParameter>& parameters,
                                         const BucketOptions& options) {
  if (options.compression != Compression::powersgd) return nullptr;
  std::vector<at::Tensor> tensors;
  for (const SyncParameter& each : parameters) tensors.push_back(each.tensor);
  return std::make_unique<PowerSgd>(in_buckets(parameters, layout_of(tensors, options)),
                                    options.powersgd_rank);
}

class ReducerSync final : public GradSync {
 public:
  ReducerSync(const Group& group, const std::vector<at::Tensor>& parameters,
              const BucketOptions& options, events::Heartbeat* page)
      : place_{group->getRank(), group->getSize()},
        parameters_(named(parameters, options.names)),
        finds_unused_(options.find_unused),
        power_sgd_(make_power_sgd(parameters_, options)),
        layout_(text_of(layout_of(parameters, options), parameters)),
        meter_({place_, device_of(parameters), sent_bytes(parameters, options), page}) {
    reducer_ = frozen_reducer(parameters, group, options);
    reducer_->register_comm_hook(
        std::make_unique<StampedHook>(make_hook(group, options.compression), meter_));
    freeze(*reducer_, parameters, options);
  }

  void before_forward() override { reducer_->prepare_for_forward(); }

  double backward(const at::Tensor& loss) override {
    ready_before_ = reducer_->get_backward_stats();
    reducer_->prepare_for_backward(finds_unused_ ? std::vector<at::Tensor>{loss}
                                                 : std::vector<at::Tensor>{});
    meter_.begin();
    collective(kGradientExchange, place_, [&] { loss.backward(); });
    if (meter_.launched() < meter_.bucket_bytes().size()) throw_unused();
    return meter_.end();
  }

  [[nodiscard]] std::string layout() const override { return layout_; }
  [[nodiscard]] std::vector<std::int64_t> bucket_bytes() const override {
    return meter_.bucket_bytes();
  }
  SyncStats take_stats() override { return meter_.take(); }
  [[nodiscard]] std::vector<SyncTensor> state() const override {
    return power_sgd_ ? power_sgd_->state() : std::vector<SyncTensor>();
  }

 private:
  std::unique_ptr<c10d::CommHookInterface> make_hook(const Group& group, Compression compression) {
    switch (compression) {
      case Compression::none: return make_average_hook(group);
      case Compression::bf16: return make_cast_hook(group, at::kBFloat16);
      case Compression::fp16: return make_cast_hook(group, at::kHalf);
      case Compression::powersgd: return make_power_sgd_hook(group, *power_sgd_);
    }
    ASSERT(false);
  }

  [[nodiscard]] std::vector<std::int64_t> sent_bytes(const std::vector<at::Tensor>& parameters,
                                                     const BucketOptions& options) const {
    if (power_sgd_) return power_sgd_->sent_bytes();
    const Layout layout = layout_of(parameters, options);
    if (options.compression == Compression::none) return bytes_of(layout, parameters);
    std::vector<std::int64_t> bytes;
    for (const std::vector<std::size_t>& bucket : layout) {
      bytes.push_back(0);
      for (const std::size_t i : bucket) bytes.back() += parameters[i].numel() * 2;
    }
    return bytes;
  }

  /// The Reducer itself would complain at the next step only, or wait for ever for a rank that did
  /// use them.
  [[noreturn]] void throw_unused() const {
    constexpr std::size_t kShown = 5;
    const std::vector<std::int64_t> ready = reducer_->get_backward_stats();
    std::vector<std::string> names;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (ready[i] == ready_before_[i]) names.push_back("'" + parameters_[i].name + "'");
    }
    const std::size_t more = names.size() - std::min(names.size(), kShown);
    names.resize(names.size() - more);
    std::string shown = fmt::format("{}", fmt::join(names, ", "));
    if (more > 0) shown += fmt::format(" and {} more", more);
    ENSURE(config, !finds_unused_,
           "rank {}: the loss depends on {}, and the backward pass ended without a gradient of it: "
           "what a graph hides, distributed.find_unused_parameters cannot see",
           place_.rank, names.empty() ? "a parameter" : shown);
    throw Error(ErrorKind::config,
                fmt::format("rank {}: the loss does not depend on {}, which got no gradient to "
                            "exchange: set distributed.find_unused_parameters=true, or freeze what "
                            "is never trained",
                            place_.rank, shown));
  }

  Place place_;
  std::vector<SyncParameter> parameters_;
  bool finds_unused_;
  std::unique_ptr<PowerSgd> power_sgd_;  // its hook is the reducer's
  std::string layout_;
  SyncMeter meter_;
  std::vector<std::int64_t> ready_before_;  // to tell, where a step fails, what it has not reached
  std::shared_ptr<c10d::Reducer> reducer_;  // its hook stamps the meter
};

}  // namespace

std::unique_ptr<GradSync> make_reducer_sync(Group group, const std::vector<at::Tensor>& parameters,
                                            const BucketOptions& buckets, events::Heartbeat* page) {
  return std::make_unique<ReducerSync>(group, parameters, buckets, page);
}

}  // namespace trainctl::dist
