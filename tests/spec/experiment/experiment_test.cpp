#include "spec/experiment/experiment.hpp"

#include "spec/experiment_yaml.hpp"
#include "spec/options/dataset.hpp"
#include "spec/options/loss.hpp"
#include "spec/options/model.hpp"
#include "spec/options/optimizer.hpp"
#include "spec/options/transform.hpp"
#include "support/catch.hpp"

#include <filesystem>
#include <map>

namespace spec = trainctl::spec;

TEST_CASE("experiment: the defaults are those of PyTorch and Lightning", "[spec]") {
  const spec::Experiment experiment = load_valid({"~metrics", "~name"}).experiment;
  CHECK(experiment.name == "experiment");
  CHECK(experiment.loss.type == "cross_entropy");
  CHECK(experiment.loss.as<spec::loss::CrossEntropy>().label_smoothing == 0);
  CHECK(experiment.scheduler.type == "constant");
  CHECK_FALSE(experiment.early_stopping);
  CHECK(experiment.metrics.empty());
  CHECK(experiment.loader.batch_size == 64);
  CHECK(experiment.loader.num_workers.is_auto());
  CHECK(experiment.loader.prefetch_factor.is_auto());
  CHECK_FALSE(experiment.dataset.test.has_value());
  CHECK(experiment.trainer.limit_val_batches.of(10) == 10);
  REQUIRE(experiment.loggers.size() == 4);
  CHECK(experiment.loggers[0].type == "console");
  CHECK(experiment.loggers[1].type == "csv");
  CHECK(experiment.loggers[2].type == "jsonl");
  CHECK(experiment.loggers[3].type == "html");
  CHECK(load_valid({"optimizer=adamw"})
            .experiment.optimizer.as<spec::optimizer::Adamw>()
            .weight_decay == 0.01);
}

TEST_CASE("data split: contains the keys of its data set next to its transforms", "[spec]") {
  const spec::DataSplit split = load_valid({"dataset.train.samples=2000"}).experiment.dataset.train;
  CHECK(split.dataset.kind == "dataset");
  CHECK(split.dataset.as<spec::dataset::SyntheticDigits>().samples == 2000);
  REQUIRE(split.transforms.size() == 1);
  CHECK(split.transforms[0].as<spec::transform::Normalize>().mean == std::vector{0.1307});
}

TEST_CASE("data split: may be the name of a data set", "[spec]") {
  const spec::DataSplit split =
      load_valid({"dataset.train=synthetic_digits", "~dataset.val"}).experiment.dataset.train;
  CHECK(split.dataset.type == "synthetic_digits");
  CHECK(split.transforms.empty());
}

TEST_CASE("data split: the error for an unknown key lists the keys of the data set and the split",
          "[spec]") {
  CHECK_THAT(problems_of({"dataset.train.transform=[]"}),
             Contains("unknown key 'transform' in dataset 'synthetic_digits'") &&
                 Contains("'transforms'"));
}

TEST_CASE("override: a relative root of a data set starts at the current folder", "[spec]") {
  const spec::Experiment experiment =
      load_valid({"dataset.train={type: mnist, root: data/mnist}", "~dataset.val"}).experiment;
  CHECK(experiment.dataset.train.dataset.as<spec::dataset::Mnist>().root ==
        std::filesystem::current_path() / "data/mnist");
}

TEST_CASE("experiment: requires data, a model and an optimizer", "[spec]") {
  const std::string problems = problems_of({"~dataset", "~model", "~optimizer"});
  CHECK_THAT(problems, Contains("the experiment needs 'dataset'"));
  CHECK_THAT(problems, Contains("the experiment needs 'model'"));
  CHECK_THAT(problems, Contains("the experiment needs 'optimizer'"));
}

TEST_CASE("experiment: unsupported keys and values are errors with alternatives", "[spec]") {
  CHECK_THAT(problems_of({"trainer.precision=16-true"}),
             Contains("'precision' must be one of 32-true, bf16-mixed, 16-mixed"));
  CHECK_THAT(problems_of({"distributed.sync_batch_norm=true"}),
             Contains("unknown key 'sync_batch_norm'") &&
                 Contains("trainctl calls it 'trainer.sync_batchnorm'"));
  CHECK_THAT(problems_of({"trainer.amp=true"}), Contains("write 'trainer.precision: 16-mixed'"));
  CHECK_THAT(problems_of({"loggers=[wandb]"}), Contains("unknown logger 'wandb'"));
  CHECK_THAT(problems_of({"checkpoint.save_top_k=-2"}), Contains("'save_top_k' must be"));
}

