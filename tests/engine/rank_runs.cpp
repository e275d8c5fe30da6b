#include "engine/rank_runs.hpp"

#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/noted_communicator.hpp"
#include "support/rank_group.hpp"
#include "train/parallel/sharded_optimizer.hpp"
#include "train/state/weights.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

using namespace trainctl;

namespace rank_runs {
namespace {

using Tensors = std::vector<stage::NamedTensor>;

Tensors copies(const Tensors& tensors) {
  Tensors all;
  for (const auto& [name, tensor] : tensors) all.push_back({name, tensor.detach().clone()});
  return all;
}

/// Builds the optimizer like the engine.
std::unique_ptr<stage::Optimizer> optimizer_of(const Plan& plan, FakeRun& run) {
  stage::OptimizerContext context{run.model_in_use().parameters(), {}};
  const auto build = [&] {
    return stages::builtin_catalog().optimizers.build(
        stages_test::stage("optimizer", plan.optimizer, plan.optimizer_options), context);
  };
  const dist::RankInfo place = run.communicator->rank_info();
  if (plan.strategy != spec::Strategy::zero1) return build();
  context.owned =
      train::owned_by(train::owners_of(context.parameters, place.world_size), place.rank);
  return std::make_unique<train::ShardedOptimizer>(
      build(), context.parameters, *run.communicator,
      train::ShardedOptimizer::Sharing{64, train::ShardedOptimizer::Exchange::all_gathers});
}

void set_up(const Plan& plan, FakeRun& run, int rank) {
  const stage::Catalog catalog = stages::builtin_catalog();
  run.real_optimizer = optimizer_of(plan, run);
  run.real_scheduler =
      catalog.schedulers.build(stages_test::stage("scheduler", "constant"),
                               {run.real_optimizer->initial_lr(), plan.epochs, 2, {}});
  run.options.max_epochs = plan.epochs;
  run.options.log_every = 1;
  run.options.monitor = "val/loss";
  run.options.strategy = plan.strategy;
  run.options.sync_every = plan.sync_every;
  run.buckets.first_bytes = run.buckets.cap_bytes = 64;  // several buckets
  run.run_dir = plan.folder;
  run.resume = plan.resume;
  if (!plan.folder.empty()) run.options.saving = train::Saving{};
  if (plan.prepare) plan.prepare(run, rank);
}

/// Models are created before the ranks run, because the ranks share the global generator.
std::unique_ptr<stage::Model> model_of(const Plan& plan) {
  if (plan.model.empty()) return nullptr;
  at::manual_seed(3);
  return stages::builtin_catalog().models.build(
      stages_test::stage("model", "sequential", "{layers: " + plan.model + "}"),
      {{1, 2, 3}, 3, {}});
}

RankResult run_rank(const Plan& plan, std::unique_ptr<dist::Communicator> communicator,
                    std::unique_ptr<stage::Model> model) {
  RankResult result;
  const int rank = communicator->rank_info().rank;
  FakeRun run({.samples = plan.samples, .batch = plan.batch, .val_samples = 7},
              std::make_unique<NotedCommunicator>(std::move(communicator), result.exchanges));
  run.real_model = std::move(model);
  set_up(plan, run, rank);
  result.finished = run.run();
  for (const auto& step : run.all<events::StepLogged>()) result.losses.push_back(step.loss);
  result.weights = copies(train::weights_of(run.model_in_use()));
  result.optimizer = copies(run.real_optimizer->state());
  return result;
}

}  // namespace

std::vector<RankResult> run(const Plan& plan) {
  std::vector<RankResult> all(static_cast<std::size_t>(plan.world));
  if (plan.world == 1) {
    all[0] = run_rank(plan, dist::make_single(), model_of(plan));
    return all;
  }
  std::vector<std::unique_ptr<stage::Model>> models;
  for (int rank = 0; rank < plan.world; ++rank) models.push_back(model_of(plan));
  RankGroup group(plan.world);
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    const auto at = static_cast<std::size_t>(rank);
    all[at] = run_rank(plan, std::move(communicator), std::move(models[at]));
  });
  return all;
}

RankResult run_alone(Plan plan) {
  plan.batch *= plan.world;
  plan.world = 1;
  return run_rank(plan, dist::make_single(), model_of(plan));
}

std::filesystem::path last_of(const std::filesystem::path& folder) {
  return std::filesystem::canonical(folder / "checkpoints/last");
}

bool same_bits(const Tensors& a, const Tensors& b) {
  return std::ranges::equal(a, b, [](const stage::NamedTensor& one, const stage::NamedTensor& two) {
    const at::Tensor x = one.tensor.contiguous(), y = two.tensor.contiguous();
    return one.name == two.name && x.sizes() == y.sizes() &&
           std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
  });
}

bool all_close(const Tensors& a, const Tensors& b) {
  return std::ranges::equal(a, b, [](const stage::NamedTensor& one, const stage::NamedTensor& two) {
    return one.name == two.name && torch::allclose(one.tensor, two.tensor, 1e-4, 1e-5);
  });
}

}  // namespace rank_runs
