#include "base/error.hpp"
#include "dist/c10d_group.hpp"
#include "dist/power_sgd.hpp"
#include "dist/sync_meter.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/core/jit_type.h>
#include <c10/util/intrusive_ptr.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::dist {
namespace {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
using Future = c10::ivalue::Future;
using Hook = c10d::CppCommHookInterface<Group>;

c10::intrusive_ptr<c10d::Work> sum(const Group& group, const at::Tensor& tensor) {
  std::vector<at::Tensor> tensors{tensor};
  return group->allreduce(tensors);
}

// Communication hooks for the buckets of the Reducer. After them every rank has the same average,
// bit for bit.

/// Does the same as c10d's own all-reduce hook, which is not exported: it always divides the
/// bucket. Without a hook the Reducer multiplies by a rounded 1/world_size while a gradient is not
/// a view yet.
class AverageHook final : public Hook {
 public:
  using Hook::Hook;
  c10::intrusive_ptr<Future> runHook(c10d::GradBucket& bucket) override {
    bucket.getBufferRef().div_(state_->getSize());
    return sum(state_, bucket.getBuffer())->getFuture();
  }
};

/// Copies without OpenMP on a CPU: this runs on Gloo's thread, and a large copy would start another
/// team of OpenMP threads next to that of the backward pass.
void copy_alone(const at::Tensor& to, const at::Tensor& from) {
  constexpr std::int64_t kAlone = std::int64_t{1} << 14;  // parallel from twice as many
  const std::int64_t all = to.numel();
  const std::int64_t most = to.is_cpu() ? kAlone : std::max<std::int64_t>(all, 1);
  for (std::int64_t at = 0; at < all; at += most) {
    const std::int64_t some = std::min(most, all - at);
    to.narrow(0, at, some).copy_(from.narrow(0, at, some));
  }
}

/// All-reduces the bucket in another dtype.
class CastHook final : public Hook {
 public:
  CastHook(const Group& group, at::ScalarType type) : CppCommHookInterface(group), type_(type) {}

  /// Divides first, because a sum in float16 overflows easily.
  c10::intrusive_ptr<Future> runHook(c10d::GradBucket& bucket) override {
    const at::Tensor flat = bucket.getBuffer();
    flat.div_(state_->getSize());
    const at::Tensor small = flat.to(type_);
    return sum(state_, small)
        ->getFuture()
        ->then(
            [flat, small](Future& done) {
              done.value();  // rethrows an exception of the all-reduce
              const at::NoGradGuard guard;
              copy_alone(flat, small);
              return c10::IValue(flat);
            },
            c10::TensorType::get());
  }

 private:
  at::ScalarType type_;
};

/// Sends matrices as factors, in two consecutive all-reduces. All second ones start after the last
/// bucket: if each started when its first one ends, the order would differ between ranks, and Gloo
/// matches collectives by their order alone.
class PowerSgdHook final : public Hook {
 public:
  /// `buckets` belong to the Reducer and must outlive the hook.
  PowerSgdHook(const Group& group, std::vector<PowerSgdBucket>& buckets)
      : CppCommHookInterface(group), buckets_(buckets) {}

  c10::intrusive_ptr<Future> runHook(c10d::GradBucket& bucket) override {
    const at::NoGradGuard guard;
    const at::Tensor flat = bucket.getBuffer();
    if (bucket.getIndex() == 0) under_way_.clear();  // left over from a step that failed
    ASSERT(bucket.getIndex() == under_way_.size());
    PowerSgdBucket& part = buckets_.at(bucket.getIndex());
    const at::Tensor first = part.first(bucket.getGradients(), state_->getSize());
    under_way_.push_back({flat, sum(state_, first), future_on(flat.device())});
    const c10::intrusive_ptr<Future> future = under_way_.back().future;
    if (bucket.isLast()) finish();
    return future;
  }

 private:
  struct UnderWay {
    at::Tensor flat;
    c10::intrusive_ptr<c10d::Work> work;
    c10::intrusive_ptr<Future> future;
  };

