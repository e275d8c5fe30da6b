#include "dist/c10d_group.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include <algorithm>

namespace trainctl::dist {
namespace {

class C10dCommunicator final : public Communicator {
 public:
  C10dCommunicator(c10::intrusive_ptr<c10d::ProcessGroup> group, at::Device device,
                   events::Heartbeat* page)
      : group_(std::move(group)),
        device_(device),
        caller_{{group_->getRank(), group_->getSize()}, page} {}

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
      std::vector<at::Tensor> mine{tensor.detach().to(device_).contiguous()};
      std::vector<std::vector<at::Tensor>> all(1);
      for (int rank = 0; rank < caller_.rank_info.world_size; ++rank)
        all[0].push_back(at::empty_like(mine[0]));
      group_->allgather(all, mine)->wait();
      for (at::Tensor& one : all[0]) one = one.to(tensor.device());
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

  void broadcast(const at::Tensor& tensor, const std::string& what) override {
    run_collective(what, caller_, [&] {
      std::vector<at::Tensor> tensors{tensor.to(device_)};  // no copy on this device
      group_->broadcast(tensors)->wait();
      if (tensor.device() != device_) tensor.copy_(tensors[0]);
    });
  }

  std::unique_ptr<GradSync> sync_gradients(std::vector<at::Tensor> parameters,
                                           const BucketOptions& buckets) override {
    verify_equal(*this, descriptions_of(parameters), "trained parameters");
    run_collective("broadcast of the parameters", caller_, [&] {
      const at::NoGradGuard guard;
      c10d::broadcast_coalesced(group_, parameters, kBroadcastBytes, /*rank=*/0);
    });
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

  /// Sums a CPU tensor in a GPU group. This is rare (barriers, sums per epoch), so it may block.
  Pending moved_sum(const at::Tensor& tensor, const std::string& what) {
    std::vector<at::Tensor> tensors{tensor.to(device_)};
    auto work = group_->allreduce(tensors);
    work->wait();
    tensor.copy_(tensors[0]);
    return pending(std::move(work), what);
  }

  static constexpr std::size_t kBroadcastBytes = std::size_t{250} << 20;  // at a time

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  at::Device device_;
  Caller caller_;
};

[[noreturn]] void throw_collective_error(const std::string& what, const RankInfo& rank_info,
                                         const std::string& cause) {
  const bool timed_out =
      cause.find("imed out") != std::string::npos || cause.find("imeout") != std::string::npos;
  const std::string first_line = printable(cause.substr(0, cause.find('\n')));
  throw Error(
      timed_out ? ErrorKind::hang : ErrorKind::rank_failed,
      fmt::format("rank {} of {}: the collective '{}' failed because another rank {}: {}",
                  rank_info.rank, rank_info.world_size, what,
                  timed_out ? "did not answer within distributed.timeout_s" : "is unreachable",
                  first_line));
}

}  // namespace

void rethrow_collective(const std::string& what, const RankInfo& rank_info) {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const c10::DistError& error) {
    throw_collective_error(what, rank_info, error.what_without_backtrace());
  } catch (const c10::Error&) {
    throw;  // not a communication error but a shape or a model; the engine formats it
  } catch (const std::runtime_error& error) {
    throw_collective_error(what, rank_info, error.what());
  }
}

std::unique_ptr<Communicator> wrap_group(c10::intrusive_ptr<c10d::ProcessGroup> group,
                                         at::Device device, events::Heartbeat* page) {
  return std::make_unique<C10dCommunicator>(std::move(group), device, page);
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
    auto group =
        c10::make_intrusive<c10d::ProcessGroup>(store, rank_info.rank, rank_info.world_size);
    group->setBackend(at::kCPU, Type::GLOO,
                      c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank_info.rank,
                                                                  rank_info.world_size, gloo));
    group->setDefaultBackend(Type::GLOO);
    return wrap_group(std::move(group), at::kCPU, options.heartbeat);
  });
}

}  // namespace trainctl::dist
