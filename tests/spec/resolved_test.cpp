#include "config/schema/dump.hpp"
#include "experiment_yaml.hpp"
#include "support/catch.hpp"

namespace config = trainctl::config;
namespace spec = trainctl::spec;

namespace {

std::string plain(const spec::Loaded& loaded) {
  return config::dump(config::write_options(spec::experiment_schema(), &loaded.experiment));
}

spec::Loaded load_again(const std::string& yaml) {
  config::Diagnostics diagnostics;
  spec::Loaded loaded = spec::load_experiment_text("config.resolved.yaml", yaml, {}, diagnostics);
  CHECK(diagnostics.render().empty());
  return loaded;
}

const std::vector<std::vector<std::string>> kVariants{
    {},
    {"trainer.limit_train_batches=0.1", "trainer.limit_val_batches=3",
     "trainer.max_time=00:01:00:00", "trainer.num_threads=2"},
    {"trainer.overfit_batches=2", "trainer.gradient_clip_val=1e-3", "seed=9223372036854775807",
     "loader.pin_memory=false"},
    {"optimizer={type: adamw, betas: [0.8, 0.99], eps: 1e-12}",
     "loss={type: cross_entropy, label_smoothing: 0.1}", "model=lenet"},
    {"scheduler={type: multi_step_lr, milestones: [2, 4]}",
     "early_stopping={type: patience, mode: min}", "metrics=[accuracy, top_k_accuracy]"},
    {"dataset.train={type: mnist, root: \"a b: 'c' # d\"}", "~dataset.val", "name=\"yes: [no]\""},
};

}  // namespace

TEST_CASE("resolved experiment: is the same when read again", "[spec]") {
  for (const std::vector<std::string>& overrides : kVariants) {
    CAPTURE(overrides);
    const spec::Loaded loaded = load_valid(overrides);
    const spec::Loaded again = load_again(spec::dump_resolved(loaded));
    CHECK(plain(again) == plain(loaded));
    CHECK(spec::dump_resolved(again).size() > 1000);
  }
}

TEST_CASE("resolved experiment: shows where each value came from", "[spec]") {
  const std::string text = spec::dump_resolved(load_valid({"optimizer.lr=0.5"}));
  CHECK_THAT(text, Contains("max_epochs: 5  # valid.yaml:8\n"));
  CHECK_THAT(text, Contains("lr: 0.5  # override\n"));
  CHECK_THAT(text, Contains("batch_size: 64  # default\n"));
}

TEST_CASE("resolved experiment: is the same when read again without its defaults", "[spec]") {
  for (const std::vector<std::string>& overrides : kVariants) {
    CAPTURE(overrides);
    const spec::Loaded loaded = load_valid(overrides);
    const config::Node minimal = config::without_defaults(
        spec::resolved_tree(loaded), spec::experiment_schema(), spec::builtin_vocabulary());
    CHECK(plain(load_again(config::dump(minimal))) == plain(loaded));
  }
}
