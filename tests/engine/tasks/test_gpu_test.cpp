#include "engine/engine_run.hpp"
#include "engine/tasks/tasks.hpp"
#include "support/catch.hpp"

#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>

#include <cmath>
#include <limits>
#include <set>

using namespace trainctl;

TEST_CASE("GPU self-test: on a CPU all checks pass with small sizes") {
  const TempFolder folder;
  const engine_run::Ended ended = engine_run::run_engine(folder, "", 0, "gpu");
  CHECK(ended.code == 0);
  std::set<std::string> begun;
  std::set<std::string> passed;
  for (const events::Event& event : ended.events) {
    const auto* checked = std::get_if<events::GpuChecked>(&event);
    if (checked == nullptr) continue;
    CAPTURE(checked->check, checked->failure);
    CHECK(checked->failure.empty());
    CHECK((checked->done || !checked->value));
    (checked->done ? passed : begun).insert(checked->check);
  }
  CHECK(begun == passed);
  CHECK(passed == std::set<std::string>{"device", "nccl", "memory test", "matmul fp32",
                                        "matmul bf16", "matmul fp16", "copy pageable",
                                        "copy pinned", "copy back", "copy on gpu", "gpu kernels",
                                        "cuda graph"});
  REQUIRE(ended.find<events::Finished>() != nullptr);
}

TEST_CASE("GPU self-test: a wrong element of a matrix product is an error") {
  const at::Tensor a = at::randn({128, 96}, at::kFloat);
  const at::Tensor b = at::randn({96, 128}, at::kFloat);
  const at::Tensor product = at::mm(a, b);
  CHECK(engine::product_error(a, b, product) < 1e-5);
  product[2][4] += 10;
  CHECK(engine::product_error(a, b, product) == Approx(10 / std::sqrt(96)).epsilon(1e-3));
  product[2][4] = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isinf(engine::product_error(a, b, product)));
}

TEST_CASE("gpu self-test: all checks pass on GPU 0") {
  const auto devices = device::cuda_devices();
  if (devices == 0) skip("no GPU");
  std::vector<std::string> failures;
  const volatile int stop = 0;
  const TrainctlEngineRequest request{.run_dir = "",
                                      .mode = "gpu",
                                      .rank = 0,
                                      .world_size = 1,
                                      .local_rank = 0,
                                      .local_world_size = 1,
                                      .event_fd = -1,
                                      .heartbeat_fd = -1,
                                      .store_fd = -1,
                                      .stop_signal = &stop};
  CHECK(engine::test_gpu(request, at::Device(at::kCUDA, 0), [&](const events::Event& event) {
          const auto* checked = std::get_if<events::GpuChecked>(&event);
          if (checked != nullptr && !checked->failure.empty())
            failures.push_back(checked->check + ": " + checked->failure);
        }) == 0);
  CHECK(failures == std::vector<std::string>());
}
