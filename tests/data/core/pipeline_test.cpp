#include "data/core/pipeline.hpp"

#include "base/machine/machine.hpp"
#include "data/fakes.hpp"
#include "data/loader/order.hpp"
#include "spec/experiment/run_size.hpp"
#include "spec/options/dataset.hpp"
#include "spec/options/transform.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

spec::DataSplit digits(std::vector<config::Stage> transforms) {
  spec::dataset::SyntheticDigits options;
  options.samples = 20;
  return {config::make_stage("dataset", "synthetic_digits", options), std::move(transforms)};
}

config::Stage normalize(std::vector<double> mean, std::vector<double> std) {
  return config::make_stage("transform", "normalize",
                            spec::transform::Normalize{std::move(mean), std::move(std)});
}

config::Stage flip() {
  return config::make_stage("transform", "random_horizontal_flip",
                            spec::transform::RandomHorizontalFlip{});
}

config::Stage crop(int size) {
  spec::transform::RandomCrop options;
  options.size = {{size}};
  return config::make_stage("transform", "random_crop", options);
}

}  // namespace

TEST_CASE("a split becomes a pipeline whose normalization is left to the device") {
  const Pipeline pipeline = build_pipeline(digits({crop(20), flip(), normalize({0.5}, {0.25})}));
  CHECK(pipeline.dataset->size() == 20);
  CHECK(pipeline.transforms.size() == 2);
  CHECK(pipeline.normalization == Normalization{{0.5F}, {0.25F}});
  Loader loader(pipeline, {});
  CHECK(loader.layout()[0].shape == std::vector<std::int64_t>{20, 20, 1});
  CHECK(loader.classes() == 10);
}

TEST_CASE(
    "a transform after normalize, a second normalize and wrong channels are config errors that "
    "name it") {
  CHECK_THAT(failure_of([] {
               build_pipeline(digits({normalize({0.5}, {1}), flip()}));
             }),
             Contains("2: transform 'random_horizontal_flip': it comes after 'normalize', which "
                      "must be the last"));
  CHECK_THAT(failure_of([] {
               build_pipeline(digits({normalize({0.5}, {1}), normalize({0.5}, {1})}));
             }),
             Contains("transform 'normalize': it comes after 'normalize'"));
  CHECK_THAT(failure_of([] {
               build_pipeline(digits({normalize({1, 2, 3}, {1, 2, 3})}));
             }),
             Contains("mean and std must have one value for each of the 1 channel(s) of the "
                      "images, got 3 and 3"));
  CHECK_THAT(failure_of([] {
               build_pipeline(digits({normalize({1, 2}, {1})}));
             }),
             Contains("mean and std must have one value per channel each, got 2 and 1"));
}

TEST_CASE("a stage that the catalog does not hold is refused by name") {
  CHECK_THAT(failure_of([] { build_pipeline(digits({}), Catalog{}); }),
             Contains("dataset 'synthetic_digits' is not part of this build"));
}

TEST_CASE("the checks count the batches of an epoch as the loader does") {
  for (const bool drop_last : {false, true}) {
    for (const std::int64_t overfit : {0, 3, 1000}) {
      for (const double share : {1.0, 0.3, 0.001}) {
        for (const int ranks : {1, 2, 3}) {
          spec::Experiment experiment;
          experiment.loader.drop_last = drop_last;
          experiment.trainer.overfit_batches = overfit;
          experiment.trainer.limit_train_batches.fraction = share;
          CAPTURE(drop_last, overfit, share, ranks);
          const BatchPlan plan(1001, loader_options(experiment, Role::train, {0, ranks}));
          CHECK(spec::train_batches(experiment, 1001, ranks) == plan.batches());
        }
      }
    }
  }
}

TEST_CASE("loader options follow the experiment and the role") {
  spec::Experiment experiment;
  experiment.seed = 5;
  experiment.loader.batch_size = 32;
  experiment.loader.num_workers.value = 3;
  experiment.loader.drop_last = true;
  experiment.trainer.limit_train_batches.fraction = 0.5;
  experiment.trainer.limit_val_batches.batches = 7;
  const LoaderOptions train = loader_options(experiment, Role::train, {1, 2}, TrainsOn::cpu);
  CHECK(train.batch_size == 32);
  CHECK(train.num_workers == 3);
  CHECK(train.seed == 5);
  CHECK(train.order == Order::shuffled);
  CHECK(train.last_batch == LastBatch::drop);
  CHECK(train.limit_fraction == 0.5);
  CHECK(train.shard.rank == 1);
  const LoaderOptions evaluate = loader_options(experiment, Role::evaluate, {0, 1}, TrainsOn::cpu);
  CHECK(evaluate.order == Order::sequential);
  CHECK(evaluate.last_batch == LastBatch::keep);
  CHECK(evaluate.limit_batches == 7);
}

TEST_CASE("loader threads give way to the training where they share its cores") {
  spec::Experiment experiment;
  experiment.trainer.accelerator = spec::Accelerator::cpu;
  CHECK(loader_options(experiment, Role::train, {}).priority == Priority::below_trainer);
  experiment.trainer.accelerator = spec::Accelerator::gpu;
  experiment.loader.num_workers.value = usable_cores() - 1;
  CHECK(loader_options(experiment, Role::train, {}).priority == Priority::normal);
  experiment.loader.num_workers.value = usable_cores();
  CHECK(loader_options(experiment, Role::train, {}).priority == Priority::below_trainer);
}

TEST_CASE("a quick run and an overfit run limit the batches") {
  spec::Experiment experiment;
  experiment.trainer.overfit_batches = 4;
  CHECK(loader_options(experiment, Role::train, {}, TrainsOn::cpu).limit_batches == 4);
  CHECK(loader_options(experiment, Role::train, {}, TrainsOn::cpu).order == Order::sequential);
  experiment.trainer.fast_dev_run = true;
  CHECK(loader_options(experiment, Role::train, {}, TrainsOn::cpu).limit_batches == 1);
}

TEST_CASE("what is auto has no threads till it was measured") {
  const spec::Experiment experiment;
  for (const TrainsOn device : {TrainsOn::cpu, TrainsOn::gpu}) {
    const LoaderOptions options = loader_options(experiment, Role::train, {}, device);
    CHECK(options.num_workers == 0);
    CHECK(options.prefetch_factor == 2);
  }
}
