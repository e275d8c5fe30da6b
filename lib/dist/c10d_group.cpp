#include "dist/c10d_group.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <exception>
#include <utility>

namespace trainctl::dist {
namespace {

class WorkPending final : public Pending {
 public:
  WorkPending(c10::intrusive_ptr<c10d::Work> work, std::string what, Place place)
      : work_(std::move(work)), what_(std::move(what)), place_(place) {}

  void wait() override {
    collective(what_, place_, [&] { work_->wait(); });
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  std::string what_;
  Place place_;
};

class C10dCommunicator final : public Communicator {
 public:
  C10dCommunicator(c10::intrusive_ptr<c10d::ProcessGroup> group, at::Device device)
      : group_(std::move(group)), device_(device), place_{group_->getRank(), group_->getSize()} {}

  [[nodiscard]] Place place() const override { return place_; }

  std::unique_ptr<Pending> start_sum(const at::Tensor& tensor, const std::string& what) override {
    return collective(what, place_, [&]() -> std::unique_ptr<Pending> {
      if (tensor.device() != device_) return moved_sum(tensor, what);
      std::vector<at::Tensor> tensors{tensor};
      return std::make_unique<WorkPending>(group_->allreduce(tensors), what, place_);
    });
  }

  void broadcast(const at::Tensor& tensor, const std::string& what) override {
    collective(what, place_, [&] {
      std::vector<at::Tensor> tensors{tensor.to(device_)};  // itself where it is there
      group_->broadcast(tensors)->wait();
      if (tensor.device() != device_) tensor.copy_(tensors[0]);
    });
  }

  std::unique_ptr<GradSync> sync_gradients(std::vector<at::Tensor> parameters,
                                           const BucketOptions& buckets) override {
    return collective("broadcast of the parameters", place_,
                      [&] { return make_reducer_sync(group_, std::move(parameters), buckets); });
  }

 private:
  /// A CPU tensor in a group of GPUs: rare (barriers, epoch sums), so it may wait.
  std::unique_ptr<Pending> moved_sum(const at::Tensor& tensor, const std::string& what) {
    std::vector<at::Tensor> tensors{tensor.to(device_)};
    auto work = group_->allreduce(tensors);
    work->wait();
    tensor.copy_(tensors[0]);
    return std::make_unique<WorkPending>(std::move(work), what, place_);
  }

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  at::Device device_;
  Place place_;
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
                                         at::Device device) {
  return std::make_unique<C10dCommunicator>(std::move(group), device);
}

}  // namespace trainctl::dist
