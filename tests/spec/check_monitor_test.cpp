#include "experiment_yaml.hpp"
#include "spec/experiment/experiment.hpp"
#include "support/catch.hpp"

namespace spec = trainctl::spec;
using Catch::Matchers::Equals;

TEST_CASE("monitor: an unknown value is an error with a suggestion", "[spec]") {
  const std::string stop = "early_stopping={type: patience, monitor: ";
  CHECK_THAT(problems_of({stop + "val/accuracy}"}), Equals(""));
  CHECK_THAT(
      problems_of({stop + "val_loss}"}),
      Contains("'early_stopping.monitor' is 'val_loss'") && Contains("did you mean 'val/loss'?"));
  CHECK_THAT(problems_of({stop + "val/acc}"}), Contains("did you mean 'val/accuracy'?"));
  CHECK_THAT(problems_of({stop + "val/f1}"}),
             Contains("this run computes no value with this name"));
  CHECK_THAT(problems_of({"checkpoint.monitor=val/top_5_accuracy"}),
             Contains("'checkpoint.monitor' is 'val/top_5_accuracy'"));
  CHECK_THAT(problems_of({"checkpoint.monitor=val/top_5_accuracy", "metrics=[top_k_accuracy]"}),
             Equals(""));
}

TEST_CASE("monitor: values of val/ require validation", "[spec]") {
  CHECK_THAT(problems_of({"early_stopping=patience", "~dataset.val"}),
             Contains("'early_stopping.monitor' is 'val/loss', but this run has no validation") &&
                 Contains("add 'dataset.val'"));
  CHECK_THAT(problems_of({"scheduler=reduce_lr_on_plateau", "trainer.limit_val_batches=0"}),
             Contains("'scheduler.monitor' is 'val/loss'") &&
                 Contains("raise 'trainer.limit_val_batches'"));
  CHECK_THAT(problems_of({"early_stopping={type: patience, monitor: train/loss}", "~dataset.val"}),
             Equals(""));
}

TEST_CASE("monitor: a mode that contradicts the monitor is an error", "[spec]") {
  CHECK_THAT(problems_of({"checkpoint={monitor: val/accuracy, mode: min}"}),
             Contains("mode 'min' contradicts 'val/accuracy', where higher is better"));
  CHECK_THAT(problems_of({"checkpoint={monitor: val/loss, mode: max}"}),
             Contains("lower is better"));
  CHECK(problems_of({"checkpoint={monitor: val/accuracy, mode: auto}"}).empty());
}

TEST_CASE("checkpoint.monitor: the default is the monitor of early stopping, else the loss",
          "[spec]") {
  CHECK_THAT(problems_of({"checkpoint.mode=max"}), Contains("mode 'max' contradicts 'val/loss'"));
  CHECK_THAT(problems_of({"checkpoint.mode=min",
                          "early_stopping={type: patience, monitor: train/accuracy}"}),
             Contains("mode 'min' contradicts 'train/accuracy'"));
  CHECK_THAT(
      problems_of({"checkpoint.mode=min", "early_stopping={type: patience, monitor: val/acc}"}),
      Contains("1 error in"));
  CHECK(spec::checkpoint_monitor(load_valid({"~dataset.val"}).experiment) == "train/loss");
}

TEST_CASE("monitor: mode auto depends on the monitor's name", "[spec]") {
  CHECK(spec::mode_for("val/loss") == spec::Mode::min);
  CHECK(spec::mode_for("train/top_5_accuracy") == spec::Mode::max);
  CHECK(spec::resolve_mode({spec::Mode::max}, "val/loss") == spec::Mode::max);
  CHECK(spec::resolve_mode({}, "val/loss") == spec::Mode::min);
}

TEST_CASE("monitor: an unknown metric causes no second error about the monitor", "[spec]") {
  const std::string problems =
      problems_of({"metrics=[acuracy]", "checkpoint.monitor=val/accuracy"});
  CHECK_THAT(problems, Contains("unknown metric 'acuracy'"));
  CHECK_THAT(problems, !Contains("monitor"));
}

TEST_CASE("monitor: with an unknown metric, a monitor that no metric can provide is still an error",
          "[spec]") {
  const auto problems = [](const std::string& monitor) {
    return problems_of({"metrics=[acuracy, bleu]", "checkpoint.monitor=" + monitor});
  };
  CHECK_THAT(problems("val/acc"),
             Contains("'checkpoint.monitor' is 'val/acc'") && Contains("3 errors"));
  CHECK_THAT(problems("val_loss"), Contains("did you mean 'val/loss'?"));
  CHECK_THAT(problems("val/bleu"), Contains("2 errors"));
  CHECK_THAT(problems("train/top_5_accuracy"), Contains("2 errors"));
}

TEST_CASE("early_stopping: divergence must monitor a loss", "[spec]") {
  const std::string stop = "early_stopping={type: divergence, monitor: ";
  CHECK_THAT(problems_of({"early_stopping=divergence"}), Equals(""));
  CHECK_THAT(problems_of({stop + "val/loss}"}), Equals(""));
  CHECK_THAT(
      problems_of({stop + "val/accuracy}"}),
      Contains(
          "'early_stopping.monitor' must name a loss, got 'val/accuracy', where higher is better"));
  CHECK_THAT(problems_of({stop + "val/f1}"}),
             Contains("this run computes no value with this name"));
  CHECK_THAT(problems_of({"early_stopping={type: divergence, factor: 1}"}), Contains("factor"));
}