  static c10::intrusive_ptr<Future> future_on(c10::Device device) {
    std::vector<c10::Device> devices;
    if (!device.is_cpu()) devices.push_back(device);
    return c10::make_intrusive<Future>(c10::TensorType::get(), std::move(devices));
  }

  /// The Reducer rethrows exceptions stored in the futures.
  void finish() {
    try {
      for (std::size_t i = 0; i < under_way_.size(); ++i) {
        PowerSgdBucket& part = buckets_.at(i);
        std::exchange(under_way_[i].work, nullptr)->wait();
        const at::Tensor second = part.second(state_->getSize());
        if (part.has_second()) under_way_[i].work = sum(state_, second);
      }
      const at::Tensor sound = wait_for_second();
      for (std::size_t i = 0; i < under_way_.size(); ++i) {
        buckets_.at(i).finish(sound);
        under_way_[i].future->markCompleted(under_way_[i].flat);
      }
    } catch (const std::exception&) {
      for (const UnderWay& each : under_way_) {
        if (!each.future->completed()) each.future->setError(std::current_exception());
      }
    }
    under_way_.clear();
  }

  at::Tensor wait_for_second() {
    at::Tensor sound;
    for (std::size_t i = 0; i < under_way_.size(); ++i) {
      if (under_way_[i].work) under_way_[i].work->wait();
      const at::Tensor one = buckets_.at(i).sound();
      sound = sound.defined() ? sound.logical_and(one) : one;
    }
    return sound;
  }

  std::vector<PowerSgdBucket>& buckets_;
  std::vector<UnderWay> under_way_;
};

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

std::shared_ptr<c10d::Reducer> make_reducer(const std::vector<at::Tensor>& parameters,
                                            const Layout& layout, const Group& group,
                                            const BucketOptions& options) {
  return std::make_shared<c10d::Reducer>(
      parameters, layout, group, std::vector<bool>(parameters.size(), false),
      static_cast<std::int64_t>(options.cap_bytes), options.find_unused,
      /*gradient_as_bucket_view=*/true, std::unordered_map<std::size_t, std::string>{},
      static_cast<std::int64_t>(options.first_bytes),
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
      std::vector<std::int64_t>{});
}

std::vector<SyncParameter> named(const std::vector<at::Tensor>& parameters,
                                 const std::vector<std::string>& names) {
  ASSERT(names.empty() || names.size() == parameters.size());
  std::vector<SyncParameter> all;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    all.push_back({names.empty() ? "parameter " + std::to_string(i) : names[i], parameters[i]});
  return all;
}

std::vector<PowerSgdBucket> power_sgd_buckets(const std::vector<SyncParameter>& parameters,
                                              const Layout& layout, std::int64_t rank) {
  std::vector<PowerSgdBucket> buckets;
  for (const std::vector<std::size_t>& members : layout) {
    std::vector<SyncParameter> bucket;
    for (const std::size_t i : members) bucket.push_back(parameters[i]);
    buckets.emplace_back(bucket, rank);
  }
  return buckets;
}

class ReducerSync final : public GradSync {
 public:
  ReducerSync(const Group& group, const std::vector<at::Tensor>& parameters,
              const BucketOptions& options, events::Heartbeat* page)
      : rank_info_{group->getRank(), group->getSize()},
        parameters_(named(parameters, options.names)),
        finds_unused_(options.find_unused),
        order_(layout_of(parameters, options)),
        layout_(text_of(order_, parameters)),
        power_sgd_(options.compression == Compression::powersgd
                       ? power_sgd_buckets(parameters_, order_, options.powersgd_rank)
                       : std::vector<PowerSgdBucket>()),
        meter_(
            {rank_info_, device_of(parameters), sent_bytes(parameters, options.compression), page}),
        reducer_(make_reducer(parameters, order_, group, options)) {
    reducer_->register_comm_hook(
        std::make_unique<StampedHook>(make_hook(group, options.compression), meter_));
    // The Reducer calls its logger without a check when other parameters are unused than before.
    if (finds_unused_) reducer_->set_logger(logger_ = std::make_shared<c10d::Logger>(reducer_));
    // Uses up the only rebuild of the layout now and restores ours, because positions in the
    // buffers determine the order of additions.
    reducer_->push_rebuilt_params_for_all_indices();
    reducer_->rebuild_buckets();
    reducer_->initialize_buckets(order_);
  }

