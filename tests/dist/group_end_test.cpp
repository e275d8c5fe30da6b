#include "dist/c10d_group.hpp"
#include "message_of.hpp"
#include "support/catch.hpp"
#include "support/rank_group.hpp"

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/types.h>

#include <stdexcept>
#include <string>
#include <vector>

using namespace trainctl;
using Calls = std::vector<std::string>;

namespace {

class DoneWork final : public c10d::Work {
 public:
  bool wait(std::chrono::milliseconds /*timeout*/) override { return true; }
};

/// A backend that records its calls in the place of NCCL.
class FakeBackend final : public c10d::Backend {
 public:
  explicit FakeBackend(Calls& calls) : Backend(/*rank=*/0, /*size=*/2), calls_(calls) {}
  [[nodiscard]] const std::string getBackendName() const override { return "fake"; }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& /*tensors*/,
                                           const c10d::AllreduceOptions& /*options*/) override {
    calls_.emplace_back("all-reduce");
    if (fails) throw std::runtime_error("Connection closed by peer [10.0.0.2]:41230");
    return c10::make_intrusive<DoneWork>();
  }
  void shutdown() override { calls_.emplace_back("shutdown"); }
  void abort() override { calls_.emplace_back("abort"); }

  bool fails = false;

 private:
  Calls& calls_;
};

struct FakeGroup {
  Calls calls;
  c10::intrusive_ptr<FakeBackend> backend = c10::make_intrusive<FakeBackend>(calls);
  std::unique_ptr<dist::Communicator> communicator = dist::wrap_group(
      dist::make_group(c10::make_intrusive<c10d::HashStore>(), at::kCPU,
                       c10d::ProcessGroup::BackendType::CUSTOM, backend),
      at::kCPU, nullptr, [this](at::Device) { calls.emplace_back("synchronize"); });
};

}  // namespace

TEST_CASE("shutdown: waits for all ranks, then for the device, and ends the backend once") {
  FakeGroup group;
  group.communicator->shutdown();
  const Calls expected{"all-reduce", "synchronize", "shutdown"};
  CHECK(group.calls == expected);
  group.communicator->abort();  // nothing is left to abort
  group.communicator.reset();
  CHECK(group.calls == expected);
}

TEST_CASE("abort: ends the backend once, without waiting for other ranks or the device") {
  FakeGroup group;
  group.communicator->abort();
  group.communicator->abort();
  group.communicator.reset();
  CHECK(group.calls == Calls{"abort"});
}

TEST_CASE("abort: graphs are destroyed before the backend is aborted, and also after its end") {
  FakeGroup group;
  const auto drop = [&group] { group.calls.emplace_back("drop graph"); };
  group.communicator->abort(drop);
  group.communicator->abort(drop);
  CHECK(group.calls == Calls{"drop graph", "abort", "drop graph"});
}

TEST_CASE("A group that is destroyed without shutdown is aborted") {
  FakeGroup group;
  group.communicator.reset();
  CHECK(group.calls == Calls{"abort"});
}

TEST_CASE("shutdown: a lost rank is an error, and the backend is aborted instead") {
  FakeGroup group;
  group.backend->fails = true;
  std::exception_ptr thrown;
  try {
    group.communicator->shutdown();
  } catch (...) {
    thrown = std::current_exception();
  }
  CHECK_THAT(message_of(thrown, ErrorKind::rank_failed), Contains("'end of the run'"));
  group.communicator.reset();
  CHECK(group.calls == Calls{"all-reduce", "abort"});
}

TEST_CASE("make_group: the backend stays bound to the device of the rank") {
  Calls calls;
  const auto backend = c10::make_intrusive<FakeBackend>(calls);
  const at::Device device(at::kCUDA, 1);
  const auto group = dist::make_group(c10::make_intrusive<c10d::HashStore>(), device,
                                      c10d::ProcessGroup::BackendType::NCCL, backend);
  CHECK(backend->getBoundDeviceId() == device);
  CHECK(group->getBoundDeviceId() == device);
  CHECK(group->getDefaultBackend() == backend);
}

TEST_CASE("Gloo: a rank that ends early waits for the others at shutdown") {
  RankGroup group(2);
  std::atomic<bool> arrives = false;
  std::atomic<bool> has_left = false;
  std::atomic<bool> was_early = false;
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    if (rank == 1) {
      while (!has_left && group.page(0).collective().name != "end of the run")
        std::this_thread::yield();
      arrives = true;
    }
    communicator->shutdown();
    if (!arrives) was_early = true;
    if (rank == 0) has_left = true;
  });
  CHECK_FALSE(was_early);
}

TEST_CASE("broadcast_coalesced: tensors of several types and memory orders get rank 0's values") {
  RankGroup group(3);
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    const auto value = static_cast<double>(rank + 1);
    const std::vector<at::Tensor> tensors{
        torch::full({3, 2}, value), torch::full({}, rank + 5, torch::kLong),
        torch::full({2, 3, 2, 2}, value).contiguous(at::MemoryFormat::ChannelsLast),
        torch::full({4}, value, torch::requires_grad()), torch::zeros({0})};
    communicator->broadcast_coalesced(tensors, "copies");
    communicator->broadcast_coalesced({}, "nothing");
    expect(torch::equal(tensors[0], torch::ones({3, 2})), "float");
    expect(tensors[1].item<std::int64_t>() == 5, "integer");
    expect(torch::equal(tensors[2], torch::ones({2, 3, 2, 2})), "channels last");
    expect(torch::equal(tensors[3], torch::ones({4})), "trained");
  });
}
