#include "data/loader/loading_plan.hpp"
#include "data/pack/jpeg_files.hpp"
#include "data/transform_of.hpp"
#include "spec/options/transform.hpp"
#include "support/catch.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

CacheBudget budget_left(spec::CacheMode mode, std::uint64_t bytes) {
  CacheBudget budget;
  budget.mode = mode;
  budget.left = bytes;
  return budget;
}

Pipeline cropped_to(std::vector<std::int64_t> sides) {
  Pipeline pipeline{std::make_shared<VariedDataset>(40), {}, {}, {}};
  for (const std::int64_t side : sides)
    pipeline.transforms.push_back(std::make_shared<Corner>(side));
  return pipeline;
}

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

/// Returns "VmRSS" or "VmHWM" in bytes.
std::uint64_t memory_of_process(const std::string& which) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(which + ":")) return std::stoull(line.substr(which.size() + 1)) * 1024;
  }
  return 0;
}

/// Returns how much the memory of a child process rises while `pipeline` makes its first batch.
std::uint64_t measured_peak(const Pipeline& pipeline, const LoaderOptions& options) {
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::uint64_t rise = 0;
    try {
      std::ofstream("/proc/self/clear_refs") << "5";  // resets VmHWM
      const std::uint64_t before = memory_of_process("VmRSS");
      Loader loader(pipeline, options);
      loader.start_epoch(0);
      if (loader.next() != nullptr) rise = memory_of_process("VmHWM") - before;
    } catch (const std::exception&) {  // the rise stays 0
    }
    ::_exit(::write(pipe[1], &rise, sizeof rise) == sizeof rise ? 0 : 1);
  }
  std::uint64_t rise = 0;
  CHECK(::read(pipe[0], &rise, sizeof rise) == sizeof rise);
  int status = 0;
  ::waitpid(child, &status, 0);
  for (const int end : pipe) ::close(end);
  return rise;
}

std::shared_ptr<const Transform> rotated() {
  spec::transform::RandomRotation options{{{45, 45}}};
  options.expand = true;
  return transform_of("random_rotation", options);
}

std::shared_ptr<const Transform> resized(int side) {
  return transform_of("resize", spec::transform::Resize{{{side, side}}, {}});
}

}  // namespace

TEST_CASE("memory_plan: the total is that of slots, orders, cache and scratch") {
  LoaderOptions options;
  options.batch_size = 8;
  options.num_workers = 3;
  options.prefetch_factor = 2;
  CacheBudget budget = budget_left(spec::CacheMode::automatic, 10'000);
  const MemoryPlan plan = memory_plan(cropped_to({5, 4}), options, budget);
  CHECK(plan.slots == 6);
  CHECK(plan.slot == 8 * 4 * 4 * 3 + 8 * 8);
  CHECK(plan.orders == 2 * 40 * 4);
  CHECK(plan.cache.tier == CacheTier::decoded);
  CHECK(plan.cache.bytes == 40 * (4 * 4 * 3 + 1));
  CHECK(budget.left == 10'000 - plan.cache.bytes);
  CHECK(plan.threads == 3);
  CHECK(plan.scratch ==
        8 * 8 * 3 + 5 * 5 * 3);  // the largest image, and one between the transforms
  CHECK(plan.total() == 6 * plan.slot + 320 + plan.cache.bytes + 3 * plan.scratch);
  const Loader loader(cropped_to({5, 4}), options);
  CHECK(loader.memory().size() == plan.ring());
}

TEST_CASE("memory_plan: a split that does not fit is reported, and the rest is planned") {
  LoaderOptions options;
  options.batch_size = 8;
  options.num_workers = 4;
  const std::uint64_t slot = 8 * 4 * 4 * 3 + 8 * 8;
  options.memory_budget = 3 * slot;
  CacheBudget budget = budget_left(spec::CacheMode::decoded, 10);
  const MemoryPlan plan = memory_plan(cropped_to({4}), options, budget);
  CHECK(plan.slots_wanted == 8);
  CHECK(plan.slots == 3);
  CHECK(plan.cache.bytes == 0);
  CHECK(plan.cache_need.decoded == 40 * (4 * 4 * 3 + 1));
  CHECK_THAT(plan.refusal, Contains("dataset.cache.budget"));
  CHECK(budget.left == 10);
  options.memory_budget = slot;
  CacheBudget none;
  const MemoryPlan tight = memory_plan(cropped_to({4}), options, none);
  CHECK(tight.slots == 0);
  CHECK_THAT(tight.refusal, Contains("2 batches of 8 samples need"));
}

TEST_CASE("memory_plan: a sampler needs memory, a sequential order needs none") {
  LoaderOptions options;
  CacheBudget none;
  options.sampling = ClassSampling{{}, 100};
  CHECK(memory_plan(cropped_to({4}), options, none).orders == 4 * (40 + 200));
  options.sampling.reset();
  options.order = Order::sequential;
  CHECK(memory_plan(cropped_to({4}), options, none).orders == 0);
  CHECK(memory_plan(cropped_to({4}), options, none).cache.bytes == 0);
}

TEST_CASE("memory_plan: the measured peak for a photograph of 30 megapixels is within the plan") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  skip("a sanitizer adds memory to the process");
#endif
  const ImageShape shape{5000, 6000, 3};
  const auto photograph = std::make_shared<const FileDataset>(
      std::vector<std::vector<std::byte>>{jpeg_file(shape, 1, Scans::baseline)});
  LoaderOptions options;
  options.batch_size = 1;
  const auto blurred = transform_of("gaussian_blur", spec::transform::GaussianBlur{{{5}}});
  const auto augmented = transform_of("rand_augment", spec::transform::RandAugment{});
  for (const auto& steps : {std::vector{resized(64)}, std::vector{blurred, resized(64)},
                            std::vector{augmented, resized(64)}}) {
    const Pipeline pipeline{photograph, steps};
    CacheBudget none;
    const MemoryPlan plan = memory_plan(pipeline, options, none);
    const std::uint64_t measured = measured_peak(pipeline, options);
    CAPTURE(steps.size(), plan.total() / kMiB, measured / kMiB);
    CHECK(measured > shape.bytes() / 2);
    CHECK(measured <= plan.total() + 8 * kMiB);  // libjpeg and the allocator
    CHECK(plan.total() <= 2 * measured + 8 * kMiB);
  }
}

TEST_CASE("memory_plan: scratch includes images that a rotation enlarges") {
  const auto dataset = std::make_shared<const FileDataset>(
      std::vector<std::vector<std::byte>>{jpeg_file({300, 400, 3}, 1, Scans::baseline)});
  LoaderOptions options;
  options.batch_size = 1;
  CacheBudget none;
  const std::uint64_t plain = memory_plan({dataset, {resized(64)}}, options, none).scratch;
  const std::uint64_t grown =
      memory_plan({dataset, {rotated(), resized(64)}}, options, none).scratch;
  CHECK(grown >= plain + std::uint64_t{500} * 500 * 3);
}
