#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/program.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

// `explain` by name, and what a wrong command line is told to write.

namespace {

const std::string kRepository = TRAINCTL_SOURCE_DIR;

std::string explained(const std::vector<std::string>& names) {
  std::vector<std::string> words{"explain"};
  words.insert(words.end(), names.begin(), names.end());
  const ProgramRun run = run_program(words);
  CAPTURE(names, run.err);
  CHECK(run.exit_code == 0);
  return run.out;
}

std::string refused_command(const std::vector<std::string>& words) {
  const ProgramRun run = run_program(words);
  CAPTURE(words, run.out);
  CHECK(run.exit_code == 2);
  return run.err;
}

}  // namespace

TEST_CASE("explain: finds a stage by its name alone", "[smoke]") {
  CHECK_THAT(explained({"mixup"}),
             StartsWith("batch_transform.mixup: ") &&
                 Contains("dataset: {train: {batch_transforms: [{type: mixup"));
  CHECK_THAT(explained({"mixup.alpha"}), StartsWith("batch_transform.mixup.alpha: "));
  CHECK_THAT(explained({"cosine"}), StartsWith("scheduler.cosine_annealing_lr: "));
  CHECK_THAT(explained({"AdamW"}), StartsWith("optimizer.adamw: "));
  CHECK_THAT(explained({"linear"}), Contains("layer.linear: ") && Contains("model.linear: "));
}

TEST_CASE("explain: finds a key by its last part, or by another program's word", "[smoke]") {
  CHECK_THAT(explained({"max_epochs"}), StartsWith("trainer.max_epochs: "));
  CHECK_THAT(explained({"epochs"}), StartsWith("trainer.max_epochs: "));
  CHECK_THAT(explained({"num_classes"}), Contains("the number of classes comes from the data"));
  CHECK_THAT(explained({"patience"}),
             Contains("stopper.patience: ") && Contains("scheduler.patience: "));
}

TEST_CASE("explain: lists every default where stages differ", "[smoke]") {
  const std::string text = explained({"optimizer.lr"});
  CHECK_THAT(text, Contains(" in ") && Contains("adam") && Contains("sgd"));
  const trainctl::Json json = run_program({"explain", "optimizer.lr", "--json"}).json();
  CHECK(json["defaults"].size() == json["of"].size());
  CHECK(json["defaults"]["adam"] == "0.001");
  CHECK(run_program({"explain", "optimizer.adam.lr", "--json"}).json()["defaults"].empty());
}

TEST_CASE("explain: finds every verb", "[smoke]") {
  for (const std::string verb : {"run", "bench", "lr-find", "doctor", "check", "data"})
    CHECK_THAT(explained({verb}), Contains("  type     verb\n") && Contains("usage    trainctl "));
  CHECK_THAT(explained({"data", "hash"}), StartsWith("hash: ") && Contains("--world-size"));
  CHECK_THAT(explained({"checkpoint"}), Contains("type     section") && Contains("type     verb"));
  const trainctl::Json json = run_program({"explain", "checkpoint", "--json"}).json();
  CHECK(json["also"].size() == 1);
  CHECK(json["also"][0]["type"] == "verb");
}

TEST_CASE("explain: finds every exit code", "[smoke]") {
  for (const char* code :
       {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "75", "93", "130", "143"})
    CHECK_THAT(explained({code}), Contains("type     exit code"));
  CHECK_THAT(explained({"exit", "code", "6"}), StartsWith("6: diverged"));
  CHECK_THAT(explained({"exit code 6"}), StartsWith("6: diverged"));
}

TEST_CASE("explain: finds every metric and every column of timing.csv", "[smoke]") {
  CHECK_THAT(explained({"accuracy"}), StartsWith("metric.accuracy: "));
  CHECK_THAT(explained({"val/accuracy"}),
             StartsWith("metric.accuracy: ") && Contains("type     value"));
  std::ifstream file(kRepository + "/tests/golden/report/timing.csv");
  std::string header;
  REQUIRE(std::getline(file, header));
  std::stringstream columns(header);
  for (std::string column; std::getline(columns, column, ',');) explained({column});
}