  void before_forward() override { reducer_->prepare_for_forward(); }

  double backward(const at::Tensor& loss) override {
    ready_before_ = reducer_->get_backward_stats();
    reducer_->prepare_for_backward(finds_unused_ ? std::vector<at::Tensor>{loss}
                                                 : std::vector<at::Tensor>{});
    meter_.begin();
    run_collective(kGradientExchange, rank_info_, [&] { loss.backward(); });
    if (meter_.launched() < meter_.bucket_bytes().size()) throw_unused();
    return meter_.end();
  }

  [[nodiscard]] std::string layout() const override { return layout_; }
  [[nodiscard]] std::vector<std::int64_t> bucket_bytes() const override {
    return meter_.bucket_bytes();
  }
  SyncStats take_stats() override { return meter_.take(); }
  [[nodiscard]] std::vector<SyncTensor> state() const override {
    std::vector<SyncTensor> all;
    for (const PowerSgdBucket& bucket : power_sgd_) bucket.add_state(all);
    return all;
  }

 private:
  std::unique_ptr<c10d::CommHookInterface> make_hook(const Group& group, Compression compression) {
    switch (compression) {
      case Compression::none: return std::make_unique<AverageHook>(group);
      case Compression::bf16: return std::make_unique<CastHook>(group, at::kBFloat16);
      case Compression::fp16: return std::make_unique<CastHook>(group, at::kHalf);
      case Compression::powersgd: return std::make_unique<PowerSgdHook>(group, power_sgd_);
    }
    ASSERT(false);
  }

  [[nodiscard]] std::vector<std::int64_t> sent_bytes(const std::vector<at::Tensor>& parameters,
                                                     Compression compression) const {
    if (compression == Compression::none) return bytes_of(order_, parameters);
    std::vector<std::int64_t> bytes;
    for (std::size_t bucket = 0; bucket < order_.size(); ++bucket) {
      std::int64_t elements = 0;
      for (const std::size_t i : order_[bucket]) elements += parameters[i].numel();
      bytes.push_back(compression == Compression::powersgd ? power_sgd_[bucket].sent_bytes()
                                                           : 2 * elements);
    }
    return bytes;
  }

  /// The Reducer itself would complain only at the next step, or wait forever for a rank that did
  /// use the parameters.
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
    const char* const them = names.size() > 1 ? "them" : "it";
    ENSURE(config, !finds_unused_,
           "rank {}: the backward pass computed no gradient of {}, although the loss depends on "
           "{}\nhint: freeze {}; distributed.find_unused_parameters is only for parameters on "
           "which the loss does not depend",
           rank_info_.rank, names.empty() ? "a parameter" : shown, them, them);
    throw Error(
        ErrorKind::config,
        fmt::format("rank {}: the loss does not depend on {}, which got no gradient\nhint: set "
                    "distributed.find_unused_parameters=true, or freeze the unused parameters",
                    rank_info_.rank, shown));
  }

  RankInfo rank_info_;
  std::vector<SyncParameter> parameters_;
  bool finds_unused_;
  Layout order_;
  std::string layout_;
  std::vector<PowerSgdBucket> power_sgd_;  // by bucket; used by the reducer's hook
  SyncMeter meter_;
  /// Counts from the last step, to find the parameters that a failed step has not reached.
  std::vector<std::int64_t> ready_before_;
  std::shared_ptr<c10d::Reducer> reducer_;  // its hook updates meter_
  std::shared_ptr<c10d::Logger> logger_;    // null: the reducer has none
};

}  // namespace

std::unique_ptr<GradSync> make_reducer_sync(Group group, const std::vector<at::Tensor>& parameters,
                                            const BucketOptions& buckets, events::Heartbeat* page) {
  return std::make_unique<ReducerSync>(group, parameters, buckets, page);
}

}  // namespace trainctl::dist
