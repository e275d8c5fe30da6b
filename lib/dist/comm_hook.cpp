#include "dist/comm_hook.hpp"

#include "base/error.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/core/jit_type.h>

#include <algorithm>
#include <cstdint>
#include <exception>
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

class AverageHook final : public Hook {
 public:
  using Hook::Hook;
  c10::intrusive_ptr<Future> runHook(c10d::GradBucket& bucket) override {
    bucket.getBufferRef().div_(state_->getSize());
    return sum(state_, bucket.getBuffer())->getFuture();
  }
};

/// On a CPU without a second thread: this is Gloo's thread, and a large copy would start a team of
/// OpenMP threads of its own here, beside that of the backward pass.
void copy_alone(const at::Tensor& to, const at::Tensor& from) {
  constexpr std::int64_t kAlone = std::int64_t{1} << 14;  // libtorch shares out from twice as many
  const std::int64_t all = to.numel();
  const std::int64_t most = to.is_cpu() ? kAlone : std::max<std::int64_t>(all, 1);
  for (std::int64_t at = 0; at < all; at += most) {
    const std::int64_t some = std::min(most, all - at);
    to.narrow(0, at, some).copy_(from.narrow(0, at, some));
  }
}

class CastHook final : public Hook {
 public:
  CastHook(const Group& group, at::ScalarType type) : CppCommHookInterface(group), type_(type) {}

  /// Divided first: a sum in float16 soon overflows.
  c10::intrusive_ptr<Future> runHook(c10d::GradBucket& bucket) override {
    const at::Tensor flat = bucket.getBuffer();
    flat.div_(state_->getSize());
    const at::Tensor small = flat.to(type_);
    return sum(state_, small)
        ->getFuture()
        ->then(
            [flat, small](Future& done) {
              done.value();  // throws what the exchange threw
              const at::NoGradGuard guard;
              copy_alone(flat, small);
              return c10::IValue(flat);
            },
            c10::TensorType::get());
  }

 private:
  at::ScalarType type_;
};

/// Two exchanges one after the other. The second ones wait for the last bucket: started from where
/// the first ones end they would come in another order on each rank, and Gloo tells its exchanges
/// apart by their order alone.
class PowerSgdHook final : public Hook {
 public:
  PowerSgdHook(const Group& group, PowerSgd& sgd) : CppCommHookInterface(group), sgd_(sgd) {}

  c10::intrusive_ptr<Future> runHook(c10d::GradBucket& bucket) override {
    const at::NoGradGuard guard;
    const at::Tensor flat = bucket.getBuffer();
    if (bucket.getIndex() == 0) under_way_.clear();  // of a step that failed
    ASSERT(bucket.getIndex() == under_way_.size());
    PowerSgdBucket& part = sgd_.bucket(bucket.getIndex());
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

  /// The Reducer throws what the futures hold.
  void finish() {
    try {
      for (std::size_t i = 0; i < under_way_.size(); ++i) {
        PowerSgdBucket& part = sgd_.bucket(i);
        std::exchange(under_way_[i].work, nullptr)->wait();
        const at::Tensor second = part.second(state_->getSize());
        if (part.has_second()) under_way_[i].work = sum(state_, second);
      }
      const at::Tensor sound = wait_for_second();
      for (std::size_t i = 0; i < under_way_.size(); ++i) {
        sgd_.bucket(i).finish(sound);
        under_way_[i].future->markCompleted(under_way_[i].flat);
      }
    } catch (const std::exception&) {
      for (const UnderWay& each : under_way_) {
        if (!each.future->completed()) each.future->setError(std::current_exception());
      }
    }
    under_way_.clear();
  }

  /// Returns whether all buckets are finite.
  at::Tensor wait_for_second() {
    at::Tensor sound;
    for (std::size_t i = 0; i < under_way_.size(); ++i) {
      if (under_way_[i].work) under_way_[i].work->wait();
      const at::Tensor one = sgd_.bucket(i).sound();
      sound = sound.defined() ? sound.logical_and(one) : one;
    }
    return sound;
  }

  PowerSgd& sgd_;
  std::vector<UnderWay> under_way_;
};

}  // namespace

std::unique_ptr<c10d::CommHookInterface> make_average_hook(const Group& group) {
  return std::make_unique<AverageHook>(group);
}

std::unique_ptr<c10d::CommHookInterface> make_cast_hook(const Group& group, at::ScalarType type) {
  return std::make_unique<CastHook>(group, type);
}

std::unique_ptr<c10d::CommHookInterface> make_power_sgd_hook(const Group& group, PowerSgd& sgd) {
  return std::make_unique<PowerSgdHook>(group, sgd);
}

}  // namespace trainctl::dist