TEST_CASE("loader: num_workers and prefetch_factor are integers in a range, or auto", "[spec]") {
  const spec::Loader loader =
      load_valid({"loader.num_workers=auto", "loader.prefetch_factor=3"}).experiment.loader;
  CHECK(loader.num_workers.is_auto());
  CHECK(loader.prefetch_factor.value == 3);
  for (const char* value : {"-1", "257", "2.5", "many", "true", "Auto", "[2]"}) {
    CAPTURE(value);
    CHECK_THAT(problems_of({std::string("loader.num_workers=") + value}),
               Contains("'num_workers' must be"));
  }
  for (const char* value : {"0", "65", "1.0", "some", "{auto: 2}"}) {
    CAPTURE(value);
    CHECK_THAT(problems_of({std::string("loader.prefetch_factor=") + value}),
               Contains("'prefetch_factor' must be"));
  }
}

TEST_CASE("device cache: a run on the CPU or with transforms that mix pixels is an error",
          "[spec]") {
  CHECK_THAT(problems_of({"dataset.cache.mode=device", "trainer.accelerator=cpu"}),
             Contains("trainer.accelerator is cpu") && Contains("write 'mode: decoded'"));
  CHECK_THAT(problems_of({"dataset.cache.mode=device", "dataset.train.batch_transforms=[cutmix]"}),
             Contains("batch_transforms, which mix pixels") && Contains("write 'mode: decoded'"));
  CHECK(load_valid({"dataset.cache.mode=device", "trainer.accelerator=auto"})
            .experiment.dataset.cache.mode == spec::CacheMode::device);
}

TEST_CASE("override: may set a key below a default", "[spec]") {
  const spec::Experiment experiment =
      load_valid({"loss.label_smoothing=0.1", "scheduler.warmup=1", "optimizer.betas.0=0.5",
                  "loggers=[console]", "loggers.0=csv", "~metrics", "trainer.max_epochs=7"})
          .experiment;
  CHECK(experiment.loss.as<spec::loss::CrossEntropy>().label_smoothing == 0.1);
  CHECK(experiment.scheduler.type == "constant");
  CHECK(experiment.optimizer.as<spec::optimizer::Adam>().betas == std::array{0.5, 0.999});
  CHECK(experiment.loggers.front().type == "csv");
  CHECK(experiment.loggers.size() == 1);
  CHECK_THAT(problems_of({"scheduler.step_size=3"}),
             Contains("unknown key 'step_size' in scheduler 'constant'"));
  CHECK_THAT(problems_of({"loss=~", "loss.label_smoothing=2"}),
             Contains("'label_smoothing' must be"));
  CHECK_THAT(problems_of({"early_stopping.patience=2"}), Contains("early_stopping has no 'type'"));
  CHECK_THAT(problems_of({"loggers.7=csv"}),
             Contains("the list 'loggers' (4 entries) has no entry '7'"));
}

TEST_CASE("override: a value that YAML reads as null by accident is an error", "[spec]") {
  for (const char* text : {"optimizer.lr=---", "optimizer.lr=...", "seed=&a"}) {
    CAPTURE(text);
    CHECK_FALSE(problems_of({text}).empty());
  }
  CHECK_THAT(problems_of({"seed=&a"}),
             Contains("'&a' contains no value") && Contains("write '~seed' to delete the key"));
  CHECK(problems_of({"seed=~"}).empty());
  CHECK(problems_of({"seed=null"}).empty());
}

TEST_CASE("weights: may be a path or a map, and are resolved to a map", "[spec]") {
  CHECK_FALSE(load_valid({}).experiment.weights);
  const spec::Loaded loaded = load_valid({"weights=zoo/net.pth", "freeze=[conv1, '*.bias']"});
  REQUIRE(loaded.experiment.weights);
  CHECK(loaded.experiment.weights->path == std::filesystem::current_path() / "zoo/net.pth");
  CHECK(loaded.experiment.weights->strict);
  CHECK(loaded.experiment.freeze == std::vector<std::string>{"conv1", "*.bias"});
  trainctl::config::Diagnostics diagnostics;
  const spec::Loaded again =
      spec::load_experiment_text("resolved.yaml", spec::dump_resolved(loaded), {}, diagnostics);
  CHECK(again.experiment.weights->path == loaded.experiment.weights->path);
  const spec::Loaded whole = load_valid(
      {"weights={path: /net.pth, strict: false, prefix: model., key_map: {'a.': b., head: fc}}"});
  CHECK_FALSE(whole.experiment.weights->strict);
  CHECK(whole.experiment.weights->key_map ==
        std::map<std::string, std::string>{{"a.", "b."}, {"head", "fc"}});
  CHECK_THAT(problems_of({"weights={file: x}"}), Contains("unknown key 'file'"));
  CHECK_THAT(problems_of({"weights=[x]"}), Contains("'weights' must be a map of options"));
  CHECK_THAT(problems_of({"weights=''"}), Contains("a non-empty path"));
  CHECK_THAT(problems_of({"weights={strict: false}"}), Contains("'weights' needs 'path'"));
}

TEST_CASE("weights: a name of torchvision is kept as it is written, also in the section") {
  const std::string name = "torchvision/resnet18.IMAGENET1K_V1";
  CHECK(load_valid({"weights=" + name}).experiment.weights->path == name);
  CHECK(load_valid({"weights={path: " + name + ", strict: false}"}).experiment.weights->path ==
        name);
}
