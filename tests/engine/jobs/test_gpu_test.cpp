#include "device/device.hpp"
#include "engine/engine_run.hpp"
#include "support/catch.hpp"

#include <set>
#include <string>

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

TEST_CASE("gpu self-test: all checks pass on GPU 0", "[gpu]") {
  if (device::cuda_devices() == 0) skip("no GPU");
  const TempFolder folder;
  const engine_run::Ended ended = engine_run::run_engine(folder, "", 0, "gpu", "gpu");
  CHECK(ended.code == 0);
  int passed = 0;
  for (const events::Event& event : ended.events) {
    const auto* checked = std::get_if<events::GpuChecked>(&event);
    if (checked == nullptr || !checked->done) continue;
    CAPTURE(checked->check, checked->failure);
    CHECK(checked->failure.empty());
    ++passed;
  }
  CHECK(passed == 13);
}
