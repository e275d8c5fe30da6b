#include "data/core/pipeline.hpp"

#include "base/machine/machine.hpp"
#include "data/fakes.hpp"
#include "data/loader/order.hpp"
#include "spec/experiment/experiment.hpp"
#include "spec/options/dataset.hpp"
#include "spec/options/transform.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

spec::DataSplit digits_with(std::vector<config::Stage> transforms) {
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

TEST_CASE("build_pipeline: normalize is left to the device and is not a transform of the loader") {
  const Pipeline pipeline =
      build_pipeline(digits_with({crop(20), flip(), normalize({0.5}, {0.25})}));
  CHECK(pipeline.dataset->size() == 20);
  CHECK(pipeline.transforms.size() == 2);
  CHECK(pipeline.normalization == Normalization{{0.5F}, {0.25F}});
  Loader loader(pipeline, {});
  CHECK(loader.layout()[0].shape == std::vector<std::int64_t>{20, 20, 1});
  CHECK(loader.classes() == 10);
}

TEST_CASE("build_pipeline: a misplaced, repeated or mismatched normalize is a config error") {
  CHECK_THAT(failure_of([] {
               build_pipeline(digits_with({normalize({0.5}, {1}), flip()}));
             }),
             Contains("2: transform 'random_horizontal_flip': no transform may follow "
                      "'normalize'\nhint: use 'normalize' once"));
  CHECK_THAT(failure_of([] {
               build_pipeline(digits_with({normalize({0.5}, {1}), normalize({0.5}, {1})}));
             }),
             Contains("transform 'normalize': no transform may follow 'normalize'"));
  CHECK_THAT(failure_of([] {
               build_pipeline(digits_with({normalize({1, 2, 3}, {1, 2, 3})}));
             }),
             Contains("mean and std must have one value per channel of the images (1), got 3 for "
                      "mean and 3 for std"));
  CHECK_THAT(
      failure_of([] {
        build_pipeline(digits_with({normalize({1, 2}, {1})}));
      }),
      Contains("mean and std must have the same number of values, one per channel, got 2 and 1"));
}

TEST_CASE("build_pipeline: a data set that is not in the catalog is an error with its name") {
  CHECK_THAT(failure_of([] { build_pipeline(digits_with({}), Catalog{}); }),
             Contains("dataset 'synthetic_digits' is not part of this build"));
}

TEST_CASE("train_batches: counts the batches of an epoch like the loader") {
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

TEST_CASE("loader_options: options depend on the experiment and the role") {
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
  const LoaderOptions test = loader_options(experiment, Role::test, {0, 1}, TrainsOn::cpu);
  CHECK(test.last_batch == LastBatch::keep);
  CHECK_FALSE(test.limit_batches);
}

TEST_CASE("loader_options: workers that share cores with the training get a lower priority") {
  spec::Experiment experiment;
  experiment.trainer.accelerator = spec::Accelerator::cpu;
  CHECK(loader_options(experiment, Role::train, {}).priority == Priority::below_trainer);
  experiment.trainer.accelerator = spec::Accelerator::gpu;
  experiment.loader.num_workers.value = usable_cores() - 1;
  CHECK(loader_options(experiment, Role::train, {}).priority == Priority::normal);
  experiment.loader.num_workers.value = usable_cores();
  CHECK(loader_options(experiment, Role::train, {}).priority == Priority::below_trainer);
}

TEST_CASE("loader_options: fast_dev_run and overfit_batches limit the batches") {
  spec::Experiment experiment;
  experiment.trainer.overfit_batches = 4;
  CHECK(loader_options(experiment, Role::train, {}, TrainsOn::cpu).limit_batches == 4);
  CHECK(loader_options(experiment, Role::train, {}, TrainsOn::cpu).order == Order::sequential);
  experiment.trainer.fast_dev_run = true;
  CHECK(loader_options(experiment, Role::train, {}, TrainsOn::cpu).limit_batches == 1);
}

TEST_CASE("loader_options: auto means no workers and 2 batches ahead before the probe") {
  const spec::Experiment experiment;
  for (const TrainsOn device : {TrainsOn::cpu, TrainsOn::gpu}) {
    const LoaderOptions options = loader_options(experiment, Role::train, {}, device);
    CHECK(options.num_workers == 0);
    CHECK(options.prefetch_factor == 2);
  }
}
