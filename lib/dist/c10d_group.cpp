#include "dist/c10d_group.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "dist/verify.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include <exception>
#include <utility>

namespace trainctl::dist {
namespace {

class WorkPending final : public Pending {
 public:
  WorkPending(c10::intrusive_ptr<c10d::Work> work, std::string what, Caller caller)
      : work_(std::move(work)), what_(std::move(what)), caller_(caller) {}

  void wait() override {
    collective(what_, caller_, [&] { work_->wait(); });
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  std::string what_;
  Caller caller_;
};

class C10dCommunicator final : public Communicator {
 public:
  C10dCommunicator(c10::intrusive_ptr<c10d::ProcessGroup> group, at::Device device,
                   events::Heartbeat* page)
      : group_(std::move(group)),
        device_(device),
        caller_{{group_->getRank(), group_->getSize()}, page} {}

  [[nodiscard]] Place place() const override { return caller_.place; }

  std::unique_ptr<Pending> start_sum(const at::Tensor& tensor, const std::string& what) override {
    return collective(what, caller_, [&]() -> std::unique_ptr<Pending> {
      if (tensor.device() != device_) return moved_sum(tensor, what);
      std::vector<at::Tensor> tensors{tensor};
      return std::make_unique<WorkPending>(group_->allreduce(tensors), what, caller_);
    });
  }

  std::vector<at::Tensor> all_gather(const at::Tensor& tensor, const std::string& what) override {
    return collective(what, caller_, [&] {
      std::vector<at::Tensor> mine{tensor.detach().to(device_).contiguous()};
      std::vector<std::vector<at::Tensor>> all(1);
      for (int rank = 0; rank < caller_.place.world_size; ++rank)
        all[0].push_back(at::empty_like(mine[0]));
      group_->allgather(all, mine)->wait();
      for (at::Tensor& one : all[0]) one = one.to(tensor.device());
      return std::move(all[0]);
    });
  }

  std::unique_ptr<Pending> start_broadcast(const at::Tensor& tensor, int root,
                                           const std::string& what) override {
    return collective(what, caller_, [&]() -> std::unique_ptr<Pending> {
      c10d::BroadcastOptions options;
      options.rootRank = root;
      std::vector<at::Tensor> tensors{tensor};
      return std::make_unique<WorkPending>(group_->broadcast(tensors, options), what, caller_);
    });
  }

  void broadcast(const at::Tensor& tensor, const std::string& what) override {
    collective(what, caller_, [&] {
      std::vector<at::Tensor> tensors{tensor.to(device_)};  // itself where it is there
      group_->broadcast(tensors)->wait();
      if (tensor.device() != device_) tensor.copy_(tensors[0]);
    });
  }

  std::unique_ptr<GradSync> sync_gradients(std::vector<at::Tensor> parameters,
                                           const BucketOptions& buckets) override {
    verify_alike(*this, descriptions_of(parameters), "trained parameters");
    collective("broadcast of the parameters", caller_, [&] {
      const at::NoGradGuard guard;
      c10d::broadcast_coalesced(group_, parameters, kBroadcastBytes, /*rank=*/0);
    });
    if (!buckets.exchanges) return make_local_sync();
    return collective("forming the buckets", caller_, [&] {
      return buckets.bucketing == Bucketing::own
                 ? make_bucket_sync(group_, parameters, buckets, caller_.page)
                 : make_reducer_sync(group_, parameters, buckets, caller_.page);
    });
  }

 private:
  /// A CPU tensor in a group of GPUs: rare (barriers, epoch sums), so it may wait.
  std::unique_ptr<Pending> moved_sum(const at::Tensor& tensor, const std::string& what) {
    std::vector<at::Tensor> tensors{tensor.to(device_)};
    auto work = group_->allreduce(tensors);
    work->wait();
    tensor.copy_(tensors[0]);
    return std::make_unique<WorkPending>(std::move(work), what, caller_);
  }

  static constexpr std::size_t kBroadcastBytes = std::size_t{250} << 20;  // at once

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  at::Device device_;
  Caller caller_;
};

[[noreturn]] void throw_failed(const std::string& what, const Place& place,
                               const std::string& cause) {
  const bool late =
      cause.find("imed out") != std::string::npos || cause.find("imeout") != std::string::npos;
  const std::string first_line = printable(cause.substr(0, cause.find('\n')));
  throw Error(
      late ? ErrorKind::hang : ErrorKind::rank_failed,
      fmt::format("rank {} of {}: '{}' failed because another rank {}: {}", place.rank,
                  place.world_size, what,
                  late ? "did not come in time (distributed.timeout_s)" : "is gone", first_line));
}

}  // namespace

void rethrow_collective(const std::string& what, const Place& place) {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const c10::DistError& error) {
    throw_failed(what, place, error.what_without_backtrace());
  } catch (const c10::Error&) {
    throw;  // not the exchange: a shape or a model; the engine words it
  } catch (const std::runtime_error& error) {
    throw_failed(what, place, error.what());
  }
}

std::unique_ptr<Communicator> wrap_group(c10::intrusive_ptr<c10d::ProcessGroup> group,
                                         at::Device device, events::Heartbeat* page) {
  return std::make_unique<C10dCommunicator>(std::move(group), device, page);
}

}  // namespace trainctl::dist
