#include "data/memory_plan.hpp"

#include "data/varied.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

CacheBudget budget_of(spec::CacheMode mode, std::uint64_t bytes) {
  CacheBudget budget;
  budget.mode = mode;
  budget.left = bytes;
  return budget;
}

Pipeline cut_to(std::vector<std::int64_t> sides) {
  Pipeline pipeline{std::make_shared<VariedDataset>(40), {}, {}, {}};
  for (const std::int64_t side : sides)
    pipeline.transforms.push_back(std::make_shared<Corner>(side));
  return pipeline;
}

}  // namespace

TEST_CASE("the memory of a split is that of its slots, orders, cache and threads") {
  LoaderOptions options;
  options.batch_size = 8;
  options.num_workers = 3;
  options.prefetch_factor = 2;
  CacheBudget budget = budget_of(spec::CacheMode::automatic, 10'000);
  const MemoryPlan plan = memory_plan(cut_to({5, 4}), options, budget);
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
  const Loader loader(cut_to({5, 4}), options);
  CHECK(loader.memory().size() == plan.ring());
}

TEST_CASE("what does not fit is told by the plan, and the rest is planned all the same") {
  LoaderOptions options;
  options.batch_size = 8;
  options.num_workers = 4;
  const std::uint64_t slot = 8 * 4 * 4 * 3 + 8 * 8;
  options.memory_budget = 3 * slot;
  CacheBudget budget = budget_of(spec::CacheMode::decoded, 10);
  const MemoryPlan plan = memory_plan(cut_to({4}), options, budget);
  CHECK(plan.slots_wanted == 8);
  CHECK(plan.slots == 3);
  CHECK(plan.cache.bytes == 0);
  CHECK(plan.cache_need.decoded == 40 * (4 * 4 * 3 + 1));
  CHECK_THAT(plan.refusal, Contains("dataset.cache.budget"));
  CHECK(budget.left == 10);
  options.memory_budget = slot;
  CacheBudget none;
  const MemoryPlan tight = memory_plan(cut_to({4}), options, none);
  CHECK(tight.slots == 0);
  CHECK_THAT(tight.refusal, Contains("2 batch(es) of 8 samples take"));
}

TEST_CASE("a sampler's memory is counted, a sequential order needs none") {
  LoaderOptions options;
  CacheBudget none;
  options.sampling = ClassSampling{{}, 100};
  CHECK(memory_plan(cut_to({4}), options, none).orders == 4 * (40 + 200));
  options.sampling.reset();
  options.order = Order::sequential;
  CHECK(memory_plan(cut_to({4}), options, none).orders == 0);
  CHECK(memory_plan(cut_to({4}), options, none).cache.bytes == 0);
}