TEST_CASE("explain: an unknown name gets the closest one", "[smoke]") {
  CHECK_THAT(refused_command({"explain", "samples_per_sec"}),
             Contains("did you mean 'samples_per_s'?"));
  CHECK_THAT(refused_command({"explain", "trainer.max_epoch"}), Contains("trainer.max_epochs"));
  const auto meant = [](const std::string& name) { return refused_command({"explain", name}); };
  CHECK_THAT(meant("cosne_annealing_lr"), Contains("did you mean 'cosine_annealing_lr'?"));
  CHECK_THAT(meant("acuracy"), Contains("did you mean 'accuracy'?"));
  CHECK_THAT(meant("label_smothing"), Contains("did you mean 'label_smoothing'?"));
  CHECK_THAT(meant("resnet19"), Contains("did you mean 'resnet18'?"));
  CHECK_THAT(meant("max_epoch"), Contains("did you mean 'max_epochs'?"));
  CHECK_THAT(meant("validat"), Contains("did you mean 'validate'?"));
  CHECK_THAT(meant("data hsh"), Contains("did you mean 'data hash'?"));
  CHECK_THAT(meant("lern_rate"), Contains("did you mean 'learn_rate'?"));
  CHECK_THAT(meant("cosne"), Contains("did you mean 'cosine'?"));
  CHECK_THAT(meant("learning_rte"), Contains("did you mean 'learning_rate'?"));
}

TEST_CASE("explain: a name that is suggested is explained", "[smoke]") {
  for (const char* name : {"data hash", "learn_rate", "cosine", "learning_rate", "check"})
    explained({name});
  for (const char* name : {"worke", "worker"})
    CHECK_THAT(refused_command({"explain", name}), !Contains("'worker'?"));
}

TEST_CASE("a verb of another program gets ours", "[smoke]") {
  CHECK_THAT(refused_command({"train"}), Contains("unknown verb 'train'; did you mean 'run'?"));
  CHECK_THAT(refused_command({"fit", "x.yaml"}), Contains("did you mean 'run'?"));
  CHECK_THAT(refused_command({"trian"}), Contains("did you mean 'run'?"));
  CHECK_THAT(refused_command({"test"}), Contains("did you mean 'eval --split test'?"));
  CHECK_THAT(refused_command({"evaluate"}), Contains("did you mean 'eval'?"));
  CHECK_THAT(refused_command({"benchmark"}), Contains("did you mean 'bench'?"));
  CHECK_THAT(refused_command({"data", "sho"}), Contains("did you mean 'show'?"));
}

TEST_CASE("a file or an override without a verb gets the verb", "[smoke]") {
  CHECK_THAT(refused_command({"mnist.yaml"}), Contains("did you mean 'trainctl run mnist.yaml'?"));
  CHECK_THAT(refused_command({"optimizer.lr=0.1"}), Contains("'trainctl run optimizer.lr=0.1'"));
  CHECK_THAT(refused_command({"builtin:photographs"}),
             Contains("'trainctl run builtin:photographs'"));
}

TEST_CASE("a flag that is a key of the experiment gets the override", "[smoke]") {
  CHECK_THAT(refused_command({"--lr", "0.1"}), Contains("write 'trainctl run optimizer.lr=0.1'"));
  CHECK_THAT(refused_command({"--max-epochs=3"}),
             Contains("write 'trainctl run trainer.max_epochs=3'"));
  const auto config = kRepository + "/configs/quickstart.yaml";
  CHECK_THAT(refused_command({"run", config, "--lr", "0.1"}),
             Contains("unknown flag '--lr'") && Contains("write 'optimizer.lr=0.1'"));
  CHECK_THAT(refused_command({"run", "--lr", "0.1"}), Contains("write 'optimizer.lr=0.1'"));
  CHECK_THAT(refused_command({"run", config, "--lr=0.1"}), Contains("write 'optimizer.lr=0.1'"));
  CHECK_THAT(refused_command({"run", config, "--max-epochs", "3"}),
             Contains("write 'trainer.max_epochs=3'"));
  CHECK_THAT(refused_command({"plan", config, "--trainer.max_epochs", "3"}),
             Contains("write 'trainer.max_epochs=3'"));
  CHECK_THAT(refused_command({"run", config, "--batch-size", "8"}),
             Contains("'loader.batch_size=8'"));
  CHECK_THAT(refused_command({"run", config, "--amp"}),
             Contains("write 'trainer.precision=16-mixed'"));
  CHECK_THAT(refused_command({"--fp16"}),
             Contains("write 'trainctl run trainer.precision=16-mixed'"));
  CHECK_THAT(refused_command({"run", config, "--patience", "3"}),
             Contains("write 'early_stopping={type: patience, patience: 3}'"));
  CHECK_THAT(refused_command({"run", config, "--persistent-workers"}), Contains("remove the flag"));
  CHECK_THAT(refused_command({"run", config, "--name", "foo"}), Contains("write 'name=foo'"));
  CHECK_THAT(refused_command({"--name", "foo"}), Contains("write 'trainctl run name=foo'"));
  CHECK_THAT(refused_command({"version", "--lr", "0.1"}), !Contains("optimizer.lr"));
}
