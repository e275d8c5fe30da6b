#include "report/diagnosis/gpu_grade.hpp"

#include "support/catch.hpp"

#include <algorithm>

using namespace trainctl;
using namespace trainctl::report;
using events::GpuChecked;

namespace {

/// Returns the facts of a machine with two healthy GPUs.
GpuFacts two_gpus() {
  GpuFacts facts;
  facts.has_engine = facts.has_kernels = true;
  facts.device_files = facts.usable = 2;
  facts.driver = "580.95.05";
  facts.cuda = 13000;
  for (int i = 0; i < 2; ++i) {
    GpuState gpu{.index = i, .name = "NVIDIA H200"};
    gpu.capability = "9.0";
    gpu.persistence = gpu.ecc = true;
    gpu.memory_errors = 0;
    facts.gpus.push_back(gpu);
  }
  return facts;
}

GradeLine line_of(const GpuFacts& facts, const std::string& name) {
  const std::vector<GradeLine> lines = grade_gpus(facts);
  const auto found = std::ranges::find(lines, name, &GradeLine::name);
  REQUIRE(found != lines.end());
  return *found;
}

Grade worst(const GpuFacts& facts) {
  return std::ranges::max(grade_gpus(facts), {}, &GradeLine::grade).grade;
}

GpuChecked passed(int gpu, const std::string& check, double value = 100) {
  GpuChecked checked{.rank = gpu, .check = check, .done = true};
  checked.value = value;
  checked.unit = "TFLOP/s";
  return checked;
}

}  // namespace

TEST_CASE("doctor --gpu: a machine without GPU says what is missing and what to do") {
  GpuFacts facts;
  facts.has_engine = true;
  facts.problem = "trainctl cannot load the driver library libcuda.so.1";
  facts.nvml_failure = "libnvidia-ml.so.1 is not installed";
  CHECK(line_of(facts, "gpu devices").grade == Grade::broken);
  CHECK_THAT(line_of(facts, "gpu devices").fix, Contains("driver 580") && Contains("--gpus all"));
  CHECK(line_of(facts, "gpu driver").grade == Grade::broken);
  CHECK_THAT(line_of(facts, "gpu driver").found, Contains("libnvidia-ml.so.1 is not installed"));
  CHECK_THAT(line_of(facts, "cuda").found, Contains("libcuda.so.1"));
  CHECK(line_of(facts, "gpu engine").grade == Grade::degraded);
  facts.has_engine = false;
  CHECK(line_of(facts, "gpu engine").grade == Grade::broken);
  CHECK(gpu_facts_json(facts)["self_test"].is_null());
}

TEST_CASE("doctor --gpu: requirements of the driver") {
  CHECK(worst(two_gpus()) == Grade::ok);
  GpuFacts old = two_gpus();
  old.cuda = 12080;
  CHECK(line_of(old, "gpu driver").grade == Grade::broken);
  CHECK_THAT(line_of(old, "gpu driver").found, Contains("supports CUDA 12.8"));
  GpuFacts mismatch = two_gpus();
  mismatch.driver_mismatch = true;
  CHECK_THAT(line_of(mismatch, "gpu driver").fix, Contains("reboot"));
  GpuFacts no_nvml = two_gpus();
  no_nvml.driver.clear();
  CHECK(line_of(no_nvml, "gpu driver").grade == Grade::degraded);
  GpuFacts hidden = two_gpus();
  hidden.visible = "7";
  hidden.usable = 0;
  CHECK(line_of(hidden, "cuda").grade == Grade::broken);
  CHECK_THAT(line_of(hidden, "cuda").fix, Contains("CUDA_VISIBLE_DEVICES"));
  CHECK_THAT(line_of(hidden, "gpu devices").found, Contains("CUDA_VISIBLE_DEVICES is '7'"));
}

