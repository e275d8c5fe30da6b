#include "dist/c10d_group.hpp"

#include "base/error.hpp"
#include "base/machine/host_waits.hpp"
#include "dist/collective_error.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>

namespace trainctl::dist {
namespace {

/// Aborts the group in another thread and waits for it, but not for long: NCCL's abort may block
/// forever (https://github.com/NVIDIA/nccl/issues/1013), and the failure must be reported. A thread
/// that is blocked keeps the group, whose destructor would block, too.
void abort_group(c10::intrusive_ptr<c10d::ProcessGroup> group,
                 std::function<void()> before) noexcept {
  constexpr std::chrono::seconds kMost{5};
  try {
    std::promise<void> done;
    const std::future<void> is_done = done.get_future();
    std::thread([group = std::move(group), before = std::move(before),
                 done = std::move(done)]() mutable {
      try {
        if (before) before();
        before = nullptr;
        group->abort();
      } catch (...) {  // the failure that ends the group is reported instead
      }
      group.reset();  // the caller destroys it
      done.set_value();
    }).detach();
    (void)is_done.wait_for(kMost);
  } catch (...) {  // no more threads can be created
  }
}

class C10dCommunicator final : public Communicator {
 public:
  C10dCommunicator(c10::intrusive_ptr<c10d::ProcessGroup> group, at::Device device,
                   events::Heartbeat* page, std::function<void(at::Device)> synchronize)
      : group_(std::move(group)),
        device_(device),
        caller_{{group_->getRank(), group_->getSize()}, page},
        synchronize_(std::move(synchronize)) {}
  ~C10dCommunicator() override { C10dCommunicator::abort({}); }
  C10dCommunicator(const C10dCommunicator&) = delete;
  C10dCommunicator& operator=(const C10dCommunicator&) = delete;

  [[nodiscard]] RankInfo rank_info() const override { return caller_.rank_info; }

  Pending start_sum(const at::Tensor& tensor, const std::string& what) override {
    return run_collective(what, caller_, [&] {
      if (tensor.device() != device_) return moved_sum(tensor, what);
      std::vector<at::Tensor> tensors{tensor};
      return pending(group_->allreduce(tensors), what);
    });
  }

  std::vector<at::Tensor> all_gather(const at::Tensor& tensor, const std::string& what) override {
    return run_collective(what, caller_, [&] {
      count_if_moved(tensor, what);
      std::vector<at::Tensor> mine{tensor.detach().to(device_).contiguous()};
      std::vector<std::vector<at::Tensor>> all(1);
      for (int rank = 0; rank < caller_.rank_info.world_size; ++rank)
        all[0].push_back(at::empty_like(mine[0]));
      group_->allgather(all, mine)->wait();
      for (at::Tensor& one : all[0])
        one = one.to(tensor.device());  // count_if_moved() counts the host wait
      return std::move(all[0]);
    });
  }

  Pending start_broadcast(const at::Tensor& tensor, int root, const std::string& what) override {
    return run_collective(what, caller_, [&] {
      c10d::BroadcastOptions options;
      options.rootRank = root;
      std::vector<at::Tensor> tensors{tensor};
      return pending(group_->broadcast(tensors, options), what);
    });
  }

  Pending start_all_gather(const at::Tensor& all, const at::Tensor& mine,
                           const std::string& what) override {
    return run_collective(what, caller_, [&] {
      at::Tensor output = all, input = mine;
      return pending(group_->_allgather_base(output, input), what);
    });
  }

  void broadcast(const at::Tensor& tensor, const std::string& what) override {
    run_collective(what, caller_, [&] {
      count_if_moved(tensor, what);
      std::vector<at::Tensor> tensors{tensor.to(device_)};  // no copy on this device
      group_->broadcast(tensors)->wait();
      if (tensor.device() != device_) tensor.copy_(tensors[0]);
    });
  }

  void broadcast_coalesced(const std::vector<at::Tensor>& tensors,
                           const std::string& what) override {
    std::vector<at::Tensor> on_device;
    for (const at::Tensor& tensor : tensors) {
      if (tensor.device() == device_) {
        on_device.push_back(tensor);
      } else {
        broadcast(tensor, what);
      }
    }
    if (on_device.empty()) return;
    run_collective(what, caller_, [&] {
      const at::NoGradGuard guard;
      c10d::broadcast_coalesced(group_, on_device, kBroadcastBytes, /*rank=*/0);
    });
  }

  void shutdown() override {
    barrier("end of the run");
    run_collective("end of the group", caller_, [&] {
      synchronize_(device_);
      group_->shutdown();
    });
    is_open_ = false;
  }

  void abort(std::function<void()> before) noexcept override {
    if (std::exchange(is_open_, false)) return abort_group(group_, std::move(before));
    Communicator::abort(std::move(before));
  }

  std::unique_ptr<GradSync> sync_gradients(std::vector<at::Tensor> parameters,
                                           const BucketOptions& buckets) override {
    verify_equal(*this, descriptions_of(parameters), "trained parameters");
    broadcast_coalesced(parameters, "broadcast of the parameters");
    if (!buckets.exchanges) return std::make_unique<GradSync>();
    return run_collective("forming the buckets", caller_, [&] {
      return buckets.bucketing == Bucketing::hooks
                 ? make_bucket_sync(group_, parameters, buckets, caller_.page)
                 : make_reducer_sync(group_, parameters, buckets, caller_.page);
    });
  }