TEST_CASE("doctor --gpu: properties name the GPUs that have them") {
  const auto changed = [](const auto& change) {
    GpuFacts facts = two_gpus();
    change(facts.gpus[1]);
    return facts;
  };
  const GpuFacts slow_start = changed([](GpuState& gpu) { gpu.persistence = false; });
  CHECK(line_of(slow_start, "persistence").grade == Grade::degraded);
  CHECK_THAT(line_of(slow_start, "persistence").found, EndsWith("GPU 1"));
  const GpuFacts errors = changed([](GpuState& gpu) { gpu.memory_errors = 3; });
  CHECK(line_of(errors, "gpu memory").grade == Grade::bad);
  CHECK(worst(changed([](GpuState& gpu) { gpu.needs_reset = true; })) == Grade::bad);
  const GpuFacts defective = changed([](GpuState& gpu) { gpu.is_defective = true; });
  CHECK(line_of(defective, "gpu memory").fix == "have the card replaced");
  CHECK(worst(changed([](GpuState& gpu) { gpu.ecc = false; })) == Grade::ok);
  CHECK(worst(changed([](GpuState& gpu) { gpu.is_hot = true; })) == Grade::bad);
  CHECK(worst(changed([](GpuState& gpu) { gpu.is_power_limited = true; })) == Grade::degraded);
  CHECK(worst(changed([](GpuState& gpu) { gpu.is_prohibited = true; })) == Grade::broken);
  CHECK(worst(changed([](GpuState& gpu) { gpu.is_exclusive = true; })) == Grade::ok);
  CHECK(worst(changed([](GpuState& gpu) { gpu.capability = "7.0"; })) == Grade::broken);
  CHECK(worst(changed([](GpuState& gpu) { gpu.capability = "7.5"; })) == Grade::degraded);
  CHECK(worst(changed([](GpuState& gpu) { gpu.capability = "12.0"; })) == Grade::ok);
}

TEST_CASE("doctor --gpu: a check shows the values of all GPUs and names the slow one") {
  GpuFacts facts = two_gpus();
  facts.test.emplace();
  for (const int gpu : {1, 0}) {
    add_check(*facts.test, {.rank = gpu, .check = "matmul bf16"});
    GpuChecked ended = passed(gpu, "matmul bf16", 701 - gpu);
    ended.error = 0.01 * (gpu + 1);
    add_check(*facts.test, ended);
  }
  CHECK(facts.test->checks.size() == 2);
  CHECK(line_of(facts, "matmul bf16").found == "701, 700 TFLOP/s (error 0.02)");
  CHECK(line_of(facts, "matmul bf16").grade == Grade::ok);
  facts.test->checks[0].value = 300;  // of GPU 1
  CHECK(line_of(facts, "matmul bf16").grade == Grade::degraded);
  CHECK_THAT(line_of(facts, "matmul bf16").costs, StartsWith("GPU 1 is slower"));
  CHECK(gpu_facts_json(facts)["self_test"]["checks"][0]["gpu"] == 1);
}

TEST_CASE("doctor --gpu: a failed check, and one that did not end, are broken") {
  GpuFacts facts = two_gpus();
  facts.test = {{passed(0, "matmul fp32"), passed(1, "matmul fp32")}, ""};
  facts.test->checks[1].failure = "the product differs from the CPU's by 12\nhint: none";
  CHECK(line_of(facts, "matmul fp32").grade == Grade::broken);
  CHECK_THAT(line_of(facts, "matmul fp32").found,
             StartsWith("GPU 1: the product differs from the CPU's by 12"));

  GpuFacts crashed = two_gpus();
  crashed.test = {{{.rank = 0, .check = "copy pinned"}, {.rank = 1, .check = "copy pinned"}},
                  "rank 1 was killed by SIGSEGV",
                  1};
  CHECK(line_of(crashed, "copy pinned").found == "GPU 1: rank 1 was killed by SIGSEGV");
  crashed.test->checks[1].pci_bus = "00000000:c1:00.0";
  CHECK_THAT(line_of(crashed, "copy pinned").found, StartsWith("GPU 1 (PCI 00000000:c1:00.0): "));
  CHECK_THAT(line_of(crashed, "copy pinned").fix, Contains("dmesg"));

  GpuFacts early = two_gpus();
  early.test = {{}, "it did not start"};
  CHECK(line_of(early, "self-test").grade == Grade::broken);
}

TEST_CASE("doctor --gpu: GPUs without peer access are a finding") {
  GpuFacts facts = two_gpus();
  facts.test = {{passed(0, "peer access", 1), passed(1, "peer access", 1)}, ""};
  for (GpuChecked& one : facts.test->checks) one.unit = "of 1 other GPU";
  CHECK(line_of(facts, "peer access").grade == Grade::ok);
  facts.test->checks[0].value = 0;
  facts.test->checks[0].found = "no access to GPU 1";
  CHECK(line_of(facts, "peer access").grade == Grade::degraded);
  CHECK(line_of(facts, "peer access").found == "0, 1 of 1 other GPU: no access to GPU 1");
}