 private:
  [[nodiscard]] Pending pending(c10::intrusive_ptr<c10d::Work> work,
                                const std::string& what) const {
    return [work = std::move(work), what, caller = caller_] {
      run_collective(what, caller, [&] { work->wait(); });
    };
  }

  /// The host waits for a result that is copied to it.
  void count_if_moved(const at::Tensor& tensor, const std::string& what) const {
    if (tensor.device() != device_) count_host_wait(what);
  }

  /// Sums a CPU tensor in a GPU group. All copies are ordered on the stream, so that the host waits
  /// only when it needs the result.
  Pending moved_sum(const at::Tensor& tensor, const std::string& what) {
    const at::Tensor pinned = at::empty(tensor.sizes(), tensor.options().pinned_memory(true));
    pinned.copy_(tensor);
    std::vector<at::Tensor> tensors{pinned.to(device_, /*non_blocking=*/true)};
    group_->allreduce(tensors)->wait();
    pinned.copy_(tensors[0], /*non_blocking=*/true);
    const auto done = std::make_shared<c10::Event>(device_.type());
    done->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
    return [=, caller = caller_] {
      run_collective(what, caller, [&] {
        if (!done->query()) {
          count_host_wait("sum over the ranks: " + what);
          done->synchronize();
        }
        tensor.copy_(pinned);
      });
    };
  }

  static constexpr std::size_t kBroadcastBytes = std::size_t{250} << 20;  // at a time

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  at::Device device_;
  Caller caller_;
  std::function<void(at::Device)> synchronize_;
  bool is_open_ = true;
};

}  // namespace

void rethrow_collective(const std::string& what, const RankInfo& rank_info) {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const c10::DistError& error) {
    throw collective_error(what, rank_info, error.what_without_backtrace());
  } catch (const c10::Error&) {
    throw;  // not a communication error but a shape or a model; the engine formats it
  } catch (const std::runtime_error& error) {
    throw collective_error(what, rank_info, error.what());
  }
}

void synchronize_device(at::Device device) {
  if (device.is_cpu()) return;
  count_host_wait("end of the group");
  c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

/// ProcessGroup::setBackend() binds the backend to the device of the group, which therefore comes
/// first.
c10::intrusive_ptr<c10d::ProcessGroup> make_group(
    const c10::intrusive_ptr<c10d::Store>& store, at::Device device,
    c10d::ProcessGroup::BackendType type, const c10::intrusive_ptr<c10d::Backend>& backend) {
  auto group =
      c10::make_intrusive<c10d::ProcessGroup>(store, backend->getRank(), backend->getSize());
  if (device.has_index()) group->setBoundDeviceId(device);
  group->setBackend(device.type(), type, backend);
  group->setDefaultBackend(type);
  return group;
}

std::unique_ptr<Communicator> wrap_group(c10::intrusive_ptr<c10d::ProcessGroup> group,
                                         at::Device device, events::Heartbeat* page,
                                         std::function<void(at::Device)> synchronize) {
  return std::make_unique<C10dCommunicator>(std::move(group), device, page, std::move(synchronize));
}

namespace {

using Bytes = std::vector<std::uint8_t>;
using Keys = std::vector<std::string>;

class LaunchStore final : public c10d::Store {
 public:
  LaunchStore(std::shared_ptr<launch::StoreClient> client, std::chrono::milliseconds timeout)
      : Store(timeout), client_(std::move(client)) {}

  using Store::set;
  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::make_intrusive<LaunchStore>(client_, timeout_);
  }
  void set(const std::string& key, const Bytes& value) override {
    client_->set(key, {value.begin(), value.end()});
  }
  Bytes get(const std::string& key) override {
    client_->wait({key}, timeout_);
    const auto value = client_->try_get(key);
    ENSURE(rank_failed, value.has_value(), "the value '{}' that ranks share was deleted", key);
    return {value->begin(), value->end()};
  }
  std::int64_t add(const std::string& key, std::int64_t delta) override {
    return client_->add(key, delta);
  }
  bool deleteKey(const std::string& key) override { return client_->erase(key); }
  bool check(const Keys& keys) override {
    return std::all_of(keys.begin(), keys.end(),
                       [&](const auto& key) { return client_->try_get(key).has_value(); });
  }
  std::int64_t getNumKeys() override { return client_->size(); }
  void wait(const Keys& keys) override { wait(keys, timeout_); }
  void wait(const Keys& keys, const std::chrono::milliseconds& timeout) override {
    client_->wait(keys, timeout.count() > 0 ? timeout : timeout_);
  }

 private:
  std::shared_ptr<launch::StoreClient> client_;
};

}  // namespace

c10::intrusive_ptr<c10d::Store> make_c10d_store(const GroupOptions& options) {
  return c10::make_intrusive<c10d::PrefixStore>(
      options.prefix, c10::make_intrusive<LaunchStore>(options.store, options.timeout));
}

std::unique_ptr<Communicator> make_gloo(const GroupOptions& options) {
  using Type = c10d::ProcessGroup::BackendType;
  const RankInfo rank_info = options.rank_info;
  return run_collective("forming the Gloo group", Caller{rank_info, options.heartbeat}, [&] {
    const auto store = make_c10d_store(options);
    auto gloo = c10d::ProcessGroupGloo::Options::create(options.timeout);
    gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(options.address));
    const auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank_info.rank,
                                                                     rank_info.world_size, gloo);
    return wrap_group(make_group(store, at::kCPU, Type::GLOO, backend), at::kCPU,
                      options.heartbeat);
  });
}

}  // namespace trainctl::dist
